"""A test bed with --wire: ordinary traffic passes the forwarder. Needs root."""

import os
import subprocess
import sys

import pytest

from conftest import REPO
from wire_client import Wire, WireError

NAME = "pytest_wire"
TESTBED = [sys.executable, os.path.join(REPO, "scripts", "testbed")]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def testbed(command, *arguments, check=True):
    argv = TESTBED + [command, "--name", NAME, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=180)
    assert not check or done.returncode == 0, done.stderr
    return done


testbed.__test__ = False


@pytest.fixture(autouse=True)
def clean():
    testbed("down")
    yield
    testbed("down")
    assert not os.path.exists(f"/run/epic/{NAME}") and not os.path.exists(f"/run/netns/epic-{NAME}-wire")


@pytest.fixture(name="wire")
def fixture_wire():
    """Connects once the bed is up: call it."""
    wires = []

    def connect():
        wires.append(Wire(f"/run/epic/{NAME}/wire.sock"))
        return wires[0]

    yield connect
    for wire in wires:
        wire.close()


def test_ordinary_traffic_passes_whole(wire):
    testbed("up", "tree-3-2", "--hosts", "none", "--bridge", "--wire")
    ping = testbed("exec", "h0", "--", "ping", "-c", "3", "-i", "0.2", "-W", "2", "-M", "do", "-s", "4148",
                   "10.10.0.4")
    assert "3 received" in ping.stdout
    connection = wire()
    assert connection.count()["frames"] == 0
    with pytest.raises(WireError, match="no command"):
        connection.request(nonsense=1)
