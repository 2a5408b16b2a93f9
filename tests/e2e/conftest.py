"""Brings test beds up for the tests and always takes them down; shows what is known when a test fails."""

import os
import subprocess

import pytest

import harness


def pytest_configure(config):
    config.addinivalue_line("markers", "endings: something breaks, is late or ends; mostly waits, and is a stage of its own")


def pytest_sessionstart(session):
    # A test that cannot run has not passed: say what is missing instead of skipping.
    missing = []
    if os.geteuid() != 0:
        missing.append("root")
    kernel = [harness.ROOT / "scripts" / "guest-kernel", "--path"]
    if subprocess.run(kernel, capture_output=True, check=False).returncode:
        missing.append("the guest kernel (scripts/guest-kernel)")
    targets = {"incengine": "incengine/incengine", "incagent": "incagent/incagent",
               "incmanager": "incmanager/incmanager", "epic_perf": "bench/epic-perf", "epic_perf_inside": "bench/epic-perf-inside",
               "loop_rank": "tests/e2e/loop_rank", "manager_asked": "tests/e2e/manager_asked", "calls_rank": "bench/calls_rank",
               "at_once_rank": "bench/at_once_rank",
               "api_rank": "tests/e2e/api_rank", "groups_rank": "tests/e2e/groups_rank",
               "quantise_rank": "tests/e2e/quantise_rank", "c_rank": "tests/e2e/c_rank", "c_owner": "tests/e2e/c_owner",
               "c_path": "tests/e2e/c_path", "other_engine": "tests/engines/other_engine",
               "epic_softnic": "softnic/lib/libibverbs.so.1"}
    absent = [target for target, path in targets.items() if not os.access(harness.BUILD / path, os.X_OK)]
    if absent:
        missing.append("a build: cmake --preset release && cmake --build --preset release --target " +
                       " ".join(absent))
    if missing and not session.config.option.collectonly:
        pytest.exit("the end-to-end tests need " + "; ".join(missing), returncode=1)


class Beds:
    """Keeps one test bed up and reuses it as long as tests ask for the same one."""

    def __init__(self):
        self.current = None

    def get(self, *spec):
        if self.current and self.current.spec != spec:
            self.close()
        if not self.current:
            self.current = harness.Bed(spec)
        return self.current

    def close(self):
        if self.current:
            self.current.down()
            self.current = None


@pytest.fixture(scope="session", name="all_beds")
def fixture_all_beds():
    beds = Beds()
    yield beds
    beds.close()


@pytest.fixture(name="beds")
def fixture_beds(all_beds):
    """beds.get("tree-3-2", "--wire") is a test bed brought up with these arguments."""
    yield all_beds
    if all_beds.current:
        all_beds.current.end_programs()
        if all_beds.current.wire:
            all_beds.current.wire.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    beds = getattr(item, "funcargs", {}).get("beds")
    if report.when == "call" and report.failed and beds and beds.current:
        try:
            report.sections.append(("test bed", beds.current.diagnosis()))
        except Exception as error:  # pylint: disable=broad-except
            report.sections.append(("test bed", f"cannot be asked: {error}"))
        # The next test gets a fresh one: this one may be broken.
        beds.close()
