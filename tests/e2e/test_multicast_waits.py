"""Groups by multicast of which a rank is late, or is stopped in the middle of calls: it is waited for, no datagram meets an
empty receive queue, and so no chunk is read from a neighbour. Also while others want the processors."""

import signal
import time

import pytest

from harness import assert_all_right

pytestmark = pytest.mark.endings

LATE, STOPPED = 3, 1  # ranks
MULTICAST = ("--path", "hosts", "--algorithm", "multicast", "--all-gather", "--timeout-s", 300)
# Bytes of a part: all parts fit into a staging ring of 4 MiB, and hardly any does.
COUNTS = "1000,400003"
BUSY = "while :; do :; done"
# Seconds that a rank is late, and that one is stopped: softnic stands still with its process, which is waited for for up to 9 s
# (docs/HOST.md); rdma_rxe goes on without it.
TIMES = [("softnic", 1.5, 1.5), pytest.param("softnic", 60, 8, marks=pytest.mark.slow), pytest.param("rxe", 60, 30, marks=pytest.mark.slow)]


def slowest_s(rank):
    return rank.json_lines()[-1]["slowest_us"] / 1e6


def assert_none_read(ranks):
    for rank in ranks:
        counts = rank.json_lines()[-1]["datagrams"]
        assert counts["came"] == counts["expected"] > 0 and counts["read"] == 0, counts


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("busy", [0, 2], ids=["alone", "beside busy loops"])
@pytest.mark.parametrize("hosts, late_s, stopped_s", TIMES)
def test_who_is_late_or_stopped_is_waited_for(beds, hosts, late_s, stopped_s, busy):
    bed = beds.get("tree-3-2", "--hosts", hosts)
    loops = [bed.start("h0", "sh", "-c", BUSY, timeout_s=300) for _ in range(busy)]
    stopped_group, late_group = bed.new_group(), bed.new_group()
    # It is stopped in the midst of calls that follow one another at once.
    stopped = bed.loops(*MULTICAST, "--each", "--counts", COUNTS, "--iterations", 24, group=stopped_group)
    late = [bed.loop(rank, *MULTICAST, "--counts", COUNTS, "--iterations", 3, "--pause-ms", int(late_s * 1000) if rank == LATE else 0,
                     group=late_group) for rank in range(4)]
    for rank in late:
        rank.wait_for("joined")
    stopped[STOPPED].wait_for('"iteration": 1,')
    bed.signal(stopped[STOPPED], signal.SIGSTOP)
    try:
        time.sleep(stopped_s)  # nothing happens meanwhile, which is what is tested
    finally:
        bed.signal(stopped[STOPPED], signal.SIGCONT)
    assert_all_right(stopped + late)
    for ranks, own, seconds in ((stopped, STOPPED, stopped_s), (late, LATE, late_s)):
        assert max(slowest_s(rank) for number, rank in enumerate(ranks) if number != own) > 0.9 * seconds
        assert_none_read(ranks)
    for loop in loops:
        loop.end()
    bed.wait_clean()
