"""A test bed of four hosts on softnic, and Python programs on it."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

# pylint: disable=wrong-import-position
import harness  # noqa: E402
import torch_ranks  # noqa: E402


def pytest_sessionstart(session):
    # A test that cannot run has not passed: say what is missing instead of skipping.
    missing = [] if os.geteuid() == 0 else ["root"]
    targets = {"incengine": "incengine/incengine", "incagent": "incagent/incagent",
               "incmanager": "incmanager/incmanager", "manager_asked": "tests/e2e/manager_asked", "epic_softnic": "softnic/lib/libibverbs.so.1"}
    absent = [target for target, path in targets.items() if not os.access(harness.BUILD / path, os.X_OK)]
    if not list(torch_ranks.MODULE.glob("torch_epic/_C.*.so")):
        absent.append("torch_epic")
    if absent:
        missing.append("torch (scripts/torch-test installs it), and a build: cmake --preset release && "
                       "cmake --build --preset release --target " + " ".join(absent))
    if missing and not session.config.option.collectonly:
        pytest.exit("the tests of torch_epic need " + "; ".join(missing), returncode=1)


@pytest.fixture(scope="session", name="bed")
def fixture_bed():
    bed = harness.Bed(("tree-3-2", "--hosts", "softnic"))
    yield bed
    bed.down()


@pytest.fixture(name="ranks")
def fixture_ranks(bed):
    """ranks(SCENE) runs a scene on all hosts (torch_ranks.py)."""
    runner = torch_ranks.Runner(bed)
    yield runner
    bed.end_programs()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    bed = getattr(item, "funcargs", {}).get("bed")
    if report.when == "call" and report.failed and bed:
        report.sections.append(("test bed", bed.diagnosis()))
