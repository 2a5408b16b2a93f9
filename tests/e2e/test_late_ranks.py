"""Ranks that are late or stopped, in several modes at the same time: all is waited for, and nothing else is disturbed.

In a default run the modes take turns, by the commit: what a mode does then is shown for each by sim/stragglers_test.cc; here are
real NICs, their timers, and the daemons. With --full each is in every mode.
"""

import json
import time

import pytest

import covers
import modes
from harness import END_S, assert_all_right

pytestmark = pytest.mark.endings

RANKS = range(4)
LATE, STOPPED = 3, 1      # ranks, on hosts of the same number
# Seconds that a rank is late, and that one is stopped: long enough for whatever repeats to do so many times over; with --full
# also longer than anything that is promised.
TIMES = [pytest.param(5, 4, id="seconds"), pytest.param(60, 30, id="a minute", marks=pytest.mark.slow)]
# The late rank's group: more than a window of packets, so that the others wait with all on the way that may be.
LATE_RUN = {"--counts": 100003, "--iterations": 2}
STOPPED_RUN = {"--counts": 20001, "--iterations": 120, "--pause-ms": 50}
QUIET_RUN = {"--counts": 1000, "--iterations": 40, "--pause-ms": 50}


def modes_of(turn, full):
    """The modes of the groups of one kind: all, or one that has its turn, another for each kind."""
    return modes.NUMBERS if full else (modes.NUMBERS[(covers.seed() + turn) % len(modes.NUMBERS)],)


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "rxe")  # queue_pairs() asks rdma_rxe


class Group:
    """Four ranks that run in one mode, with the options of `run`; one rank with others."""

    def __init__(self, bed, mode, run, rank=None, own=None):
        self.iterations, name = run["--iterations"], bed.new_group()
        common = {"--mode": mode, "--timeout-s": 300, "--join-timeout-s": 200, **run}
        options = [{**common, **(own if r == rank else {})} for r in RANKS]
        self.ranks = [bed.loop(r, "--each", *(word for option in options[r].items() for word in option),
                               group=name, timeout_s=300) for r in RANKS]

    def pid(self, rank):
        return json.loads(self.ranks[rank].wait_for("pid"))["pid"]

    def wait_until_joined(self):
        for rank in self.ranks:
            rank.wait_for("joined", END_S)  # all of them start at once, in guests of one processor

    def calls(self, rank=0):
        """Calls that a rank has completed."""
        return sum("iteration" in line for line in self.ranks[rank].json_lines())

    def goes_on(self):
        return all(self.calls(rank) < self.iterations for rank in RANKS)

    def slowest_s(self, rank):
        """The longest call of a rank that has ended."""
        return self.ranks[rank].json_lines()[-1]["slowest_us"] / 1e6


def queue_pairs(bed, groups):
    """The states of each group's queue pairs, as rdma_rxe has them; a failed one is in SQE or ERR."""
    states = {group: [] for group in groups}
    for rank in RANKS:
        owners = {group.pid(rank): group for group in groups}
        for qp in json.loads(bed.run(bed.hosts[rank], "rdma", "-j", "res", "show", "qp")):
            if qp.get("pid") in owners:
                states[owners[qp["pid"]]].append(qp["state"])
    return states


def watch(bed, groups, until):
    """Until that time the queue pairs of all groups that go on are in order. Returns those that still do."""
    while groups and time.monotonic() < until:
        states = queue_pairs(bed, groups)
        time.sleep(1)  # so that the end of a group that was ending is known now
        groups = [group for group in groups if group.goes_on()]
        for group in groups:
            assert states[group] == ["RTS"] * len(RANKS)
    return groups


def signal_all(bed, groups, name):
    bed.run(bed.hosts[STOPPED], "kill", f"-{name}", *(group.pid(STOPPED) for group in groups))


@pytest.mark.parametrize("late_s, stopped_s", TIMES)
def test_ranks_that_come_late_or_are_stopped_are_waited_for(bed, late_s, stopped_s, request):
    """One rank is stopped in the middle; meanwhile one makes its second call late, one joins late, and others do all their calls."""
    full = request.config.getoption("--full")
    # It calls at once, and so is stopped in a call: it waits for the others.
    stopped = [Group(bed, mode, STOPPED_RUN, STOPPED, own={"--pause-ms": 0}) for mode in modes_of(0, full)]
    for group in stopped:
        group.wait_until_joined()
    signal_all(bed, stopped, "STOP")
    begin = time.monotonic()
    try:
        late = [Group(bed, mode, LATE_RUN, LATE, own={"--pause-ms": late_s * 1000}) for mode in modes_of(1, full)]
        joins_late = Group(bed, 2, LATE_RUN, LATE, own={"--delay-ms": late_s * 1000})
        quiet = [Group(bed, mode, QUIET_RUN) for mode in modes_of(2, full)]
        for group in late + quiet:
            group.wait_until_joined()
        # All of it while the others stand still: nothing of theirs is waited for.
        assert_all_right([rank for group in quiet for rank in group.ranks], 200)
        go_on = watch(bed, late + stopped, max(begin + stopped_s, time.monotonic() + 1))
    finally:
        signal_all(bed, stopped, "CONT")
    lasted_s = time.monotonic() - begin
    assert set(stopped) <= set(go_on), "a group had ended before its rank was stopped"
    watch(bed, late, begin + 2 * late_s)

    assert_all_right([rank for group in late + stopped + [joins_late] for rank in group.ranks], 200)
    # Whoever called at once has waited; a busy machine may have kept some from calling.
    for group in late:
        assert max(group.slowest_s(rank) for rank in RANKS if rank != LATE) > 0.9 * late_s
    for group in stopped:
        assert max(group.slowest_s(rank) for rank in RANKS if rank != STOPPED) > 0.9 * stopped_s
    slowest = [group.slowest_s(rank) for group in quiet for rank in RANKS]
    assert max(slowest) < 0.9 * lasted_s, f"an undisturbed group waited: {slowest}"
    bed.assert_clean()
