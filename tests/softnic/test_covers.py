"""Debian's programs over softnic by covers: of program, transport, size, address, path MTU, way of waiting, shape and machines
each two values meet in one run (tests/covers.py), of which a commit has every third one. The products that other files have by hand run with --full."""

import re

import pytest

import covers
import pair as pairs
from ipv6_pair import Ipv6Pair
from rows import AXES, impossible, named, run_row

# Packets of what is not repeated: the ring of an interface has places for a thousand, that of the loopback for 512.
ROOM = {"two": 600, "one": 400}
MACHINES = {"two": {"server": "b", "client": "a"}, "one": {"server": "a", "client": "a"}}

PINGPONG_AXES = {
    "program": ["ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"],
    "size": [1024, 10000],
    "gid": [0, 1, 2, 3],
    "mtu": [256, 512, 1024, 2048, 4096],
    "events": [False, True],
    "machines": list(MACHINES),
}


@pytest.fixture(name="all_pair", scope="module")
def fixture_all_pair():
    yield from pairs.closed_at_the_end(Ipv6Pair())


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("row", named(covers.cover({**AXES, "machines": list(MACHINES)}, lambda row: impossible(row, ROOM[row["machines"]]),
                                                   name="perftest over softnic")))
def test_perftest(pair, row):
    run_row(pair, row, ROOM[row["machines"]], 100, **MACHINES[row["machines"]])


def not_offered(row):
    """A datagram is one packet, and its program uses the port's MTU."""
    return row["program"] == "ibv_ud_pingpong" and (row["size"] != 1024 or row["mtu"] != 4096)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("row", named(covers.cover(PINGPONG_AXES, not_offered, name="pingpong over softnic")))
def test_pingpong(pair, row):
    mtu = () if row["program"] == "ibv_ud_pingpong" else ("-m", row["mtu"])
    # The end that has had all messages ends, and then nobody repeats an acknowledgement that gets lost. None does where the ring
    # has room for all that is under way, and for its repetition: not so with 16 queue pairs and 40 packets each.
    queues = ("-q", 4) if row["program"] == "ibv_srq_pingpong" else ()
    for said in pair.run_both(row["program"], "-g", row["gid"], "-c", "-n", 100, "-s", row["size"], *queues, *mtu, *["-e"] * row["events"],
                              **MACHINES[row["machines"]]):
        assert "invalid data" not in said
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", said, re.M), said
