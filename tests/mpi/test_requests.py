"""Nonblocking and persistent calls of unchanged programs of Open MPI, as requests of its own beside others."""

import pytest

SWITCHES = "by EPIC, through the switches"
BEFORE = "the MPI's own, nonblocking, before the first blocking call"
MANY = "the MPI's own, more persistent calls than a communicator has groups for"
SHARED = "the MPI's own, nonblocking or persistent, with several ranks on a host"
FUNCTIONS = ("Allreduce", "Reduce", "Reduce_scatter_block", "Reduce_scatter", "Bcast", "Allgather", "Barrier")


def test_every_collective_in_every_way_of_waiting(bed, openmpi):
    """The same calls before there is a group, with one, and persistent, of which as many as have groups are EPIC's."""
    done = openmpi("requests")
    done.assert_right()
    report = done.report()
    for number, function in enumerate(FUNCTIONS):
        assert report[(f"MPI_{function}", BEFORE)][0] == 16, done.output
        # 16 that are nonblocking, 8 of the persistent call that is made first, which are started 8 times; of the
        # second one of Allreduce only. The barrier that makes the group is one more.
        extra = {"Allreduce": 8, "Barrier": 1}.get(function, 0)
        assert report[(f"MPI_{function}", SWITCHES)][0] == 24 + extra, done.output
        assert report.get((f"MPI_{function}", MANY), (0,))[0] == (0 if number == 0 else 1), done.output
    assert done.said() == []
    bed.wait_clean()


def test_several_ranks_on_a_host_are_the_mpis(bed, openmpi):
    done = openmpi("requests", per_host=2)
    done.assert_right(8)
    report = done.report()
    assert all(report[(f"MPI_{function}", SHARED)][0] == 18 for function in FUNCTIONS), done.output
    assert report[("MPI_Barrier", SWITCHES)][0] == 1 and done.said() == [], done.output
    bed.wait_clean()


def test_1500_calls_under_way_on_two_communicators_beside_messages(bed, openmpi):
    done = openmpi("traps", "outstanding")
    done.assert_right()
    assert done.report()[("MPI_Allreduce", SWITCHES)] == (1500, 1500 * 12), done.output
    bed.wait_clean()


@pytest.mark.parametrize("scene, function, calls", [("vector", "Bcast", 12), ("late requests", "Allreduce", 4),
                                                     ("threads", "Allreduce", 3 * 350)])
def test_a_trap(bed, openmpi, scene, function, calls):
    """A vector on one rank that is plain ints on another; ranks that come late, one after the other; threads with
    communicators of their own."""
    done = openmpi("traps", scene)
    done.assert_right()
    assert done.report()[(f"MPI_{function}", SWITCHES)][0] == calls, done.output
    bed.wait_clean()


def test_a_communicator_that_is_freed_with_calls_under_way(bed, openmpi):
    done = openmpi("traps", "freed")
    done.assert_right()
    assert done.report()[("MPI_Allreduce", SWITCHES)][0] == 101, done.output
    bed.wait_clean()


def test_a_switch_that_dies_in_the_middle_of_a_call_is_an_error_on_every_rank(bed, openmpi):
    killed = []
    done = openmpi("traps", "broken", at_line=("under way", lambda: killed.append(bed.kill("leaf1.engine"))))
    bed.revive("leaf1.engine", killed[0])
    bed.wait_for_switch("leaf1")
    done.assert_right()
    bed.wait_clean()


def test_a_join_that_is_refused_leaves_them_to_the_mpi(bed, openmpi):
    done = openmpi("requests", env={"EPIC_JOIN_TIMEOUT": "3"}, of_hosts={"h2": {"EPIC_IFNAME": "none"}})
    done.assert_right()
    assert not any(way.startswith("by EPIC") for _, way in done.report()), done.output
    # Once for the communicator, and once for its persistent calls.
    assert len(done.said()) == 2 and all("no active RoCE port on none" in line for line in done.said()), done.output
    assert done.said()[1].startswith("EPIC: persistent calls of a communicator of 4 ranks use"), done.output
    bed.wait_clean()
