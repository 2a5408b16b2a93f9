"""softnic against the real rdma_rxe of a guest, in both roles. Needs root and the guest kernel."""

import os
import re
import subprocess
import sys

import pytest

import pair as pairs
from perftest import ATOMIC, BW, LAT, PATIENCE, PERFTEST, result, run_perftest
from wire_client import Wire

NAME = f"softnic{os.getpid() % 100000}"
TESTBED = [sys.executable, str(pairs.ROOT / "scripts" / "testbed")]
ROLES = pytest.mark.parametrize("server,client", [("rxe", "softnic"), ("softnic", "rxe")])


class GuestPair(pairs.Hosts):
    """Hosts "rxe", a guest, and "softnic", the namespace of the switch that the guest is connected to."""

    def __init__(self, *options, guest_mb=160, exec_timeout_s=60):
        super().__init__({"rxe": "10.10.0.1", "softnic": "10.10.255.1"})
        self._exec_timeout_s = exec_timeout_s
        self._testbed("up", "star-1", "--hosts", "rxe", "--no-daemons", "--guest-mem", str(guest_mb), *options)
        pairs.net.run(["ip", "-n", f"epic-{NAME}-s1", "addr", "add", "10.10.255.1/16", "dev", "swp1"])

    def start(self, host, *argv):
        if host == "softnic":
            return self._begin(["ip", "netns", "exec", f"epic-{NAME}-s1", pairs.EPIC_RUN, "--devices", "swp1",
                                *argv])
        return self._begin(TESTBED + ["exec", "--name", NAME, "--timeout", str(self._exec_timeout_s), "-i", "h0", "--",
                                      *argv])

    def wait_for_listener(self, host, program, port):
        wait = f"until ss -ltn | grep -q :{port}; do sleep 0.1; done"
        if host == "softnic":
            where = ["ip", "netns", "exec", f"epic-{NAME}-s1"]
        else:
            where = TESTBED + ["exec", "--name", NAME, "--timeout", "30", "h0", "--"]
        done = subprocess.run(where + ["timeout", "30", "sh", "-c", wait], check=False)
        assert done.returncode == 0, f"nothing listens:\n{program.output}"

    def add_ipv6(self):
        """Gives both a link-local and a global IPv6 address, which are in use at once: GID indices 0 and 2."""
        namespace = f"epic-{NAME}-s1"
        settings = [f"net.ipv6.conf.swp1.{name}=0" for name in ("accept_dad", "disable_ipv6")]
        pairs.net.run(["ip", "netns", "exec", namespace, "sysctl", "-qw", *settings])
        pairs.net.run(["ip", "-n", namespace, "addr", "add", "2001:db8::ff/64", "dev", "swp1"])
        conf = "/proc/sys/net/ipv6/conf/vec0"
        gid = "/sys/class/infiniband/rxe0/ports/1/gids/2"
        self.run("rxe", "sh", "-c", f"echo 0 >{conf}/accept_dad; echo 0 >{conf}/disable_ipv6; "
                 f"ip addr add 2001:db8::1/64 dev vec0; until grep -q ^2001 {gid}; do sleep 0.1; done")

    def close(self):
        super().close()
        self._testbed("down")

    @staticmethod
    def _testbed(command, *arguments):
        subprocess.run(TESTBED + [command, "--name", NAME, *arguments], check=True)


class LossyGuestPair(GuestPair):
    """With the fault box between the two."""

    def __init__(self):
        super().__init__("--wire", exec_timeout_s=1600)
        self.wire = Wire(f"/run/epic/{NAME}/wire.sock")

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


@ROLES
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong", "ibv_uc_pingpong"])
def test_pingpong(guests, program, server, client):
    said = guests.run_both(program, "-g", "1", "-c", "-e", "-n", "100", server=server, client=client)
    for one in said:
        assert "invalid data" not in one
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", one, re.M), one


@ROLES
@pytest.mark.parametrize("program", BW + LAT)
def test_perftest(guests, program, server, client):
    run_perftest(guests, program, 65536 if program in BW else 4096, *PATIENCE, iterations=50, server=server, client=client)


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
def test_sizes_and_path_mtu(guests, server, client):
    for size, mtu in ((2, 4096), (10000, 256), (1 << 20, 1024)):
        run_perftest(guests, "ib_write_bw", size, "-m", mtu, *PATIENCE, iterations=10, server=server, client=client)


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


@ROLES
def test_datagrams(guests, server, client):
    run_perftest(guests, "ib_send_lat", 1024, "-c", "UD", iterations=50, server=server, client=client)


@ROLES
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"])
@pytest.mark.parametrize("gid", [0, 2])
def test_pingpong_over_ipv6(ipv6_guests, guests, program, gid, server, client):
    assert guests is ipv6_guests
    for one in guests.run_both(program, "-g", gid, "-c", "-e", "-n", "100", server=server, client=client):
        assert "invalid data" not in one
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", one, re.M), one


@ROLES
@pytest.mark.parametrize("program", BW)
def test_perftest_over_ipv6(ipv6_guests, guests, program, server, client):
    assert guests is ipv6_guests
    said, _ = guests.run_both(program, "-x", 2, "-F", "-s", 65536, "-n", 50, *PATIENCE, server=server, client=client)
    assert result(said, 65536)[0] == 50


@ROLES
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_bw", "ib_send_lat", "ib_write_lat"])
@pytest.mark.parametrize("size,iterations", [(64, 40), (4096, 40), (65536, 5)])
def test_unreliable_connections(guests, program, size, iterations, server, client):
    # As many as the guest's device takes in at once, of which nothing is lost.
    run_perftest(guests, program, size, "-c", "UC", iterations=iterations, server=server, client=client)
