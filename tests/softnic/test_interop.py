"""softnic against the real rdma_rxe of a guest, in both roles. Needs root and the guest kernel.

What is marked slow as a product is in the default run as a cover, of which a commit has every third row.
"""

import os
import re
import subprocess
import sys

import pytest

import covers
import pair as pairs
from epic_testbed import bed as beds
from epic_testbed import nodes
from perftest import ATOMIC, BW, LAT, PATIENCE, PERFTEST, result, run_perftest
from rows import AXES, impossible, named, run_row
from wire_client import Wire

TESTBED = [sys.executable, str(pairs.ROOT / "scripts" / "testbed")]
OTHER = {"softnic": "rxe", "rxe": "softnic"}
ROLES = pytest.mark.parametrize("server,client", [("rxe", "softnic"), ("softnic", "rxe")])


ROOM = 80  # packets that the guest's device takes in at once, of which nothing is lost
NOT_WITH_A_GUEST = ("both", "inline")  # what softnic has tests for by itself, and rdma_rxe has no part in


class GuestPair(pairs.Hosts):
    """Hosts "rxe", a guest, and "softnic", the namespace of the switch that the guest is connected to."""

    serial = 0

    def __init__(self, *options, guest_mb=160, exec_timeout_s=60):
        super().__init__({"rxe": "10.10.0.1", "softnic": "10.10.255.1"})
        GuestPair.serial += 1
        self.name = f"sn{os.getpid() % 100000}x{GuestPair.serial}"  # of twelve characters at most
        self._exec_timeout_s = exec_timeout_s
        self._testbed("up", "star-1", "--hosts", "rxe", "--no-daemons", "--guest-mem", str(guest_mb), *options)
        self._bed = beds.Bed(self.name)
        self._bed.require_up()
        pairs.net.run(["ip", "-n", self._switch, "addr", "add", "10.10.255.1/16", "dev", "swp1"])

    def start(self, host, *argv):
        if host == "softnic":
            return self._begin(["ip", "netns", "exec", self._switch, pairs.EPIC_RUN, "--devices", "swp1",
                                *argv])
        return self._begin(*nodes.command(self._bed, "h0", [str(a) for a in argv], self._exec_timeout_s, stdin=True))

    def wait_for_listener(self, host, program, port):
        if host == "softnic":
            return super().wait_for_listener(host, program, port)
        wait = f"until grep -q ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"
        command, env = nodes.command(self._bed, "h0", ["sh", "-c", wait], 30)
        done = subprocess.run(command, env=env, check=False)
        assert done.returncode == 0, f"nothing listens:\n{program.output}"

    def add_ipv6(self):
        """Gives both a link-local and a global IPv6 address, which are in use at once: GID indices 0 and 2."""
        settings = [f"net.ipv6.conf.swp1.{name}=0" for name in ("accept_dad", "disable_ipv6")]
        pairs.net.run(["ip", "netns", "exec", self._switch, "sysctl", "-qw", *settings])
        pairs.net.run(["ip", "-n", self._switch, "addr", "add", "2001:db8::ff/64", "dev", "swp1"])
        conf = "/proc/sys/net/ipv6/conf/vec0"
        gid = "/sys/class/infiniband/rxe0/ports/1/gids/2"
        self.run("rxe", "sh", "-c", f"echo 0 >{conf}/accept_dad; echo 0 >{conf}/disable_ipv6; "
                 f"ip addr add 2001:db8::1/64 dev vec0; until grep -q ^2001 {gid}; do sleep 0.1; done")

    def close(self):
        super().close()
        self._testbed("down")

    @property
    def _switch(self):
        """The namespace of the switch."""
        return f"epic-{self.name}-s1"

    def _testbed(self, command, *arguments):
        subprocess.run(TESTBED + [command, "--name", self.name, *arguments], check=True)

    def run_both(self, *argv, **options):
        """With what helps to understand a failure: what both ends' interfaces and rdma_rxe have counted."""
        try:
            return super().run_both(*argv, **options)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.diagnosis()}") from error

    def diagnosis(self):
        """Text about both ends as they are now."""
        counters = "cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *; uptime; ip -s link; ip neigh; cat /proc/interrupts"
        ends = {"guest": TESTBED + ["exec", "--name", self.name, "--timeout", "20", "h0", "--", "sh", "-c", counters],
                "switch": ["ip", "netns", "exec", self._switch, "sh", "-c", "ip -s link; ip neigh; uptime"]}
        said = [f"--- {end}:\n" + subprocess.run(argv, capture_output=True, text=True, check=False).stdout for end, argv in ends.items()]
        return "\n".join(said)


class LossyGuestPair(GuestPair):
    """With the fault box between the two."""

    def __init__(self):
        super().__init__("--wire", exec_timeout_s=1600)
        self.wire = Wire(f"/run/epic/{self.name}/wire.sock")

    def diagnosis(self):
        """The fault box's counts and the last frames that it lost as well."""
        lost = "\n".join(map(str, self.wire.log()[-20:]))
        return f"{super().diagnosis()}\n--- the fault box: {self.wire.count()}; lost:\n{lost}"

    def end_programs(self):
        self.wire.random_faults(0)
        super().end_programs()

    def close(self):
        super().close()
        self.wire.close()


@pytest.fixture(name="all_guests", scope="module")
def fixture_all_guests():
    yield from pairs.closed_at_the_end(GuestPair())


@pytest.fixture(name="guests")
def fixture_guests(all_guests):
    yield all_guests
    all_guests.end_programs()


@pytest.fixture(name="ipv6_guests", scope="module")
def fixture_ipv6_guests(all_guests):
    all_guests.add_ipv6()
    return all_guests


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("row", named(covers.cover(
    {**AXES, "gid": [1, 2], "mtu": [256, 4096], "client": ["softnic", "rxe"]}, lambda row: impossible(row, ROOM) or row["shape"] in NOT_WITH_A_GUEST or
    (row["transport"] != "RC" and row["shape"] == "qps"), name="perftest between softnic and rdma_rxe")))
def test_cover_of_perftest(ipv6_guests, guests, row):
    assert guests is ipv6_guests
    patience = PATIENCE if row["transport"] == "RC" else ()
    run_row(guests, row, ROOM, 20, *patience, client=row["client"], server=OTHER[row["client"]])


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("row", named(covers.cover(
    {"program": ["ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong", "ibv_uc_pingpong"], "gid": [0, 1, 2],
     "client": ["softnic", "rxe"]}, name="pingpong between softnic and rdma_rxe")))
def test_cover_of_pingpong(ipv6_guests, guests, row):
    assert guests is ipv6_guests
    for one in guests.run_both(row["program"], "-g", row["gid"], "-c", "-e", "-n", "100", client=row["client"],
                               server=OTHER[row["client"]]):
        assert "invalid data" not in one
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", one, re.M), one


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong", "ibv_uc_pingpong"])
def test_pingpong(guests, program, server, client):
    said = guests.run_both(program, "-g", "1", "-c", "-e", "-n", "100", server=server, client=client)
    for one in said:
        assert "invalid data" not in one
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", one, re.M), one


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", BW + LAT)
def test_perftest(guests, program, server, client):
    run_perftest(guests, program, 65536 if program in BW else 4096, *PATIENCE, iterations=50, server=server, client=client)


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", ATOMIC)
@pytest.mark.parametrize("operation", ["CMP_AND_SWAP", "FETCH_AND_ADD"])
def test_atomics(guests, program, operation, server, client):
    run_perftest(guests, program, 8, "-A", operation, *PATIENCE, iterations=50, server=server, client=client)


def test_rxe_does_the_same(guests):
    """What these tests say of softnic is what they find on rdma_rxe."""
    said = guests.run("rxe", pairs.BUILD / "tests" / "softnic" / "verbs_test",
                      "--gtest_filter=VerbsWindows.*:VerbsAtomics.Find*:VerbsAtomics.TheDeviceSaysSo")
    assert "[  PASSED  ]" in said and " 0 tests" not in said


@ROLES
@pytest.mark.parametrize("size,mtu", [pytest.param(2, 4096, marks=pytest.mark.slow), pytest.param(10000, 256, marks=pytest.mark.slow),
                                      (1 << 20, 1024)])
def test_sizes_and_path_mtu(guests, size, mtu, server, client):
    run_perftest(guests, "ib_write_bw", size, "-m", mtu, *PATIENCE, iterations=10, server=server, client=client)


@pytest.mark.slow
@ROLES
def test_several_queue_pairs_by_events(guests, server, client):
    run_perftest(guests, "ib_send_bw", 16384, "-q", 4, "-e", *PATIENCE, iterations=25, server=server, client=client)


@ROLES
def test_reads_of_many_queue_pairs(guests, server, client):
    run_perftest(guests, "ib_read_bw", 65536, "-q", 32, *PATIENCE, iterations=5, server=server, client=client)


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", BW + LAT)
def test_every_size(guests, program, server, client):
    said, _ = guests.run_both(program, *PERFTEST, "-a", *PATIENCE, "-n", 10, timeout_s=300, server=server, client=client)
    for power in range(1, 24):
        assert result(said, 1 << power)[0] == 10


@pytest.mark.slow
@ROLES
def test_datagrams(guests, server, client):
    run_perftest(guests, "ib_send_lat", 1024, "-c", "UD", iterations=50, server=server, client=client)


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"])
@pytest.mark.parametrize("gid", [0, 2])
def test_pingpong_over_ipv6(ipv6_guests, guests, program, gid, server, client):
    assert guests is ipv6_guests
    for one in guests.run_both(program, "-g", gid, "-c", "-e", "-n", "100", server=server, client=client):
        assert "invalid data" not in one
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", one, re.M), one


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", BW)
def test_perftest_over_ipv6(ipv6_guests, guests, program, server, client):
    assert guests is ipv6_guests
    said, _ = guests.run_both(program, "-x", 2, "-F", "-s", 65536, "-n", 50, *PATIENCE, server=server, client=client)
    assert result(said, 65536)[0] == 50


@pytest.mark.slow
@ROLES
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_bw", "ib_send_lat", "ib_write_lat"])
@pytest.mark.parametrize("size,iterations", [(64, 40), (4096, 40), (65536, 5)])
def test_unreliable_connections(guests, program, size, iterations, server, client):
    # As many as the guest's device takes in at once, of which nothing is lost.
    run_perftest(guests, program, size, "-c", "UC", iterations=iterations, server=server, client=client)
