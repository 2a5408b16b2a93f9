"""What all tests share: the option --full, and for those of scripts/testbed and of the fault box a test bed of their own, gone when they end."""

import collections
import glob
import os
import subprocess
import sys

import pytest

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
sys.path[:0] = [os.path.join(REPO, "scripts", "lib"), os.path.dirname(os.path.realpath(__file__))]

import covers  # noqa: E402  pylint: disable=wrong-import-position

# What tests start that has python3 from the path, as epic-run --hosts: the system's, not a wrapper (pyenv's, say) that takes
# eight times as long to begin.
os.environ["PATH"] = "/usr/bin:" + os.environ["PATH"]


def pytest_report_header():
    """How to have the covers of this run again (covers.py)."""
    return f"covers: {covers.replay()}"


def pytest_terminal_summary(terminalreporter):
    """What the covers of this run leave out."""
    if not covers.made:
        return
    terminalreporter.section(f"covers, the same with {covers.replay()}")
    for name, rows, all_rows in covers.made:
        terminalreporter.write_line(f"{name}: {rows} of {all_rows}; --full runs all")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also the tests that take minutes (marked slow)")
    parser.addoption("--all-turns", action="store_true", help="also what a default run of another commit has (in_turn, one_mpi)")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes minutes; runs with --full")
    config.addinivalue_line("markers", "in_turn(N): of its parameters one in N, others with the next commit; with --full all")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full", default=False):
        left_out = {item for item in items if item.get_closest_marker("slow")}
        if not config.getoption("--all-turns", default=False):
            left_out |= set(out_of_turn([item for item in items if item not in left_out]))
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def out_of_turn(items):
    """Those whose parameters have not their turn (`in_turn`): what decides in them is the same code for all, and tested by
    itself. As with covers the runs of some commits have them all."""
    seen = collections.Counter()
    for item in items:
        if mark := item.get_closest_marker("in_turn"):
            test = f"{item.path.name} {item.originalname}"
            if (seen[test] + covers.turn(test, mark.args[0])) % mark.args[0]:
                yield item
            seen[test] += 1


class Testbed:
    """scripts/testbed on one bed: testbed("up", "star-2") runs it and returns the finished process."""

    __test__ = False

    def __init__(self, name):
        self.name = name

    def argv(self, command, *arguments):
        """The command line, for processes that go on."""
        return [sys.executable, os.path.join(REPO, "scripts", "testbed"), command, "--name", self.name,
                *arguments]

    def __call__(self, command, *arguments, check=True):
        done = subprocess.run(self.argv(command, *arguments), capture_output=True, text=True, check=False,
                              timeout=180)
        assert not check or done.returncode == 0, done.stderr
        return done

    def path(self, *parts):
        """A file of the bed."""
        return os.path.join("/run/epic", self.name, *parts)

    def namespace(self, node):
        return f"epic-{self.name}-{node}"

    def remains(self):
        """Files and namespaces of the bed that are there."""
        return [path for folder in ("/run/netns", "/etc/netns") for path in glob.glob(f"{folder}/{self.namespace('*')}")] + \
            glob.glob(self.path())


def _own_bed():
    # A test that cannot run has not passed.
    if os.geteuid() != 0:
        pytest.fail("namespaces need root")
    bed = Testbed(f"pytest{os.getpid() % 100000}")
    yield bed
    bed("down")
    assert not bed.remains()


@pytest.fixture(name="testbed")
def fixture_testbed():
    """A bed's name for one test; whatever the test brings up is removed."""
    yield from _own_bed()


@pytest.fixture(name="module_testbed", scope="module")
def fixture_module_testbed():
    """As testbed, for all tests of a file."""
    yield from _own_bed()
