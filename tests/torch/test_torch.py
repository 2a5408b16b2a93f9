"""torch.distributed on EPIC, on four hosts: results, training, and what happens when something ends."""

import re

import epic_ranks
import pytest
from host_api import AT_ONCE_S, assert_within

MANAGER = "10.255.0.1:7499"


def summed(bed):
    """Contributions that each switch has summed so far."""
    return [epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches]


def test_all_collectives_and_types_are_as_they_should_be_and_summed_by_the_switches(bed, ranks):
    before = summed(bed)
    ranks("collectives").assert_right()
    assert all(after > first + 500 for first, after in zip(before, summed(bed))), (before, summed(bed))
    bed.wait_clean()


@pytest.mark.parametrize("path", ["auto", "network"])
def test_long_reduce_scatters_go_around_the_ring_of_hosts(bed, ranks, path):
    """Unless the group is to go by the switches. Each of 20 calls would be 4096 packets there."""
    before = summed(bed)
    ranks("long_reduce_scatter", env={"EPIC_PATH": path}).assert_right()
    packets = [after - first for first, after in zip(before, summed(bed))]
    assert all(count > 20 * 4096 if path == "network" else count < 4096 for count in packets), packets
    bed.wait_clean()


@pytest.mark.parametrize("scene", ["paths", "through_gloo", "tensors", "own_deadline", "asynchronous", "callbacks", "groups", "layouts", "at_once"])
def test_scene(bed, ranks, scene):
    ranks(scene).assert_right()
    bed.wait_clean()


@pytest.mark.parametrize("path", ["network", "hosts"])
def test_sums_that_travel_as_blocks_are_rounded_while_the_program_wants_it(bed, ranks, path):
    ranks("quantised", env={"EPIC_PATH": path, "EPIC_QUANTISE": "int8"}).assert_right()
    bed.wait_clean()


def test_what_neither_the_group_nor_gloo_reduces_is_told(bed, ranks):
    ranks("undeclared_types", env={"EPIC_PATH": "network", "EPIC_TYPES": "int32"}).assert_right()
    bed.wait_clean()


def test_data_parallel_training_ends_with_the_same_bits_on_every_rank(bed, ranks):
    before = summed(bed)
    ranks("training").assert_right()
    assert all(after > first + 50 for first, after in zip(before, summed(bed))), (before, summed(bed))
    bed.wait_clean()


def test_children_of_fork_neither_use_nor_end_a_group(bed, ranks):
    ranks("forks").assert_right()
    bed.wait_clean()


def test_a_group_is_destroyed_while_a_call_is_under_way(bed, ranks):
    ranks("destroyed_under_a_call").assert_right()
    bed.wait_clean()


def test_a_program_that_destroys_nothing_ends_by_itself(bed, ranks):
    ranks("no_destroy").assert_right()
    bed.wait_clean()


def assert_others_right(done, ended, status):
    """All but one rank have come to their ends."""
    assert done.statuses == [status if rank == ended else 0 for rank in range(4)], str(done)
    assert all("all right" in output for rank, output in enumerate(done.outputs) if rank != ended), str(done)


def test_a_rank_that_is_killed_is_named(bed, ranks):
    done = ranks("killed")
    assert_others_right(done, 2, -9)
    killed = float(re.search(r"^killed at (\S+) s$", done.outputs[2], re.M)[1])
    for rank in (0, 1, 3):
        called, told = map(float, re.search(r"^called at (\S+) s, told at (\S+) s$", done.outputs[rank], re.M).groups())
        assert_within(AT_ONCE_S, told - max(called, killed))
    bed.wait_clean()


def test_a_rank_that_dies_while_all_join_is_named(bed, ranks):
    assert_others_right(ranks("dies_joining", env={"EPIC_JOIN_TIMEOUT": 3}), 2, -9)
    bed.wait_clean()


def test_a_rank_that_ends_by_an_error_is_named_with_it(bed, ranks):
    assert_others_right(ranks("raises"), 1, 1)
    bed.wait_clean()


def test_a_rank_that_leaves_too_early_ends_the_others_calls(bed, ranks):
    ranks("leaves").assert_right()
    bed.wait_clean()


def test_ranks_that_call_otherwise_are_told(bed, ranks):
    ranks("differs").assert_right()
    bed.wait_clean()


def test_a_rank_that_does_not_call_is_waited_for_until_the_groups_deadline(bed, ranks):
    ranks("late").assert_right()
    bed.wait_clean()


def test_a_wrong_managers_address_is_an_exception(bed, ranks):
    ranks("refused", "manager unreachable", env={"EPIC_MANAGER": MANAGER}).assert_right()
    bed.assert_clean()


def test_no_manager_is_an_exception(bed, ranks):
    ranks("refused", "EPIC_MANAGER", env={"EPIC_MANAGER": None}).assert_right()
    bed.assert_clean()


def test_a_join_refused_on_one_rank_is_an_exception_on_all(bed, ranks):
    """It names the rank that knows why, not those that waited for it."""
    done = ranks("refused", "rank 2", "no active RoCE port on none", env={"EPIC_JOIN_TIMEOUT": 3},
                 of_rank={2: {"EPIC_IFNAME": "none"}})
    done.assert_right()
    bed.wait_clean()
