"""Groups that a program is refused: every rank uses the MPI then, and hears why from the rank that knows."""

import pytest

import harness
import launcher
from altered import Altered

PRELOAD = harness.BUILD / "mpi" / "lib" / "libepic_mpi.so"
UNLOCKED = harness.BUILD / "tests" / "mpi" / "libmpi_unlocked.so"


def kill_leaf1(bed):
    """Its engine, which the manager has noticed; returns the command line."""
    engine = bed.kill("leaf1.engine")
    bed.wait_for_switch("leaf1", "engine down")
    return engine


def revive_leaf1(bed, engine):
    bed.revive("leaf1.engine", engine)
    bed.wait_for_switch("leaf1")


@pytest.mark.in_turn(2)
def test_no_tree_where_only_the_switches_would_do(bed, mpirun):
    """Every rank comes, and is told at once."""
    engine = kill_leaf1(bed)
    done = mpirun("traps", "usual", env={"EPIC_PATH": "network"})
    revive_leaf1(bed, engine)
    done.assert_right()
    assert len(done.said()) == 1 and "rank 0: no tree: " in done.said()[0], done.output
    assert done.report() == {("MPI_Allreduce", "the MPI's own, no group: " + done.said()[0].split(" collectives: ")[1]): (10, 40)}
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_switch_without_memory_refuses_each_communicator(bed, mpirun):
    """Every rank is told at once."""
    engine = kill_leaf1(bed)
    small = [*engine]
    small[small.index("--sram") + 1] = "1M"
    revive_leaf1(bed, small)
    done = mpirun("ends", "fleeting", env={"EPIC_PATH": "network"}, patient=True)
    kill_leaf1(bed)
    revive_leaf1(bed, engine)
    done.assert_right()
    assert len(done.said()) == 20, done.output
    assert all("rank 0: no resource: " in line for line in done.said()), done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_switch_takes_no_more_children(bed, mpirun):
    """As a 65th of one that takes 64. The group goes between the hosts, or is refused where only the switches would do."""
    words = "leaf1 would have 2 children in this group; it takes at most 1"
    with Altered(bed, "leaf1") as leaf1:
        leaf1.alter("0.1.1", max_children=1)
        by_hosts = mpirun("traps", "usual")
        refused = mpirun("traps", "usual", env={"EPIC_PATH": "network"})
    by_hosts.assert_right()
    assert by_hosts.report() == {("MPI_Allreduce", f"by EPIC, between the hosts: {words}"): (10, 40)}, by_hosts.output
    refused.assert_right()
    assert len(refused.said()) == 1 and f"rank 0: no resource: {words}" in refused.said()[0], refused.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_host_without_locked_memory_is_waited_for_once(bed, mpirun):
    """Its rank is refused before it asks the manager, and 20 communicators would wait 5 s each for it."""
    unlocked = {"h2": {"LD_PRELOAD": f"{PRELOAD}:{UNLOCKED}"}}
    done = mpirun("ends", "fleeting", env={"EPIC_JOIN_TIMEOUT": "5"}, of_hosts=unlocked, patient=True)
    done.assert_right()
    assert len(done.said()) == 20, done.output
    assert all("rank 2: no resource: cannot register " in line for line in done.said()), done.output
    assert done.seconds < 100
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_devices_of_epic_run_are_those_of_every_host(bed, mpirun):
    """The one that h2 wants is none of them."""
    done = mpirun("traps", "usual", env={"EPIC_JOIN_TIMEOUT": "3"}, of_hosts={"h2": {"EPIC_IFNAME": "vec1"}},
                  through=(launcher.EPIC_RUN, "--devices", "vec0", "--mpi"))
    done.assert_right()
    assert len(done.said()) == 1 and "rank 2: not found: no active RoCE port on vec1" in done.said()[0], done.output
    bed.wait_clean()
