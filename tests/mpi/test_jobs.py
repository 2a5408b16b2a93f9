"""Communicators that can have no group: their calls are the MPI's, and the report has them by reason."""

import launcher
import pytest
from launcher import groups_told_of

SWITCHES = "by EPIC, through the switches"
INTER = "the MPI's own, an intercommunicator"
JOBS = "the MPI's own, a communicator with ranks of several jobs"
ALONE = "the MPI's own, a communicator of one rank"


def calls(done, way):
    """{function: how many calls} that went this way."""
    return {function: count for (function, how), (count, _) in done.report().items() if how == way}


def test_calls_between_two_groups_are_the_mpis(bed, mpirun):
    done = mpirun("jobs", "inter")
    done.assert_right()
    # Of Allreduce MPICH has the nonblocking ones as well; Open MPI those by which it makes such barriers.
    assert calls(done, INTER) == {"MPI_Allreduce": 6, "MPI_Reduce": 3, "MPI_Bcast": 3, "MPI_Allgather": 3, "MPI_Barrier": 3}, done.output
    # Of both groups in one communicator.
    assert calls(done, SWITCHES)["MPI_Allreduce"] == 1 and done.said() == [], done.output
    bed.wait_clean()


def test_calls_of_one_rank_are_the_mpis(bed, mpirun):
    done = mpirun("jobs", "alone")
    done.assert_right()
    # Open MPI itself has nothing to do in a barrier of one rank.
    barrier = {} if mpirun.PROGRAMS_OF == "mpi" else {"MPI_Barrier": 1}
    assert calls(done, ALONE) == {"MPI_Allreduce": 5, **barrier} and len(done.report()) == 1 + len(barrier), done.output
    bed.assert_clean()


def test_a_program_that_this_one_starts(bed, openmpi):
    """Parents and children have a world each, and groups; what they do together is the MPI's."""
    before = groups_told_of(bed)
    # The children's rank 0 is on a host to which mpirun hands nothing of ours.
    done = openmpi("jobs", "spawn", ranks=2, of_hosts={host: {"EPIC_MPI_FROM_CALL": "1"} for host in bed.hosts})
    told = [line for line in done.output.splitlines() if line.startswith("rank ")]
    assert done.status == 0 and len(told) == 4 and all(line.endswith(" 0 wrong") for line in told), done.output
    assert calls(done, JOBS) == {"MPI_Allreduce": 4, "MPI_Barrier": 1}, done.output
    assert "MPI_Bcast" in calls(done, INTER) and "MPI_Allreduce" in calls(done, SWITCHES), done.output
    # Of each a second one: Open MPI makes calls between two groups of ranks by calls within each.
    assert len(groups_told_of(bed) - before) == 4 and done.said() == [], done.output
    bed.wait_clean()


@pytest.mark.parametrize("manager", [launcher.MANAGER, None])
def test_debians_mpich_starts_no_programs(mpich, manager):
    """With EPIC or without, nor has it ports by which programs could meet. Should it learn to, the test before is to be its own, too."""
    through = (launcher.EPIC_RUN, "--mpi") if manager else ("env",)
    done = mpich("jobs", "spawn", ranks=2, env={"EPIC_MANAGER": manager}, through=through)
    assert done.status != 0 and "Error in spawn call" in done.output, done.output
