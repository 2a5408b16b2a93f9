"""Groups by multicast of which a rank is late, or is stopped in the middle of calls: it is waited for, no datagram meets an
empty receive queue, and so no chunk is read from a neighbour. Also while others want the processors."""

import json
import os
import signal
import time

import pytest

import test_types
from harness import assert_all_right

pytestmark = pytest.mark.endings

LATE, STOPPED = 3, 1  # ranks
MULTICAST = ("--path", "hosts", "--algorithm", "multicast", "--all-gather", "--timeout-s", 300)
# Bytes of a part: all parts fit into a staging ring of 4 MiB, and hardly any does.
COUNTS = "1000,400003"
BUSY = "while :; do :; done"


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*test_types.BED)


def slowest_s(rank):
    return rank.json_lines()[-1]["slowest_us"] / 1e6


def pid_of(rank):
    """A process of this machine, since hosts on softnic are."""
    return json.loads(rank.wait_for('"pid"'))["pid"]


def assert_none_read(ranks):
    for rank in ranks:
        counts = rank.json_lines()[-1]["datagrams"]
        assert counts["came"] == counts["expected"] > 0 and counts["read"] == 0, counts


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("busy", [0, 2], ids=["alone", "beside busy loops"])
@pytest.mark.parametrize("seconds", [1.5, pytest.param(60, marks=pytest.mark.slow)])
def test_who_is_late_or_stopped_is_waited_for(bed, seconds, busy):
    loops = [bed.start("h0", "sh", "-c", BUSY, timeout_s=300) for _ in range(busy)]
    stopped_group, late_group = bed.new_group(), bed.new_group()
    # It is stopped in the midst of calls that follow one another at once.
    stopped = bed.loops(*MULTICAST, "--each", "--counts", COUNTS, "--iterations", 24, group=stopped_group)
    late = [bed.loop(rank, *MULTICAST, "--counts", COUNTS, "--iterations", 3, "--pause-ms", int(seconds * 1000) if rank == LATE else 0,
                     group=late_group) for rank in range(4)]
    for rank in late:
        rank.wait_for("joined")
    stopped[STOPPED].wait_for('"iteration": 1,')
    pid = pid_of(stopped[STOPPED])
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # nothing happens meanwhile, which is what is tested
    finally:
        os.kill(pid, signal.SIGCONT)
    assert_all_right(stopped + late)
    for ranks, own in ((stopped, STOPPED), (late, LATE)):
        assert max(slowest_s(rank) for number, rank in enumerate(ranks) if number != own) > 0.9 * seconds
        assert_none_read(ranks)
    for loop in loops:
        loop.end()
    bed.wait_clean()
