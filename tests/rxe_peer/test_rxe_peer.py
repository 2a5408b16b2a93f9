"""roce/transport against the real rdma_rxe: both ends send, write and read at the same time, with and without loss.

Needs root, the guest kernel, and a build: cmake --build build/release --target rxe_end transport_end; another tree with
EPIC_BUILD=DIR.
"""

import ipaddress
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EPIC_BUILD", ROOT / "build" / "release")).resolve()
NAME = f"rxe{os.getpid() % 100000}"
TESTBED = [sys.executable, str(ROOT / "scripts" / "testbed")]
SWITCH, HOST = "10.10.255.1", "10.10.0.1"
HOST_MAC = "52:54:00:00:00:01"
# Frames that each direction can lose; by how much a run with losses exceeds the counters of one without is its proof.
LOSSES = [(0, 1), (10, 1), (30, 2), (30, 3)]


@pytest.fixture(scope="module", autouse=True)
def bed():
    for program in ("rxe_end", "transport_end"):
        path = BUILD / "tests" / "rxe_peer" / program
        assert os.access(path, os.X_OK), f"{path} is not there: cmake --build {BUILD} --target {program}"
    subprocess.run(TESTBED + ["up", "--name", NAME, "star-1", "--hosts", "rxe", "--no-daemons", "--guest-mem", "128"], check=True)
    yield
    subprocess.run(TESTBED + ["down", "--name", NAME], check=True)


def start(node, *argv):
    command = TESTBED + ["exec", "--name", NAME, "--timeout", "40", node, "--"] + [str(a) for a in argv]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def exchange(loss, seed):
    """Runs both ends; our end's counters by name."""
    rxe = start("h0", BUILD / "tests" / "rxe_peer" / "rxe_end", SWITCH)
    first = rxe.stdout.readline()
    own = re.match(r"qpn (\d+) rkey (\d+) address (\d+)", first)
    assert own, first + rxe.communicate()[0]
    ours = start("s1", BUILD / "tests" / "rxe_peer" / "transport_end", "--interface", "swp1",
                 "--address", int(ipaddress.ip_address(SWITCH)), "--peer-address", int(ipaddress.ip_address(HOST)),
                 "--peer-mac", HOST_MAC, "--peer-qpn", own[1], "--peer-rkey", own[2], "--peer-memory", own[3],
                 "--loss", loss, "--seed", seed)
    said = ours.communicate()[0], rxe.communicate()[0]
    print(said)
    assert said[0].startswith("ok "), said
    assert said[1] == "ok\n" and ours.returncode == 0 and rxe.returncode == 0, said
    counters = {}
    for name, value in re.findall(r"(\w+) ([\d/]+)", said[0][3:]):
        counters[name] = [int(v) for v in value.split("/")]
    return counters


@pytest.mark.parametrize("loss,seed", LOSSES)
def test_send_write_and_read_both_ways(loss, seed):
    seen = exchange(loss, seed)
    received, sent = seen["rnr_naks"]
    assert received > 0 and sent > 0, "each end posts its receives only after some RNR NAKs"
    if loss == 0:
        assert seen["lost"] == [0]
    else:
        assert seen["lost"][0] > 0 and seen["naks"][0] + seen["naks"][1] + seen["timeouts"][0] > 0
