"""How programs of either MPI end, and what ends under them: the others are told, and nobody waits for ever."""

import re
import subprocess
import time

import epic_ranks
import harness
import launcher
import pytest

# pool: whole

SWITCHES = "by EPIC, through the switches"


def destroy_groups(bed):
    """One that has been left meanwhile, of a communicator that was freed before, is not there any more."""
    for group in bed.groups():
        bed.manager("group", "destroy", group["name"], "--force", check=False)


# What is played in one start: with the calls of Allreduce that go through the switches; and groups that end otherwise, which the
# operator destroys where a scene says that its is under way.
WELL = {"children": 3, "fleeting": 20}
ALL_WELL = launcher.Start("ends", tuple(WELL))
UNDER_WAY = ("under way", destroy_groups)
HANDLERS = ("handler", "handler later", "handler of freed")
ALL_FAIL = launcher.Start("ends", ("parts", "parts later", "differs", *HANDLERS), at_line=UNDER_WAY)
PAIRS = pytest.mark.one_mpi("two ranks a host")
# With two ranks on each host, of which MPICH makes itself what does not wait.
PAIRS_FAIL = {"mpi": launcher.Start("ends", ("parts", "parts later", "differs", "differs later", "handler", "handler later"), per_host=2,
                                    ranks=8, at_line=UNDER_WAY),
              "mpich": launcher.Start("ends", ("parts", "differs", "handler"), per_host=2, ranks=8, at_line=UNDER_WAY)}


def failing(mpirun, scene, per_host=1):
    return mpirun.scene(ALL_FAIL if per_host == 1 else PAIRS_FAIL[mpirun.PROGRAMS_OF], scene)


@pytest.mark.parametrize("start", [ALL_WELL, ALL_FAIL, pytest.param(None, marks=PAIRS)], ids=["well", "failing", "failing-2"])
def test_programs_of_several_scenes_end_well(mpirun, start):
    start = start or PAIRS_FAIL[mpirun.PROGRAMS_OF]
    assert mpirun.played(start).status == 0, mpirun.played(start).output


def test_communicators_come_and_go_with_their_groups(mpirun):
    mpirun.scene(ALL_WELL, "fleeting").assert_right()
    done = mpirun.played(ALL_WELL)
    assert done.report()[("MPI_Allreduce", SWITCHES)][0] == sum(WELL.values()) and done.said() == [], done.output


COUNTED = "the MPI's own, before call EPIC_MPI_FROM_CALL of a communicator"
MADE = "the MPI's own, while a group is made"


def summed(bed):
    """Contributions that the switches have summed so far."""
    return sum(epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches)


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("per_host", [1, 2])
def test_a_group_is_made_beside_the_calls_and_kept_for_the_next_communicators(bed, mpirun, tmp_path, per_host):
    """From call 3 on; the program goes on with the first communicator until the switches have summed its calls. Of each of the
    five others two calls are the MPI's, and eight EPIC's, by the same group."""
    before, first, stop = launcher.groups_told_of(bed), summed(bed), tmp_path / "stop"

    def tell():
        deadline = time.monotonic() + 120
        while summed(bed) <= first and time.monotonic() < deadline:
            time.sleep(0.1)
        stop.touch()

    done = mpirun("ends", "steps", env={"EPIC_MPI_FROM_CALL": "3", "EPIC_MPI_KEEP": "600", "TEST_STOP": str(stop)},
                  per_host=per_host, patient=per_host > 1, at_line=("under way", tell))
    done.assert_right(4 * per_host)
    report = done.report()
    assert report[("MPI_Allreduce", COUNTED)][0] == 6 * 2 and done.said() == [], done.output
    assert report[("MPI_Allreduce", SWITCHES)][0] >= 5 * 8 + 1, done.output
    assert len(launcher.groups_told_of(bed) - before) == 1, done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_communicators_that_are_freed_while_their_groups_are_made(bed, mpirun):
    """Of one call each, which is the MPI's, or by a group that one before it has left behind."""
    done = mpirun("ends", "fleeting", env={"EPIC_MPI_FROM_CALL": "1000", "EPIC_MPI_FROM_BYTES": "1"})
    done.assert_right()
    report = done.report()
    assert all(way in (COUNTED, MADE) or way.startswith("by EPIC, ") for _, way in report) and done.said() == [], done.output
    assert sum(calls for calls, _ in report.values()) == 20 and report[("MPI_Allreduce", MADE)][0] >= 1, done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_join_that_is_refused_beside_the_calls_leaves_them_to_the_mpi(bed, mpirun, tmp_path):
    """For good: the communicators after it, too, as that rank can join none."""
    stop = tmp_path / "stop"
    done = mpirun("ends", "steps", env={"EPIC_MPI_FROM_CALL": "3", "EPIC_JOIN_TIMEOUT": "3", "TEST_STOP": str(stop)},
                  of_hosts={"h2": {"EPIC_IFNAME": "none"}}, patient=True, at_line=("rank 2: not found", stop.touch))
    done.assert_right()
    assert len(done.said()) == 6 and all("rank 2: not found: no active RoCE port on none" in line for line in done.said()), done.output
    assert not any(way.startswith("by EPIC") for _, way in done.report()), done.output
    assert done.report()[("MPI_Allreduce", COUNTED)][0] == 6 * 2, done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_communicator_is_freed_without_waiting_for_the_others(bed, mpirun):
    """Nor is there a report of a program that wants none."""
    done = mpirun("ends", "freed early", env={"EPIC_MPI_REPORT": "0"})
    done.assert_right()
    assert done.report() == {} and done.said() == [], done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_wrong_managers_address_is_waited_for_once(mpirun):
    """10 s, or as long as EPIC_MANAGER_TIMEOUT says, which 20 communicators would make twenty times as long."""
    done = mpirun("ends", "fleeting", env={"EPIC_MANAGER": "10.255.0.1:7499", **mpirun.soon}, patient=True)
    done.assert_right()
    assert len(done.said()) == 20 and all("manager unreachable" in line for line in done.said()), done.output
    assert done.seconds < (45 if mpirun.soon else 100)


@pytest.mark.in_turn(2)
def test_a_rank_that_can_join_nothing_is_waited_for_once(bed, mpirun):
    done = mpirun("ends", "fleeting", env={"EPIC_JOIN_TIMEOUT": "5"}, of_hosts={"h2": {"EPIC_IFNAME": "none"}}, patient=True)
    done.assert_right()
    assert len(done.said()) == 20 and all("rank 2: not found: " in line for line in done.said()), done.output
    assert done.seconds < 60
    bed.wait_clean()


@pytest.mark.in_turn(2)
def test_a_manager_that_answers_nothing(bed, mpirun):
    silent = bed.start("mgmt", "/usr/bin/python3", "-uc",
                       "import socket, time; s = socket.create_server(('10.255.0.1', 7498)); print('here'); time.sleep(600)",
                       timeout_s=700)
    silent.wait_for("here")
    done = mpirun("ends", "fleeting", env={"EPIC_MANAGER": "10.255.0.1:7498", **mpirun.soon}, patient=True)
    silent.end()
    done.assert_right()
    assert all("manager unreachable" in line for line in done.said()), done.output


@pytest.mark.in_turn(2)
def test_a_manager_that_goes_away_is_an_error_on_every_rank(bed, mpirun):
    killed = []
    done = mpirun("ends", "lost", at_line=("under way", lambda: killed.append(bed.kill("manager"))))
    bed.revive("manager", killed[0])
    bed.wait_for_manager()
    done.assert_right()
    bed.wait_clean()


@pytest.mark.parametrize("scene, per_host", [("handler", 1), pytest.param("handler", 2, marks=PAIRS), ("handler later", 1), ("handler of freed", 1)])
def test_an_error_handler_of_the_programs_gets_epics_error(mpirun, scene, per_host):
    """Of the communicator whose group the operator has destroyed, and of no other."""
    failing(mpirun, scene, per_host).assert_right()


@PAIRS
def test_an_error_handler_of_the_programs_gets_epics_error_of_a_call_in_stages(openmpi):
    """With several ranks on a host MPICH makes such calls itself."""
    failing(openmpi, "handler later", per_host=2).assert_right()


@pytest.mark.one_mpi("how it ends")
@pytest.mark.parametrize("scene", ["fatal", "fatal later"])
def test_errors_that_are_fatal_end_the_job_with_epics_message(bed, mpirun, scene):
    done = mpirun("ends", scene, at_line=("under way", lambda: destroy_groups(bed)))
    assert done.status != 0 and "wrong" not in done.output and done.seconds < 60, done.output
    assert "EPIC: aborted: " in done.output, done.output
    bed.wait_clean()


# Loaded before a rank: our libraries of an MPI find no memory for exactly as many bytes as a vector of `layouts` has.
NO_MEMORY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void* __libc_malloc(size_t size);
void* malloc(size_t size) {
  Dl_info caller;
  if (size == 5000 * sizeof(int) && dladdr(__builtin_return_address(0), &caller) != 0 && strstr(caller.dli_fname, "epic") != NULL) return NULL;
  return __libc_malloc(size);
}
"""


@pytest.mark.one_mpi("how it ends")
def test_a_rank_without_memory_for_a_derived_type_ends_the_group(bed, mpirun, tmp_path):
    """The words are those of its own error, or of what the others hear: the MPI ends the job with the first of them."""
    preload = harness.BUILD / "mpi" / "lib" / "libepic_mpi.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "none.so"], input=NO_MEMORY, text=True, check=True)
    done = mpirun("layouts", "vector", of_hosts={"h2": {"LD_PRELOAD": f"{preload}:{tmp_path}/none.so"}})
    words = {"mpi": "no memory to pack a derived type into", "mpich": "no memory for a buffer that is not in a row or in place"}
    assert done.status != 0 and words[mpirun.PROGRAMS_OF] in done.output and done.seconds < 60, done.output
    bed.wait_clean()


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("path", ["network", "hosts"])
def test_a_deadline_of_the_users(bed, mpirun, path):
    """Rank 1 waits in MPI_Recv for who waits in MPI_Barrier. Whom they wait for is told as far as it is known before the
    deadline: where the machine is busy, in a try with a longer one."""
    for seconds in (3, 6, 12, 24):
        done = mpirun("ends", "deadline", env={"EPIC_TIMEOUT": str(seconds), "EPIC_PATH": path}, patient=True)
        done.assert_right()
        bed.wait_clean()
        if re.search(r"told: EPIC: \w+: .*barrier 1: waits for rank 1 \(h1\) since \d+\.\d s; ranks 0, 2, 3 have called; rank 1 is in no "
                     r"call: it computes, or waits for something else", done.output):
            return
    assert not done.output


@pytest.mark.in_turn(2)
def test_a_deadline_of_two_communicators_that_are_crossed(bed, mpirun):
    """Named as far as it is known before the deadline: where the machine is busy, in a try with a longer one."""
    for seconds in (3, 6, 12, 24):
        done = mpirun("ends", "crossed", env={"EPIC_TIMEOUT": str(seconds)}, patient=True)
        done.assert_right()
        bed.wait_clean()
        if re.search(r"told: EPIC: \w+: .*allreduce 1: waits for rank 1 \(h1\) since \d+\.\d s; ranks 0, 2, 3 have called; "
                     r"rank 1 waits in group mpi-\w+ \(allreduce 1 ", done.output):
            return
    assert not done.output


def test_an_allgather_whose_parts_differ_is_an_error_on_every_rank(mpirun):
    failing(mpirun, "parts").assert_right()


def test_a_nonblocking_one_too(mpirun):
    failing(mpirun, "parts later").assert_right()


@PAIRS
@pytest.mark.parametrize("scene", ["parts later", "differs later"])
def test_nonblocking_calls_that_a_rank_beside_the_group_makes_otherwise(openmpi, scene):
    failing(openmpi, scene, per_host=2).assert_right()


@PAIRS
def test_a_call_that_a_rank_beside_the_group_cannot_make_is_an_error_on_every_rank(mpirun):
    failing(mpirun, "parts", per_host=2).assert_right()


@pytest.mark.parametrize("per_host", [1, pytest.param(2, marks=PAIRS)])
def test_calls_that_differ_are_an_error_also_of_a_rank_that_is_not_in_the_group(mpirun, per_host):
    failing(mpirun, "differs", per_host).assert_right()


def test_children_end_nothing_but_themselves(mpirun):
    mpirun.scene(ALL_WELL, "children").assert_right()


@pytest.mark.one_mpi("how it ends")
def test_a_rank_that_exits_without_mpi_finalize_ends_all(bed, mpirun):
    done = mpirun("ends", "one exits")
    assert done.status != 0 and done.seconds < 60, done.output
    bed.wait_clean()


@pytest.mark.one_mpi("how it ends")
def test_a_program_without_mpi_finalize(bed, mpirun):
    """The MPI may not like it; that is all."""
    done = mpirun("ends", "all exit")
    assert all(f"rank {rank}: 1 checks, 0 wrong" in done.output for rank in range(4)) and done.seconds < 60, done.output
    bed.wait_clean()
