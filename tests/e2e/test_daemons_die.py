"""Daemons that die: a running collective survives its agent, and learns of a lost switch in stated time."""

import time

import pytest

from harness import ANY_HOSTS, assert_all_right, errors
from host_api import assert_within

pytestmark = pytest.mark.endings

LONG = ("--counts", "1000", "--pause-ms", "20", "--iterations")


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", *ANY_HOSTS)


def joined(ranks):
    for rank in ranks:
        rank.wait_for("joined")
    return ranks


def test_a_killed_agent_disturbs_no_collective_and_comes_back(bed):
    ranks = bed.loops_until_told("--counts", "1000", "--pause-ms", "20")
    argv = bed.kill("leaf1.agent")
    bed.wait_for_switch("leaf1", "agent lost")
    group = bed.network_group()
    for error in errors(bed.loops(group=group)):
        assert error["error"] in ("no tree", "switch lost"), error
        assert "leaf1" in error["message"], error
    bed.manager("group", "destroy", group, "--force")
    bed.revive("leaf1.agent", argv)
    bed.wait_for_switch("leaf1")
    bed.end_loops(ranks)
    assert_all_right(bed.loops())
    bed.assert_clean()


@pytest.fixture(name="mixed_bed")
def fixture_mixed_bed(beds):
    """For what ranks see of a switch that is gone: rdma_rxe repeats to it for ever, softnic does not."""
    return beds.get("tree-3-2")


def test_a_killed_engine_is_a_lost_switch_within_5_s(mixed_bed):
    bed = mixed_bed
    ranks = joined(bed.loops(*LONG, 5000))
    begin = time.monotonic()
    argv = bed.kill("leaf1.engine")
    for error in errors(ranks):
        assert error["error"] == "switch lost" and "leaf1" in error["message"], error
    assert_within(5, time.monotonic() - begin)
    bed.revive("leaf1.engine", argv)
    bed.wait_for_switch("leaf1")
    assert_all_right(bed.loops())
    bed.assert_clean()


def test_an_engine_that_restarts_at_once_is_a_lost_switch(mixed_bed):
    bed = mixed_bed
    ranks = joined(bed.loops(*LONG, 5000))
    bed.revive("root.engine", bed.kill("root.engine"))
    for error in errors(ranks):
        assert error["error"] == "switch lost" and "root" in error["message"], error
    bed.wait_for_switch("root")
    assert_all_right(bed.loops())


def test_a_lost_manager_ends_groups_and_a_new_one_serves(bed):
    ranks = joined(bed.loops(*LONG, 5000))
    argv = bed.kill("manager")
    for error in errors(ranks):
        assert error["error"] == "manager lost", error
    bed.revive("manager", argv)
    bed.wait_for_manager()
    assert_all_right(bed.loops())
    bed.assert_clean()
