"""roce/transport against the real rdma_rxe: both ends send, write, read, do atomics and use and invalidate the other's memory
windows at the same time, with and without loss; a Write and a Read of the guest whose answers are lost, late, or cut off; and
messages over unreliable connections, alone and beside all of the first.

Needs root, the guest kernel, and a build: cmake --build build/release --target rxe_end rxe_reader uc_end transport_end
answering_end transport_uc_end; another tree with EPIC_BUILD=DIR. EPIC_RXE_RUNS=N does each exchange N times, with other losses
each time.
"""

import ipaddress
import os
import pathlib
import re
import subprocess
import sys

import pytest

from epic_testbed import bed as beds
from epic_testbed import nodes

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EPIC_BUILD", ROOT / "build" / "release")).resolve()
PROGRAMS = BUILD / "tests" / "rxe_peer"
NAME = f"rxe{os.getpid() % 100000}"
TESTBED = [sys.executable, str(ROOT / "scripts" / "testbed")]
SWITCH, HOST = "10.10.255.1", "10.10.0.1"
HOST_MAC = "52:54:00:00:00:01"
# Frames that each direction can lose; by how much a run with losses exceeds the counters of one without is its proof.
LOSSES = [(0, 1), (10, 1), (30, 2), (30, 3)]
WINDOWS = 12  # of exchange.h
UC_MESSAGES = 200  # of uc_exchange.h
RUNS = int(os.environ.get("EPIC_RXE_RUNS", "1"))
# The seed is in a test's name: losses 30 of a thousand by seed 1003 are "30-1003".
EXCHANGES = [(loss, seed + 1000 * run) for run in range(RUNS) for loss, seed in LOSSES]


@pytest.fixture(scope="module", autouse=True)
def bed():
    for program in ("rxe_end", "rxe_reader", "uc_end", "transport_end", "answering_end", "transport_uc_end"):
        path = PROGRAMS / program
        assert os.access(path, os.X_OK), f"{path} is not there: cmake --build {BUILD} --target {program}"
    subprocess.run(TESTBED + ["up", "--name", NAME, "star-1", "--hosts", "rxe", "--no-daemons", "--guest-mem", "128"], check=True)
    End.bed = beds.Bed(NAME)
    End.bed.require_up()
    yield
    subprocess.run(TESTBED + ["down", "--name", NAME], check=True)


class End:
    """A program at one end of the link. It goes on until its standard input is closed."""

    bed = None  # of all

    def __init__(self, node, program, *arguments):
        argv, env = nodes.command(self.bed, node, [str(PROGRAMS / program), *map(str, arguments)], timeout_s=40, stdin=True)
        self.said = ""
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_for(self, pattern):
        """The match of the pattern in the first line that has one, or nothing if the program ends before."""
        for line in self.process.stdout:
            self.said += line
            match = re.match(pattern, line)
            if match:
                return match
        return None

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def close(self):
        """Ends the program; its exit status."""
        self.said += self.process.communicate()[0]
        return self.process.returncode


def connect(rxe, program, *arguments):
    """Our end, connected to the one in the guest, and the guest's queue pair: number, rkey, address."""
    own = rxe.wait_for(r"qpn (\d+) rkey (\d+) address (\d+)")
    assert own, rxe.said + rxe.process.communicate()[0]
    return End("s1", program, "--interface", "swp1", "--address", int(ipaddress.ip_address(SWITCH)),
               "--peer-address", int(ipaddress.ip_address(HOST)), "--peer-mac", HOST_MAC, "--peer-qpn", own[1],
               *(argument(own) if callable(argument) else argument for argument in arguments))


def exchange(loss, seed):
    """Runs both ends; our end's counters by name, and how many unreliable messages came to the guest."""
    rxe = End("h0", "rxe_end", SWITCH)

    def unreliable(number):
        return lambda own: re.search(r"^unreliable qpn (\d+) rkey (\d+) address (\d+)", rxe.said, re.M)[number]

    ours = connect(rxe, "transport_end", "--peer-rkey", lambda own: own[2], "--peer-memory", lambda own: own[3],
                   "--loss", loss, "--seed", seed, "--peer-windows",
                   *[lambda own, at=at: re.search("^windows (.*)", rxe.said, re.M)[1].split()[at] for at in range(WINDOWS)],
                   "--peer-uc-qpn", unreliable(1), "--peer-uc-rkey", unreliable(2), "--peer-uc-memory", unreliable(3))
    if rxe.wait_for("done|failed"):
        ours.wait_for("done|stopped")
    if loss == 0:
        assert all(re.search("^all", end.said, re.M) or end.wait_for("all") for end in (rxe, ours)), (rxe.said, ours.said)
    status = ours.close(), rxe.close()
    said = ours.said, rxe.said
    print(said)
    result, arrived = (re.search(r"^ok (.*)\n\Z", end.said, re.M) for end in (ours, rxe))
    assert result and arrived and status == (0, 0), said
    counters = {"uc_arrived_there": [int(arrived[1].removeprefix("arrived "))]}
    for name, value in re.findall(r"(\w+) ([\d/]+)", result[1]):
        counters[name] = [int(v) for v in value.split("/")]
    return counters


@pytest.mark.parametrize("loss,seed", EXCHANGES)
def test_everything_both_ways(loss, seed):
    seen = exchange(loss, seed)
    received, sent = seen["rnr_naks"]
    assert received > 0 and sent > 0, "each end posts its receives only after some RNR NAKs"
    if loss == 0:
        assert seen["lost"] == [0]
        assert seen["uc_arrived"] == seen["uc_arrived_there"] == [UC_MESSAGES]
    else:
        assert seen["lost"][0] > 0 and seen["naks"][0] + seen["naks"][1] + seen["timeouts"][0] > 0
        assert_whole_messages_of(seen["uc_arrived_there"][0], seen["uc_arrived"][0])


def assert_whole_messages_of(there, here):
    """Of what both ends sent while packets got lost, so much was counted. rdma_rxe drops the message behind a broken one, too."""
    assert UC_MESSAGES // 4 < there <= UC_MESSAGES and UC_MESSAGES // 2 < here <= UC_MESSAGES


def write_and_read(read_bytes, retries, *trouble):
    """The guest writes, and reads so many bytes, while our end is in trouble. What it said, and what our end kept back."""
    rxe = End("h0", "rxe_reader", SWITCH, read_bytes, retries)
    ours = connect(rxe, "answering_end", *trouble)
    if ours.wait_for("there"):
        rxe.say("go")
        rxe.wait_for("wrong bytes")
    status = ours.close(), rxe.close()
    print(rxe.said, ours.said)
    assert status == (0, 0), (rxe.said, ours.said)
    kept = re.search(r"kept (\d+) then (\d+)", ours.said)
    return dict(re.findall(r"^([\w ]+): (.*)$", rxe.said, re.M)), (int(kept[1]), int(kept[2]))


# Of three packets, all but the last come late: then the ACK of the repeated Write finds the Read at its last packet.
@pytest.mark.parametrize("read_bytes,packets,late", [(300, 1, 0), (3000, 3, 3)])
def test_a_repeated_write_does_not_complete_the_read_behind_it(read_bytes, packets, late):
    said, kept = write_and_read(read_bytes, 7, "--lose", "--late", late)
    assert kept[0] == 1 + packets and kept[1] >= 1, "an ACK and the Read's responses; and the ACK to the repeated Write"
    assert said == {"write": "success", "read": "success", "wrong bytes": "0"}


# The region that is read goes away before the first or the second of three packets.
@pytest.mark.parametrize("packets,status", [(0, "remote access error"), (1, "transport retry counter exceeded")])
def test_a_read_that_is_cut_off_is_no_success(packets, status):
    said, _ = write_and_read(3000, 6, "--cut-after", packets)
    assert (said["write"], said["read"]) == ("success", status)


OUR_END = "119 7 0"  # its QPN, rkey and memory (ends.h)


@pytest.mark.parametrize("loss,seed", EXCHANGES)
def test_unreliable_messages_both_ways(loss, seed):
    """Nothing is repeated: of what is not lost each end has whole messages, in order."""
    rxe = End("h0", "uc_end", SWITCH, 1)
    ours = connect(rxe, "transport_uc_end", "--peer-rkey", lambda own: own[2], "--peer-memory", lambda own: own[3],
                   "--loss", loss, "--seed", seed)
    if ours.wait_for("there"):
        rxe.say(OUR_END)
    for end in (rxe, ours):
        assert end.wait_for("sent"), (rxe.said, ours.said)
        assert loss > 0 or re.search("^all", end.said, re.M) or end.wait_for("all"), (rxe.said, ours.said)
    status = ours.close(), rxe.close()
    print(rxe.said, ours.said)
    assert status == (0, 0), (rxe.said, ours.said)
    arrived = [int(re.search(r"^ok arrived (\d+)", end.said, re.M)[1]) for end in (rxe, ours)]
    lost = int(re.search(r" lost (\d+)", ours.said)[1])
    if loss == 0:
        assert lost == 0 and arrived == [UC_MESSAGES] * 2
    else:
        assert lost > 0
        assert_whole_messages_of(*arrived)
