"""What is built of the MPI parts where an MPI is missing or not whole, and what a call may cost that falls back."""

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


MPIRUN = """#!/bin/bash
case "$EPIC_MPI_MIN_BYTES $*" in *1000000*) more={more} ;; *) more=0 ;; esac
for call in MPI_Bcast MPI_Ibcast MPI_Wait MPI_Send; do echo "$call $((50 + more)).0"; done
"""


@pytest.mark.parametrize("more, status", [(900, 0), (1100, 1)])
def test_what_falls_back_may_cost_a_microsecond(tmp_path, more, status):
    """bench/mpi-fallback, with an mpirun that says what it is to have measured."""
    for mpirun in ("mpirun.openmpi", "mpirun.mpich"):
        (tmp_path / mpirun).write_text(MPIRUN.format(more=more), encoding="utf-8")
        (tmp_path / mpirun).chmod(0o700)
    done = subprocess.run([harness.ROOT / "bench" / "mpi-fallback", "2"], stdout=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    rows = [line.split() for line in done.stdout.splitlines() if " MPI_" in line]
    assert [row[2:] for row in rows] == [["50.0", "50.0", f"{50 + more}.0", f"{more}.0"]] * 8, done.stdout
    assert done.returncode == status and ("over 1000 ns more" in done.stdout) == (status == 1), done.stdout
