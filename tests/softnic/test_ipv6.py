"""RoCEv2 over IPv6: programs of Debian between two namespaces and within one, by every index of the GID table.

What is marked slow as a product is in the default run as a cover (test_covers.py).
"""

import re
import subprocess

import pytest

import pair as pairs
from ipv6_pair import Ipv6Pair
from perftest import BW, result

PERFTEST = ("-F", "-n", "100")
MULTICAST = pairs.BUILD / "tests" / "softnic" / "verbs_multicast"


@pytest.fixture(name="all_pair", scope="module")
def fixture_all_pair():
    pair = Ipv6Pair()
    yield pair
    pair.close()


def neighbours(pair, host):
    return subprocess.run(["ip", "-n", pair.namespace(host), "-6", "neigh"], capture_output=True, text=True, check=True).stdout


def test_every_address_has_an_index(pair):
    said = pair.run("a", "ibv_devinfo", "-v")
    gids = re.findall(r"GID\[ *(\d+)\]:\s*(\S+), RoCE v2", said)
    assert [int(index) for index, _ in gids] == [0, 1, 2, 3], said
    assert gids[0][1].startswith("fe80::") and [gid for _, gid in gids[1:]] == ["::ffff:10.8.0.1", "2001:db8::1", "2001:db8:1::1"]
    assert re.search(r"gid_tbl_len:\s*16", said)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"])
@pytest.mark.parametrize("gid", [0, 2, 3])
def test_pingpong(pair, program, gid):
    for said in pair.run_both(program, "-g", gid, "-c", "-e", "-n", "100"):
        assert "invalid data" not in said
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", said, re.M), said


def test_who_is_asked_for_is_a_neighbour_of_the_kernel(pair):
    pair.run_both("ibv_rc_pingpong", "-g", 2, "-c", "-e", "-n", "100")
    assert "eth0 lladdr" in neighbours(pair, "a")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_ud_pingpong"])
@pytest.mark.parametrize("gid", [0, 2])
def test_pingpong_within_one_namespace(pair, program, gid):
    client, _ = pair.run_both(program, "-g", gid, "-c", "-n", "50", "-e", server="a", client="a")
    assert "invalid data" not in client


@pytest.mark.slow
@pytest.mark.parametrize("program", BW)
@pytest.mark.parametrize("gid", [0, 2])
def test_perftest(pair, program, gid):
    client, _ = pair.run_both(program, "-x", gid, *PERFTEST, "-s", 65536)
    assert result(client, 65536)[0] == 100


@pytest.mark.slow
def test_datagrams(pair):
    client, _ = pair.run_both("ib_send_lat", "-x", 0, "-c", "UD", "-F", "-n", 64, "-s", 1024)
    assert result(client, 1024)[0] == 64


@pytest.mark.slow
@pytest.mark.parametrize("mtu", [256, 4096])
def test_path_mtu(pair, mtu):
    client, _ = pair.run_both("ibv_rc_pingpong", "-g", 2, "-c", "-n", "20", "-s", "100000", "-m", mtu)
    assert "invalid data" not in client


def test_versions_do_not_mix(pair):
    server = pair.start("b", "ibv_rc_pingpong", "-g", 1, "-p", 18300)
    pair.wait_for_listener("b", server, 18300)
    pair.start("a", "ibv_rc_pingpong", "-g", 2, "-p", 18300, pair.address["b"])
    server.wait_for_line("Failed to modify QP to RTR")


def test_nobody_at_an_address_is_an_error(pair):
    """As with IPv4: moving to RTR fails after a second without an answer."""
    said = pair.run("a", "--devices", "eth0", pairs.BUILD / "tests" / "softnic" / "verbs_multicast", "reach", "2001:db8::77", 1)
    assert "Connection timed out" in said
    said = pair.run("a", "--devices", "eth0", pairs.BUILD / "tests" / "softnic" / "verbs_multicast", "reach", "2001:dead::1", 1)
    assert "Network is unreachable" in said


def test_a_group_of_ipv6_is_joined_and_heard(pair):
    group = "ff0e::1234"
    started = [pair.start(host, MULTICAST, "receive", group, 3) for host in ("a", "b")]
    for receiver in started:
        receiver.wait_for_line("^ready$")
    joined = subprocess.run(["ip", "-n", pair.namespace("b"), "maddr", "show", "dev", "eth0"], capture_output=True, text=True,
                            check=True).stdout
    assert group in joined and "33:33:00:00:12:34" in joined
    pair.run("a", MULTICAST, "send", group, 3)
    for receiver in started:
        assert "got 1\ngot 2\ngot 3\n" in receiver.finish(20)


def test_through_a_router(pair):
    """The next hop is the kernel's to know: each host has a route to the other's second network by its first address."""
    for host, other, number in (("a", 2, 1), ("b", 1, 2)):
        namespace = pair.namespace(host)
        pairs.net.run(["ip", "-n", namespace, "addr", "add", f"2001:db8:{number}0::1/128", "dev", "eth0", "preferred_lft", "0"])
        pairs.net.run(["ip", "-n", namespace, "route", "add", f"2001:db8:{other}0::/64", "via", f"2001:db8::{other}"])
    for said in pair.run_both("ibv_rc_pingpong", "-g", 4, "-c", "-n", "50"):
        assert "invalid data" not in said
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", said, re.M), said
