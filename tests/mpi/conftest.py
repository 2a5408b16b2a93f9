"""A test bed of four hosts on softnic, and mpirun of each MPI on it."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

# pylint: disable=wrong-import-position
import covers  # noqa: E402
import harness  # noqa: E402
import launcher  # noqa: E402

MPIS = (launcher.OpenMpi, launcher.Mpich)
BED = ("tree-3-2", "--hosts", "softnic")


def pytest_configure(config):
    config.addinivalue_line("markers", "one_mpi(NAME): by one of the MPIs, by the other with the next commit, and all that have this "
                            "NAME by the same; with --full by both")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full") and not config.getoption("--all-turns"):
        left_out = [item for item in items if has_no_turn(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def has_no_turn(item):
    """Whether a test is one of an MPI that has not its turn (`one_mpi`)."""
    mark = item.get_closest_marker("one_mpi")
    own = item.callspec.params["mpirun"] if "mpirun" in item.fixturenames else MPIS["mpich" in item.fixturenames]
    return bool(mark) and own is not MPIS[covers.turn(mark.args[0], len(MPIS))]


def pytest_sessionstart(session):
    # A test that cannot run has not passed: say what is missing instead of skipping.
    missing = [] if os.geteuid() == 0 else ["root"]
    targets = {"incengine": "incengine/incengine", "incagent": "incagent/incagent",
               "incmanager": "incmanager/incmanager", "manager_asked": "tests/e2e/manager_asked",
               "epic_softnic": "softnic/lib/libibverbs.so.1", "mca_coll_epic": "mpi/lib/mca_coll_epic.so",
               "mpi_collectives": "tests/mpi/mpi_collectives", "mpi_traps": "tests/mpi/mpi_traps", "mpi_ends": "tests/mpi/mpi_ends",
               "mpi_threads": "tests/mpi/mpi_threads", "mpich_threads": "tests/mpi/mpich_threads",
               "mpi_jobs": "tests/mpi/mpi_jobs", "mpich_jobs": "tests/mpi/mpich_jobs",
               "mpi_layouts": "tests/mpi/mpi_layouts", "mpich_layouts": "tests/mpi/mpich_layouts",
               "mpi_requests": "tests/mpi/mpi_requests", "mpi_fit": "tests/mpi/mpi_fit", "mpich_fit": "tests/mpi/mpich_fit",
               "mpi_unlocked": "tests/mpi/libmpi_unlocked.so", "mpi_patient": "tests/mpi/libmpi_patient.so", "mpi_fallback": "tests/mpi/mpi_fallback",
               "mpi_fortran": "tests/mpi/mpi_forms", "epic_mpi": "mpi/lib/libepic_mpi.so",
               "mpich_collectives": "tests/mpi/mpich_collectives", "mpich_traps": "tests/mpi/mpich_traps",
               "mpich_requests": "tests/mpi/mpich_requests",
               "mpich_ends": "tests/mpi/mpich_ends", "mpi_watched": "tests/mpi/mpi_watched", "mpich_watched": "tests/mpi/mpich_watched",
               "mpi_tool": "tests/mpi/libmpi_tool.so", "mpich_tool": "tests/mpi/libmpich_tool.so",
               "mpi_watched_static": "tests/mpi/mpi_watched_static", "mpich_watched_static": "tests/mpi/mpich_watched_static",
               "mpich_watched_address": "tests/mpi/mpich_watched_address", "mpich_watched_thread": "tests/mpi/mpich_watched_thread",
               "mpich_watched_thread_static": "tests/mpi/mpich_watched_thread_static",
               "mpi_watched_shared": "tests/mpi/mpi_watched_shared", "mpich_watched_shared": "tests/mpi/mpich_watched_shared",
               "mpich_fortran": "tests/mpi/mpich_forms"}
    absent = [target for target, path in targets.items() if not os.access(harness.BUILD / path, os.X_OK)]
    if absent:
        missing.append("Open MPI 4.1, MPICH and gfortran (scripts/install-deps), and a build: cmake --preset release && "
                       "cmake --build --preset release --target " + " ".join(absent))
    if missing and not session.config.option.collectonly:
        pytest.exit("the tests of MPI need " + "; ".join(missing), returncode=1)


@pytest.fixture(scope="session", name="bed")
def fixture_bed():
    bed = harness.Bed(BED)
    yield bed
    bed.down()


@pytest.fixture(name="mpirun", params=MPIS)
def fixture_mpirun(bed, tmp_path, request):
    """mpirun(PROGRAM, ARGUMENT...) runs it on all hosts (launcher.py), by each MPI in turn."""
    return request.param(bed, tmp_path, not request.config.getoption("--full"))


@pytest.fixture(name="openmpi")
def fixture_openmpi(bed, tmp_path, request):
    return launcher.OpenMpi(bed, tmp_path, not request.config.getoption("--full"))


@pytest.fixture(name="mpich")
def fixture_mpich(bed, tmp_path, request):
    return launcher.Mpich(bed, tmp_path, not request.config.getoption("--full"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    bed = getattr(item, "funcargs", {}).get("bed")
    if report.when == "call" and report.failed and bed:
        report.sections.append(("test bed", bed.diagnosis()))
