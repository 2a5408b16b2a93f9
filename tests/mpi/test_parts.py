"""What is built of the MPI parts, and of PyTorch's, where something is missing or not whole, and what a call may cost that falls back."""

import os
import subprocess

import harness
import launcher
import pytest

CMAKE = ["cmake", "-S", harness.ROOT, "-G", "Ninja"]


def package(name, version, include):
    return f"Name: {name}\nDescription: {name}\nVersion: {version}\nCflags: -I{include}\nLibs: -lm\n"


@pytest.mark.in_turn(2)
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


def configure_without(hidden, build):
    """What cmake says where these files and folders are not; those that are not installed need not be hidden."""
    hide = [f"mount -t tmpfs none {path}" if os.path.isdir(path) else f"mount --bind /dev/null {path}"
            for path in hidden if os.path.exists(path)]
    # A machine's others do not notice.
    done = subprocess.run(["unshare", "--mount", "sh", "-ec", "\n".join([*hide, 'exec "$@"']), "sh", *CMAKE, "-B", build],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


PKG_CONFIG = "/usr/lib/x86_64-linux-gnu/pkgconfig"
NO_OPEN_MPI = "MPI: no Open MPI 4.1 with its headers (libopenmpi-dev): mca_coll_epic.so is not built"
NO_MPICH = "MPI: no MPICH 4 with its headers (libmpich-dev): libepic_mpi.so is not built"
NO_FORTRAN = "MPI: no {} with gfortran: the tests' programs and the example in Fortran are not built"
OF_OPEN_MPI, OF_MPICH = {"mca_coll_epic", "mpi_fit"}, {"epic_mpi", "mpich_fit"}
FORTRAN = {"mpi_fortran", "mpich_fortran"}


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("hidden, says, missing", [
    (["/usr/bin/gfortran", "/usr/include/torch"],
     [NO_FORTRAN.format("mpifort.openmpi"), NO_FORTRAN.format("mpifort.mpich"), "PyTorch: no torch 1.13 with its headers (libtorch-dev, python3-torch)"],
     {*FORTRAN, "torch_epic"}),
    ([f"{PKG_CONFIG}/ompi-c.pc", "/usr/include/pybind11"], [NO_OPEN_MPI, "PyTorch: no "], {*OF_OPEN_MPI, "mpi_fortran", "torch_epic"}),
    ([f"{PKG_CONFIG}/mpich.pc"], [NO_MPICH], {*OF_MPICH, "mpich_fortran"}),
    ([f"{PKG_CONFIG}/ompi-c.pc", f"{PKG_CONFIG}/mpich.pc", "/usr/bin/gfortran", "/usr/include/torch"],
     [NO_OPEN_MPI, NO_MPICH, "PyTorch: no "], {*OF_OPEN_MPI, *OF_MPICH, *FORTRAN, "torch_epic"})])
def test_what_is_not_installed_is_not_built_and_said_so(tmp_path, hidden, says, missing):
    """The rest is; torch is not on every machine that runs this."""
    said = configure_without(hidden, tmp_path)
    lines = [line.removeprefix("-- ") for line in said.splitlines() if "not built" in line]
    assert all(any(line.startswith(text) for line in lines) for text in says), said
    if "torch_epic" in missing:
        assert any(line.startswith("PyTorch: ") and line.endswith(": torch_epic is not built") for line in lines), said
    assert len(lines) <= len(says) + 1, said
    listed = subprocess.run(["ninja", "-C", tmp_path, "-t", "targets", "all"], capture_output=True, text=True, check=True)
    targets = {line.split(":")[0] for line in listed.stdout.splitlines()}
    ours = {*OF_OPEN_MPI, *OF_MPICH, *FORTRAN, "epic_commlib", "epic_softnic", "incengine"}
    assert ours - targets == missing - {"torch_epic"} and not missing & targets, sorted((ours - targets) ^ missing)


MPIRUN = """#!/bin/bash
calls=${!#}
case $calls in unbounded) ns=$((50 + MORE)) ;; *) ns=50 ;; esac
row() {
  case $calls in all | $1) echo "$2|$3|$ns.0"; echo "EPIC: $4: 1 call, 8 bytes: the MPI's own, $5" >&2 ;; esac
}
row small MPI_Bcast 'too small' MPI_Bcast 'too small'
row unbounded MPI_Ibcast 'no elements' MPI_Bcast 'no elements'
row unbounded 'MPI_Reduce, own' operation MPI_Reduce "${SAID:-operation}"
row unbounded MPI_Send - none none
"""


@pytest.fixture(name="fallback")
def fixture_fallback(tmp_path):
    """bench/mpi-fallback, with an mpirun that says what it is to have measured."""
    for mpirun in ("mpirun.openmpi", "mpirun.mpich"):
        (tmp_path / mpirun).write_text(MPIRUN, encoding="utf-8")
        (tmp_path / mpirun).chmod(0o700)

    def run(**env):
        return subprocess.run([harness.ROOT / "bench" / "mpi-fallback", "2"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **env})
    return run


@pytest.mark.parametrize("more, status", [(900, 0), (1100, 1)])
def test_what_falls_back_may_cost_a_microsecond(fallback, more, status):
    done = fallback(MORE=str(more))
    rows = [line.split() for line in done.stdout.splitlines() if " MPI_" in line]
    small, dear = ["50.0", "50.0", "50.0", "0.0"], ["50.0", "50.0", f"{50 + more}.0", f"{more}.0"]
    assert [row[-4:] for row in rows] == [small, dear, dear, dear] * 2, done.stdout
    assert done.returncode == status and ("over 1000 ns more" in done.stdout) == (status == 1), done.stdout


def test_a_call_that_is_left_for_another_reason_is_no_figure(fallback):
    done = fallback(MORE="0", SAID="type")
    assert done.returncode == 1 and "openmpi: no MPI_Reduce, own was the MPI's for 'operation'" in done.stderr, done.stderr


def test_scenes_of_one_start_have_each_a_verdict():
    """One is wrong on a rank, and the next one ends on one rank alone: those behind it have not run."""
    start = launcher.Start("traps", ("good", "bad", "better", "half", "behind"), ranks=2)
    told = ["rank 1: good: 3 checks, 0 wrong", "rank 0: good: 3 checks, 0 wrong", "EPIC: MPI_Bcast: 1 call, 4 bytes: by EPIC",
            "rank 0: bad: 3 checks, 0 wrong", "rank 1: bad: 3 checks, 1 wrong", "rank 0: better: 1 checks, 0 wrong",
            "rank 1: better: 1 checks, 0 wrong", "rank 1: half: 1 checks, 0 wrong"]
    done = launcher.Done(1, "\n".join(told) + "\n", 1.0)
    words = {}
    for name in start.scenes:
        try:
            launcher.Scene(name, start, done).assert_right()
        except AssertionError as error:
            words[name] = str(error).splitlines()[0]
    assert words.keys() == {"bad", "half", "behind"} and words["behind"] == "has not run, as 'half' has not ended:", words
