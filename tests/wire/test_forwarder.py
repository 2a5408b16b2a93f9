"""Test beds with --wire: traffic passes the forwarder, and what it loses rdma_rxe repairs.

Needs root; the test with rdma_rxe needs the guest kernel.
"""

import os
import subprocess
import sys

import pytest

from conftest import REPO
from wire_client import Wire, WireError

NAME = "pytest_wire"
TESTBED = [sys.executable, os.path.join(REPO, "scripts", "testbed")]
GUEST_KERNEL = [os.path.join(REPO, "scripts", "guest-kernel"), "--path"]
NO_KERNEL = subprocess.run(GUEST_KERNEL, capture_output=True, check=False).returncode != 0

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
    ping = testbed("exec", "h0", "--", "ping", "-c", "3", "-i", "0.2", "-W", "2", "-M", "do", "-s", "4148", "10.10.0.4")
    assert "3 received" in ping.stdout
    connection = wire()
    assert connection.count()["frames"] == 0
    with pytest.raises(WireError, match="no command"):
        connection.request(nonsense=1)


@pytest.mark.skipif(NO_KERNEL, reason="no guest kernel: run scripts/guest-kernel")
def test_rxe_repairs_what_is_lost(wire):
    testbed("up", "star-2", "--bridge", "--wire", "--guest-mem", "128")
    connection = wire()
    connection.random_loss(20000, seed=3)
    pingpong = ["ibv_rc_pingpong", "-e", "-g", "1", "-m", "1024", "-n", "100", "-s", "4096", "-c"]
    argv = TESTBED + ["exec", "--name", NAME, "--timeout", "60", "h1", "--", *pingpong]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        client = "until " + " ".join(pingpong) + " h1; do sleep 0.1; done"
        done = testbed("exec", "--timeout", "60", "h0", "--", "sh", "-c", client)
        assert "100 iters" in done.stdout
        assert "100 iters" in server.communicate(timeout=60)[0]
    lost = connection.log()
    assert lost and {entry["link"] for entry in lost} <= {"s1-h0", "s1-h1"}
    assert connection.count()["frames"] > 1000
