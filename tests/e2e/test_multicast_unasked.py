"""What `auto` sends by multicast without being asked (docs/adr/0036): which calls, in which network, and what is said of it."""

import re

import pytest

import test_matrix
import test_neighbours
from host_api import Rank
from test_matrix import run_all

EIGHT = ("star-8", "--hosts", "softnic")
LONG = 32_768  # floats of a rank in an AllGather of eight that is shorter by multicast
BRIDGE = "office"
LLDP = f"""
import socket, sys
def tlv(kind, value):
    return ((kind << 9) | len(value)).to_bytes(2, "big") + value
mac = b"\\x02\\x00\\x00\\x00\\xb1\\x1d"
frame = bytes.fromhex("034550494301") + mac + b"\\x88\\xcc" + tlv(1, b"\\x04" + mac) + tlv(2, b"\\x05p1")
frame += tlv(3, int(sys.argv[1]).to_bytes(2, "big")) + tlv(5, b"{BRIDGE}") + tlv(7, bytes((0, 4, 0, 4))) + tlv(0, b"")
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("vec0", 0))
port.send(frame)
"""


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*EIGHT)


def unasked(bed, *before):
    """What rank 0 of a group by the hosts says of a long AllGather, and what `group show` has of its multicast; the group makes one."""
    group = bed.new_group()
    steps = ["init", f"path:allgather,{LONG}", "allgather:100", f"allgather:{LONG}", "pause", "destroy"]
    ranks = [Rank(bed, number, steps, group, 8, before=("EPIC_PATH=hosts", *before)) for number in range(8)]
    for rank in ranks:
        rank.wait_until_doing("pause", 60)
    shown = re.search(r"^multicast +(.*)$", bed.manager_cli("group", "show", group).stdout, re.M)
    for rank in ranks:
        rank.signal()
    for rank in ranks:
        assert rank.errors() == []
    bed.wait_clean()
    return ranks[0].did(f"path:allgather,{LONG}"), shown and shown.group(1)


def explained(bed):
    return bed.manager_cli("explain", "--hosts", ",".join(bed.hosts), "--path", "hosts").stdout


def test_it_is_taken_where_it_is_shorter(bed):
    """Long AllGathers go as datagrams without a word of the user's; the communicator says so, and explain beforehand."""
    way, shown = unasked(bed)
    assert way["path"] == "hosts" and re.fullmatch(
        r"asked for by rank \d; .*allgathers of \d+ to \d+ KiB go by multicast, which is shorter", way["reason"]), way
    assert shown.startswith("239.192.")
    assert "multicast: unasked, for Broadcasts and AllGathers that are shorter so (8 ranks and more, each on a host of its own)" in explained(bed)
    calls = [{"collective": "allgather", "type": "float", "count": count, "root": 0, "in_place": False} for count in (100, LONG, 20 * LONG)]
    group = {"group": bed.new_group(), "path": "hosts", "outstanding": 1, "calls": calls}
    told = run_all(bed, 8, [group], 300)
    test_matrix.expect_right(told, group["group"], "hosts", calls, 8)
    chunks = {lines[group["group"]]["datagrams"]["came"] for lines in told}
    assert chunks == {7 * LONG * 4 // 4096}, "of the second call alone"
    way, shown = unasked(bed, "EPIC_ALGORITHM=ring")
    assert "multicast" not in way["reason"] and shown is None, "what was told is taken"


def test_it_is_not_taken_past_a_bridge_that_is_none_of_ours(bed):
    """Which a switch has heard of by LLDP. The calls go around the ring, and the reason is where one looks for it."""
    switch, = bed.switches

    def says(seconds):
        bed.run("h3", "/usr/bin/python3", "-c", LLDP, seconds)
        test_neighbours.wait_until(lambda: bool(test_neighbours.heard(bed, switch, "swp4", "NEIGHBOUR_BRIDGE")) == (seconds > 0),
                                   f"what is said for {seconds} s of a bridge")

    says(600)
    try:
        way, shown = unasked(bed)
        why = f"a bridge that is none of ours ({BRIDGE}) is at {switch}:swp4"
        assert way["path"] == "hosts" and way["reason"].endswith(f" KiB do not go by multicast: {why}"), way
        assert shown == f"none: {why}"
        assert f"only then, since {why}" in explained(bed)
    finally:
        says(0)
