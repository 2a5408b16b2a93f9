"""What is built of the MPI parts where an MPI is missing or not whole."""

import os
import subprocess

import harness
import pytest

CMAKE = ["cmake", "-S", harness.ROOT, "-G", "Ninja"]


def package(name, version, include):
    return f"Name: {name}\nDescription: {name}\nVersion: {version}\nCflags: -I{include}\nLibs: -lm\n"


@pytest.mark.parametrize("openmpi, says", [
    ("4.1.4", "MPI: Open MPI is here without the headers of its components: mca_coll_epic.so is not built"),
    ("5.0.0", "MPI: no Open MPI 4.1 with its headers (libopenmpi-dev): mca_coll_epic.so is not built")])
def test_without_an_mpi_the_rest_is_built(tmp_path, openmpi, says):
    """pkg-config finds these before the ones that are installed."""
    (tmp_path / "ompi-c.pc").write_text(package("ompi-c", openmpi, tmp_path), encoding="utf-8")
    (tmp_path / "mpich.pc").write_text(package("mpich", "3.4", tmp_path), encoding="utf-8")
    done = subprocess.run([*CMAKE, "-B", tmp_path / "build"], env={**os.environ, "PKG_CONFIG_PATH": str(tmp_path)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and f"-- {says}\n" in done.stdout, done.stdout
    assert "-- MPI: no MPICH 4 with its headers (libmpich-dev): libepic_mpi.so is not built\n" in done.stdout, done.stdout
