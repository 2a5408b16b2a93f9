"""Unchanged programs of Open MPI and of MPICH on EPIC: the MPI's own results, by the switches where EPIC can, and else as before."""

import epic_ranks
import launcher
import pytest

# pool: whole

SWITCHES = "by EPIC, through the switches"
ALONE = "the MPI's own, a communicator of one rank"
RING = "by EPIC, between the hosts: reducescatter of 288 KiB and more: around the ring"
FUNCTIONS = ("Allreduce", "Reduce", "Reduce_scatter_block", "Reduce_scatter", "Bcast", "Allgather", "Barrier")
# Of collectives.c: 107 pairs of a type and an operation, of one element and of 1000, and two of many, in place and not; then
# nonblocking, and 13 persistent ones, of one form or another, started twice.
# Two of each Reduce_scatter are long enough to go around the ring of hosts.
LONG = {"Reduce_scatter_block": 2, "Reduce_scatter": 2}
REDUCTIONS = {"Allreduce": 432 + 214 + 8, "Reduce": 432 + 214 + 6, "Reduce_scatter_block": 218 + 107 + 6, "Reduce_scatter": 218 + 107 + 6}
# Of these the nonblocking ones of one element of four bytes are Open MPI's.
OF_FOUR_BYTES = 31

# What is played in one start, and how many calls of Allreduce go through the switches: of what a rank has called wrongly, the
# one before.
TRAPS = {"message": 3, "splits": 18, "late": 4, "mismatch": 1}
ALL_TRAPS = launcher.Start("traps", tuple(TRAPS))
TRAPS_OF_PAIRS = launcher.Start("traps", ("message", "mismatch"), per_host=2, ranks=8)


def summed(bed):
    """Contributions that each switch has summed so far."""
    return [epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches]


def ways(done):
    """How calls went, whichever."""
    return {way for _, way in done.report()}


def test_every_collective_type_and_form_is_as_the_mpi_has_it_and_summed_by_the_switches(bed, mpirun):
    before = summed(bed)
    done = mpirun("collectives", patient=True)
    done.assert_right()
    assert all(after > first + 1000 for first, after in zip(before, summed(bed))), (before, summed(bed))
    report = done.report()
    own = OF_FOUR_BYTES if mpirun.PROGRAMS_OF == "mpi" else 0
    for function, calls in REDUCTIONS.items():
        left = own if function in ("Allreduce", "Reduce") else 0
        around = sum(calls for (name, way), (calls, _) in report.items() if name == f"MPI_{function}" and RING in way)
        assert around == LONG.get(function, 0), done.output
        assert report[(f"MPI_{function}", SWITCHES)][0] == calls - left - around, done.output
    assert all((f"MPI_{function}", SWITCHES) in report for function in FUNCTIONS), done.output
    # MINLOC, and an operation of the program's own.
    assert report[("MPI_Allreduce", "the MPI's own, an operation that EPIC does not have")][0] == 2
    assert report[("MPI_Allreduce", "the MPI's own, a type that EPIC does not reduce")] == (1, 16)
    assert report[("MPI_Reduce_scatter", "the MPI's own, counts that differ from rank to rank")][0] == 1
    assert done.said() == []
    bed.wait_clean()


@pytest.mark.one_mpi("two ranks a host")
def test_two_ranks_on_each_host_of_which_one_is_in_the_group(bed, mpirun):
    before = summed(bed)
    # MPICH's ranks do not yield while they wait for each other, and there are four on a processor.
    done = mpirun("collectives", "own", per_host=2, timeout_s=300, patient=True)
    done.assert_right(8)
    assert all(after > first + 1000 for first, after in zip(before, summed(bed))), (before, summed(bed))
    assert all((f"MPI_{function}", SWITCHES) in done.report() for function in FUNCTIONS), done.output
    assert done.said() == []
    bed.wait_clean()


@pytest.mark.parametrize("scene", TRAPS_OF_PAIRS.scenes)
def test_a_trap_with_two_ranks_on_each_host(mpirun, scene):
    mpirun.scene(TRAPS_OF_PAIRS, scene).assert_right()


@pytest.mark.in_turn(2)
def test_a_join_refused_with_two_ranks_on_each_host(bed, mpirun):
    done = mpirun("traps", "usual", per_host=2, env={"EPIC_JOIN_TIMEOUT": "3"},
                  of_hosts={"h2": {"EPIC_IFNAME": "none"}}, patient=True)
    done.assert_right(8)
    assert len(done.said()) == 1 and "no active RoCE port on none" in done.said()[0], done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_hosts_with_different_numbers_of_ranks(bed, mpirun):
    """What has a part for each rank is the MPI's then."""
    done = mpirun("traps", "splits", per_host=2, ranks=7)
    done.assert_right(7)
    uneven = "the MPI's own, hosts with different numbers of ranks"
    report = done.report()
    assert ("MPI_Allgather", uneven) in report, done.output
    # Rank 0 is the second of its host where ranks are reversed.
    handed = "by EPIC, handed to another rank of the host"
    assert report[("MPI_Allreduce", SWITCHES)][0] == 12 and report[("MPI_Allreduce", handed)][0] == 6, done.output
    assert report[("MPI_Bcast", handed)] == (1, 4), done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_all_ranks_on_one_host_is_the_mpis(bed, mpirun):
    done = mpirun("traps", "usual", per_host=4, ranks=4)
    done.assert_right(4)
    assert ways(done) == {"the MPI's own, all ranks are on one host"} and done.said() == [], done.output
    bed.assert_clean()


def test_a_fortran_program(bed, mpirun):
    done = mpirun("sums")
    done.assert_right()
    assert ways(done) == {SWITCHES}, done.output
    bed.wait_clean()


def test_every_form_of_every_collective_in_fortran(bed, mpirun):
    before = summed(bed)
    done = mpirun("forms")
    done.assert_right()
    # Blocking, nonblocking, and persistent, started twice.
    assert {key: calls for key, (calls, _) in done.report().items()} == {(f"MPI_{f}", SWITCHES): 4 for f in FUNCTIONS}, done.output
    assert all(after > first + 10 for first, after in zip(before, summed(bed))), (before, summed(bed))
    bed.wait_clean()


@pytest.mark.one_mpi("two ranks a host")
@pytest.mark.parametrize("program", [("sums",), ("forms", "once")])
def test_a_fortran_program_with_two_ranks_on_each_host(bed, mpirun, program):
    before = summed(bed)
    done = mpirun(*program, per_host=2)
    done.assert_right(8)
    assert SWITCHES in ways(done) and all(after > first for first, after in zip(before, summed(bed))), done.output
    if program[0] == "forms" and mpirun.PROGRAMS_OF == "mpi":  # blocking, nonblocking, and persistent; MPICH's are the first alone
        assert {key: calls for key, (calls, _) in done.report().items()} == {(f"MPI_{f}", SWITCHES): 3 for f in FUNCTIONS}, done.output
    bed.wait_clean()


@pytest.mark.parametrize("scene", ["message", "splits", "late"])
def test_a_trap(mpirun, scene):
    """Messages go on while a rank waits; communicators with ranks in any order; ranks that come late."""
    mpirun.scene(ALL_TRAPS, scene).assert_right()


@pytest.mark.parametrize("start", [ALL_TRAPS, TRAPS_OF_PAIRS], ids=["1", "2"])
def test_programs_of_several_traps_end_well(mpirun, start):
    assert mpirun.played(start).status == 0, mpirun.played(start).output


def test_the_calls_of_all_traps_go_through_the_switches(mpirun):
    done = mpirun.played(ALL_TRAPS)
    assert ways(done) == {SWITCHES, ALONE}, done.output
    assert done.report()[("MPI_Allreduce", SWITCHES)][0] == sum(TRAPS.values()), done.output


@pytest.mark.in_turn(2)
def test_communicators_without_a_call_make_no_groups(bed, mpirun):
    """By the manager's own word, while there are such and afterwards."""
    before, seen = launcher.groups_told_of(bed), []
    done = mpirun("traps", "many", at_line=("half are made", lambda: seen.append(bed.groups())), patient=True)
    done.assert_right()
    assert done.report() == {} and seen == [[]] and launcher.groups_told_of(bed) <= before
    bed.assert_clean()


def test_calls_that_differ_are_an_error_on_every_rank(mpirun):
    mpirun.scene(ALL_TRAPS, "mismatch").assert_right()


def test_mpi_abort_ends_all_ranks(bed, mpirun):
    done = mpirun("traps", "gone")
    assert done.status == 9 and done.seconds < 30, done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_between_the_hosts_by_rank_0s_wish(bed, mpirun):
    done = mpirun("traps", "usual", env={"EPIC_PATH": "hosts"})
    done.assert_right()
    assert len(ways(done)) == 1 and ways(done).pop().startswith("by EPIC, between the hosts"), done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_wrong_managers_address_leaves_the_mpi_as_it_is(mpirun):
    done = mpirun("traps", "usual", env={"EPIC_MANAGER": "10.255.0.1:7499", **mpirun.soon}, patient=True)
    done.assert_right()
    assert len(done.said()) == 1 and "10.255.0.1:7499" in done.said()[0], done.output
    assert all(way.startswith("the MPI's own, no group: rank 0: manager unreachable") for way in ways(done))
    assert done.report()[("MPI_Allreduce", ways(done).pop())][0] == 10


@pytest.mark.in_turn(2)
def test_a_join_refused_on_one_rank_only(bed, mpirun):
    """All use the MPI then; the line names the rank that knows why, not those that waited for it."""
    done = mpirun("traps", "usual", env={"EPIC_JOIN_TIMEOUT": "3"}, of_hosts={"h2": {"EPIC_IFNAME": "none"}}, patient=True)
    done.assert_right()
    assert len(done.said()) == 1 and "rank 2: not found: no active RoCE port on none" in done.said()[0], done.output
    assert done.report()[("MPI_Allreduce", ways(done).pop())][0] == 10
    bed.wait_clean()


def test_a_setting_that_cannot_be_is_said_once(mpirun):
    done = mpirun("traps", "usual", env={"EPIC_PATH": "switches"})
    done.assert_right()
    wrong = "EPIC_PATH=switches is none of auto, network, hosts"
    assert done.said() == [f"EPIC: the MPI's own collectives are used: {wrong}"]


# Where no other rank wants it, it is off as well where each rank had its own way.
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("of_hosts", [pytest.param({}, marks=pytest.mark.slow), {"h2": {"EPIC_MPI": "on"}}])
def test_off_by_rank_0_is_off_for_all(bed, mpirun, of_hosts):
    before = summed(bed)
    done = mpirun("traps", "usual", env={"EPIC_MPI": "off"}, of_hosts=of_hosts)
    done.assert_right()
    assert done.said() == [] and done.report() == {} and summed(bed) == before


@pytest.mark.in_turn(2)
def test_another_ranks_settings_count_for_nothing(bed, mpirun):
    wrong = {"EPIC_MPI": "off", "EPIC_MANAGER": "10.255.0.1:1", "EPIC_PATH": "hosts", "EPIC_TIMEOUT": "0", "EPIC_MODE": "99"}
    done = mpirun("traps", "usual", of_hosts={"h2": wrong})
    done.assert_right()
    assert ways(done) == {SWITCHES}, done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_bounds_of_size(bed, mpirun):
    done = mpirun("traps", "usual", env={"EPIC_MPI_MIN_BYTES": "5"})
    done.assert_right()
    assert done.report() == {("MPI_Allreduce", "the MPI's own, smaller than EPIC_MPI_MIN_BYTES"): (10, 40)}
    bed.assert_clean()
