"""Nonblocking and persistent calls of unchanged programs of Open MPI and of MPICH, as requests of the MPI beside others."""

import epic_ranks
import launcher
import pytest

# pool: whole

SWITCHES = "by EPIC, through the switches"
BEFORE = "the MPI's own, nonblocking, before the first blocking call"
MANY = "the MPI's own, more persistent calls than a communicator has groups for"
SHARED = "the MPI's own, nonblocking or persistent, with several ranks on a host"
UNEVEN = "the MPI's own, hosts with different numbers of ranks"
FUNCTIONS = ("Allreduce", "Reduce", "Reduce_scatter_block", "Reduce_scatter", "Bcast", "Allgather", "Barrier")

# What is played in one start, with the calls (and their bytes) of Allreduce or of Bcast that go through the switches.
TRAPS = {"outstanding": (1500, 1500 * 12), "freed": (101, 100 * 8 + 4), "disconnected": (101, 100 * 8 + 4), "late-requests": (4, 4 * 8)}
LAYOUTS = {"vector": 12, "freed-types": 3, "bottom": 4}
FOUR_BYTES = {"mpi": 0, "mpich": 4}  # Open MPI makes the calls of this layout itself
# With two ranks on a host most is Open MPI's: where other tests have that of MPICH.
PAIRS = pytest.mark.one_mpi("requests of two ranks a host")
ALL_TRAPS = launcher.Start("traps", tuple(TRAPS))
ALL_LAYOUTS = launcher.Start("layouts", (*LAYOUTS, "four bytes"))
# Two ranks on each of two hosts.
TRAPS_OF_PAIRS = launcher.Start("traps", ("outstanding", "freed", "disconnected"), per_host=2)
LAYOUTS_OF_PAIRS = launcher.Start("layouts", tuple(LAYOUTS), per_host=2)


def by_epic(report, function):
    """How many calls EPIC has made, by whichever way."""
    return sum(calls for (name, way), (calls, _) in report.items() if name == function and way.startswith("by EPIC"))


def test_every_collective_in_every_way_of_waiting(bed, mpirun):
    """The same calls before there is a group, with one, and persistent, of which as many as have groups are EPIC's."""
    done = mpirun("requests", patient=True)
    done.assert_right()
    report = done.report()
    for function in FUNCTIONS:
        assert report[(f"MPI_{function}", BEFORE)][0] == 16, done.output
        # 16 that are nonblocking, and two that are persistent, which are started 8 times. The eighth persistent one of
        # the first communicator is started 3 times; of a third one there is one of each kind, the latter started twice. The
        # barriers that make groups are two more. The switches have no
        # room for the last of 16 groups, which is between the hosts.
        extra = {"Allreduce": 6, "Barrier": 2}.get(function, 0)
        assert by_epic(report, f"MPI_{function}") == 32 + extra, done.output
        assert report[(f"MPI_{function}", SWITCHES)][0] >= 24, done.output
    assert report[("MPI_Allreduce", MANY)][0] == 2, done.output
    assert done.said() == []
    bed.wait_clean()


@PAIRS
def test_several_ranks_on_a_host_are_mpichs(bed, mpich):
    done = mpich(*mpich.OWN_REQUESTS, per_host=2, patient=True)
    done.assert_right(8)
    report = done.report()
    assert all(report[(f"MPI_{function}", SHARED)][0] == 16 for function in FUNCTIONS), done.output
    assert report[("MPI_Barrier", SWITCHES)][0] == 1 and done.said() == [], done.output
    bed.wait_clean()


def summed(bed):
    """Contributions that each switch has summed so far."""
    return [epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches]


@PAIRS
def test_several_ranks_on_a_host_of_open_mpi_in_every_way_of_waiting(bed, openmpi):
    """As with one on each: also where a communicator is freed before its persistent call begins."""
    before = summed(bed)
    done = openmpi("requests", per_host=2, patient=True)
    done.assert_right(8)
    assert all(after > first + 1000 for first, after in zip(before, summed(bed))), (before, summed(bed))
    report = done.report()
    for function in FUNCTIONS:
        assert report[(f"MPI_{function}", BEFORE)][0] == 16, done.output
        extra = {"Allreduce": 6, "Barrier": 2}.get(function, 0)
        assert by_epic(report, f"MPI_{function}") == 32 + extra, done.output
        assert report[(f"MPI_{function}", SWITCHES)][0] >= 24, done.output
    assert report[("MPI_Allreduce", MANY)][0] == 2, done.output
    assert done.said() == []
    bed.wait_clean()


@PAIRS
def test_hosts_with_different_numbers_of_ranks(bed, openmpi):
    """What has a part for each rank is the MPI's then."""
    done = openmpi("requests", "nonblocking", per_host=2, ranks=7, patient=True)
    done.assert_right(7)
    report = done.report()
    for function in ("Allreduce", "Reduce", "Bcast"):
        assert report[(f"MPI_{function}", SWITCHES)][0] == 16, done.output
    for function in ("Allgather", "Reduce_scatter", "Reduce_scatter_block"):
        assert report[(f"MPI_{function}", UNEVEN)][0] == 16, done.output
    bed.wait_clean()


@pytest.mark.parametrize("start, scene", [(start, scene) for start in (TRAPS_OF_PAIRS, LAYOUTS_OF_PAIRS) for scene in start.scenes],
                         ids=lambda value: getattr(value, "program", value))
def test_a_trap_with_two_ranks_on_each_of_two_hosts(openmpi, start, scene):
    """Calls that wait for their turn, waited for with Testsome, Waitany and Waitall beside messages; whose communicator has
    been freed or left; of other layouts."""
    openmpi.scene(start, scene).assert_right()


@PAIRS
def test_threads_with_two_ranks_on_each_of_two_hosts(bed, openmpi):
    """Beside calls that wait."""
    done = openmpi("threads", per_host=2, ranks=4)
    done.assert_right()
    assert done.report()[("MPI_Allreduce", SWITCHES)][0] == 3 * 350, done.output
    bed.wait_clean()


@pytest.mark.parametrize("start, function, calls", [(TRAPS_OF_PAIRS, "Allreduce", sum(TRAPS[scene][0] for scene in TRAPS_OF_PAIRS.scenes)),
                                                    (LAYOUTS_OF_PAIRS, "Bcast", sum(LAYOUTS.values()))],
                         ids=lambda value: getattr(value, "program", None))
def test_the_calls_of_these_go_through_the_switches(openmpi, start, function, calls):
    done = openmpi.played(start)
    assert done.status == 0 and done.report()[(f"MPI_{function}", SWITCHES)][0] == calls, done.output


def test_1500_calls_under_way_on_two_communicators_beside_messages(mpirun):
    mpirun.scene(ALL_TRAPS, "outstanding").assert_right()


def test_ranks_that_come_late_one_after_the_other(mpirun):
    mpirun.scene(ALL_TRAPS, "late-requests").assert_right()


@pytest.mark.one_mpi("threads")
def test_threads_with_communicators_of_their_own(bed, mpirun):
    done = mpirun("threads")
    done.assert_right()
    assert done.report()[("MPI_Allreduce", SWITCHES)][0] == 3 * 350, done.output
    bed.wait_clean()


@pytest.mark.parametrize("scene", LAYOUTS)
def test_derived_types(mpirun, scene):
    """A vector on one rank that is plain ints on another; types that are freed before their calls begin or end, or that have
    the addresses of their data."""
    mpirun.scene(ALL_LAYOUTS, scene).assert_right()


def test_the_calls_of_all_traps_go_through_the_switches(mpirun):
    """Of Bcasts of few bytes only MPICH's."""
    done = mpirun.played(ALL_TRAPS)
    calls, size = map(sum, zip(*TRAPS.values()))
    assert done.status == 0 and done.report()[("MPI_Allreduce", SWITCHES)] == (calls, size), done.output
    done = mpirun.played(ALL_LAYOUTS)
    calls = sum(LAYOUTS.values()) + FOUR_BYTES[mpirun.PROGRAMS_OF]
    assert done.status == 0 and done.report()[("MPI_Bcast", SWITCHES)][0] == calls, done.output


@PAIRS
def test_data_at_addresses_with_two_ranks_on_each_of_two_hosts(bed, mpich):
    """The blocking calls; MPICH makes the others itself."""
    done = mpich("layouts", "bottom", per_host=2, ranks=4, patient=True)
    done.assert_right()
    assert done.report()[("MPI_Bcast", SWITCHES)][0] == 2 and done.report()[("MPI_Allgather", SWITCHES)][0] == 1, done.output
    bed.wait_clean()


def test_bytes_that_open_mpi_may_have_called_itself(mpirun):
    """Whatever a rank calls them: one element, or four."""
    mpirun.scene(ALL_LAYOUTS, "four bytes").assert_right()


def test_ranks_may_call_the_functions_with_large_counts_or_the_others(bed, mpich):
    """And barriers by either name. Open MPI 4.1 has one of each only."""
    done = mpich("layouts", "large counts", timeout_s=60)
    done.assert_right()
    functions = ("Allreduce", "Bcast", "Allgather", "Reduce_scatter", "Barrier")
    assert {key: calls for key, (calls, _) in done.report().items()} == {(f"MPI_{f}", SWITCHES): 3 for f in functions}, done.output
    bed.wait_clean()


@pytest.mark.one_mpi("threads")
def test_what_waits_for_a_message_starts_calls_that_wait_for_their_turn(bed, mpirun):
    done = mpirun("requests", "queued", patient=True)
    done.assert_right()
    assert done.report()[("MPI_Allreduce", SWITCHES)][0] == 16 + 7 * 200, done.output
    bed.wait_clean()


def test_a_program_in_fortran_2008(bed, mpirun):
    """MPICH's module for it calls PMPI's functions to wait, and its barrier."""
    done = mpirun("waits")
    done.assert_right()
    assert done.report()[("MPI_Barrier", SWITCHES)] == (1, 0), done.output
    assert done.report()[("MPI_Allreduce", SWITCHES)] == (16, 16 * 2000), done.output
    bed.wait_clean()


@pytest.mark.parametrize("scene", ["freed", "disconnected"])
def test_a_communicator_that_is_given_up_with_calls_under_way(mpirun, scene):
    mpirun.scene(ALL_TRAPS, scene).assert_right()


def test_a_call_that_is_left_when_the_program_ends(bed, mpich):
    """Open MPI itself waits for it then. The other ranks' end does not."""
    done = mpich("traps", "left")
    done.assert_right()
    assert done.seconds < 25, done.output
    bed.wait_clean()


def test_a_switch_that_dies_in_the_middle_of_a_call_is_an_error_on_every_rank(bed, mpirun):
    killed = []
    done = mpirun("traps", "broken", at_line=("under way", lambda: killed.append(bed.kill("leaf1.engine"))))
    bed.revive("leaf1.engine", killed[0])
    bed.wait_for_switch("leaf1")
    done.assert_right()
    bed.wait_clean()


@PAIRS
def test_that_with_two_ranks_on_each_host(bed, openmpi):
    killed = []
    done = openmpi("traps", "broken", per_host=2,
                   at_line=("under way", lambda: killed.append(bed.kill("leaf1.engine"))))
    bed.revive("leaf1.engine", killed[0])
    bed.wait_for_switch("leaf1")
    done.assert_right(8)
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_join_that_is_refused_leaves_them_to_the_mpi(bed, mpirun):
    done = mpirun(*mpirun.OWN_REQUESTS, env={"EPIC_JOIN_TIMEOUT": "3"}, of_hosts={"h2": {"EPIC_IFNAME": "none"}}, patient=True)
    done.assert_right()
    assert not any(way.startswith("by EPIC") for _, way in done.report()), done.output
    assert all("no active RoCE port on none" in line for line in done.said()), done.output
    # Once for the communicator, and once for the persistent calls of each.
    others = ["EPIC: persistent calls of a communicator of 4 ranks use"] * 2
    said = ["EPIC: a communicator of 4 ranks uses"] + (others if "persistent" in mpirun.OWN_REQUESTS else [])
    assert [line.split(" the MPI")[0] for line in done.said()] == said, done.output
    bed.wait_clean()
