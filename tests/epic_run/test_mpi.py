"""epic-run --mpi: what it says without a manager, and where the parts for an MPI are not."""

import os
import shutil
import subprocess

import pytest

from conftest import EPIC_RUN


def end(program, **variables):
    """(status, errors) of epic-run --mpi with these of EPIC's variables and no others."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("EPIC_")}
    done = subprocess.run([*program, "./program"], env={**env, **variables}, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.fixture(name="alone")
def fixture_alone(tmp_path):
    """epic-run beside nothing of ours but softnic's library, and mpiruns of either MPI, which are never started."""
    for folder in ("bin", "softnic"):
        (tmp_path / folder).mkdir()
    (tmp_path / "softnic" / "libibverbs.so.1").touch()
    for name in ("mpiexec.hydra", "orterun"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho started\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return shutil.copy(EPIC_RUN, tmp_path / "bin"), {"EPIC_SOFTNIC_LIB": str(tmp_path / "softnic")}


def test_without_a_manager_one_is_asked_for(alone):
    program, variables = alone
    assert end([program, "--mpi", "mpirun"], **variables) == (
        2, "epic-run: --mpi needs the manager's HOST:PORT in EPIC_MANAGER\n")


@pytest.mark.parametrize("mpirun, says", [
    ("mpiexec.hydra", "epic-run: libepic_mpi.so for MPICH is not found: build it (cmake --build build/release --target epic_mpi, "),
    ("orterun", "epic-run: Open MPI's component mca_coll_epic.so is not found: build it (cmake --build build/release --target mca_coll_epic, ")])
def test_parts_that_are_not_there_are_named(alone, mpirun, says):
    program, variables = alone
    folder = os.path.dirname(program)
    status, errors = end([program, "--mpi", f"{folder}/{mpirun}"], EPIC_MANAGER="m:1", **variables)
    assert status == 2 and errors.startswith(says), errors
