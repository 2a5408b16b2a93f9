"""How programs get EPIC and how they do not: without epic-run, and where there is no MPI, another one, or less of us."""

import os
import shutil
import signal
import subprocess
import sys

import harness
import launcher
import pytest
from host_api import assert_within

# pool: whole

SWITCHES = "by EPIC, through the switches"
# In one start, with the calls and bytes of Allreduce of each.
REFUSED = {"refused": (2, 8), "kept": (6, 24)}
ALL_REFUSED = launcher.Start("traps", tuple(REFUSED))
PRELOAD = harness.BUILD / "mpi" / "lib" / "libepic_mpi.so"


# What is wrong with it is nobody's concern without a manager.
WRONG = {"EPIC_PATH": "switches"}


def ways(done):
    return {way for _, way in done.report()}


@pytest.mark.parametrize("parameter", [None, launcher.MANAGER])
def test_the_component_alone_needs_a_manager_and_no_more(openmpi, parameter):
    """As packages have it; softnic is loaded by a parameter, as there are no other devices here."""
    component = ["env", f"OMPI_MCA_mca_base_component_path={harness.BUILD}/mpi/lib:SYS_DEFAULT:USER_DEFAULT",
                 f"OMPI_MCA_coll_epic_softnic={harness.BUILD}/softnic/lib/libibverbs.so.1"]
    if parameter:
        component.append(f"OMPI_MCA_coll_epic_manager={parameter}")
    done = openmpi("traps", "usual", env={"EPIC_MANAGER": None, **({} if parameter else WRONG)}, through=component)
    done.assert_right()
    assert done.said() == [] and ways(done) == ({SWITCHES} if parameter else set()), done.output


def test_a_rank_without_the_component_is_named(bed, openmpi):
    """All use the MPI then: here the host's own wish keeps the component from its ranks."""
    done = openmpi("traps", "usual", of_hosts={"h2": {"OMPI_MCA_coll": "^epic"}})
    done.assert_right()
    assert done.said() == ['EPIC: the MPI\'s own collectives are used: rank 2 has no component "epic"'] and done.report() == {}
    bed.assert_clean()


@pytest.mark.parametrize("manager", [None, launcher.MANAGER])
def test_the_preloaded_library_alone_needs_a_manager_and_no_more(bed, mpich, manager):
    """In mpirun itself, too; softnic is in the library path, as there are no other devices here."""
    preload = ["env", f"LD_PRELOAD={PRELOAD}", f"LD_LIBRARY_PATH={harness.BUILD}/softnic/lib",
               "UCX_TLS=tcp,self,sm", "UCX_MODULES=^ib,rdmacm"]
    done = mpich("traps", "usual", env={"EPIC_MANAGER": manager, **({} if manager else WRONG)}, through=preload)
    done.assert_right()
    assert done.said() == [] and ways(done) == ({SWITCHES} if manager else set()), done.output
    bed.wait_clean()


def test_mpichs_own_messages_by_softnic_beside_the_collectives_of_epic(bed, mpich):
    """By UCX, which sees softnic's devices if it is let."""
    done = mpich("traps", "usual", env={"UCX_TLS": "ib,self"})
    done.assert_right()
    assert done.said() == [] and ways(done) == {SWITCHES}, done.output
    bed.wait_clean()


def test_a_program_that_forgets_to_free_its_communicators(mpirun):
    mpirun.scene(ALL_REFUSED, "kept").assert_right()
    done = mpirun.played(ALL_REFUSED)
    assert done.status == 0, done.output
    assert_within(25, done.seconds)


@pytest.mark.parametrize("argv, says", [(["true"], ""), (["sh", "-c", "echo fine; exit 3"], "fine\n"),
                                        (["/usr/bin/python3", "-c", "print('fine')"], "fine\n")])
def test_a_program_without_mpi_does_not_notice_the_library(argv, says):
    env = {**os.environ, "EPIC_MANAGER": launcher.MANAGER}
    plain = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    env |= {"LD_PRELOAD": str(PRELOAD), "LD_BIND_NOW": "1"}
    preloaded = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (preloaded.returncode, preloaded.stdout, preloaded.stderr) == (plain.returncode, says, "")


def test_a_call_without_an_mpi_is_named():
    """Of a program that has neither MPICH nor Open MPI: the preloaded library has nobody to hand it to."""
    call = [sys.executable, "-c", "import ctypes; ctypes.CDLL(None).MPI_Bcast(None, 0, 0, 0, 0)"]
    done = subprocess.run(call, env={**os.environ, "LD_PRELOAD": str(PRELOAD)}, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGABRT and done.stderr == "EPIC: MPI_Bcast is called, and the program has no MPI\n", done


def test_the_library_stands_on_the_c_library_alone():
    needed = subprocess.run(["readelf", "-d", PRELOAD], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in needed.splitlines() if "(NEEDED)" in line] == ["[libc.so.6]"]


def test_a_program_of_open_mpi_does_not_notice_the_library(bed, openmpi):
    """Nor does its mpirun. Its handles are addresses, MPICH's are numbers of half their size."""
    done = openmpi("traps", "splits", env={"LD_PRELOAD": str(PRELOAD)})
    done.assert_right()
    assert ways(done) == {SWITCHES, "the MPI's own, a communicator of one rank"} and done.said() == [], done.output
    bed.wait_clean()


def test_a_host_with_half_of_the_library_leaves_the_mpi_as_it_is(mpich, tmp_path):
    half = shutil.copy(PRELOAD, tmp_path)
    done = mpich("traps", "usual", of_hosts={"h2": {"LD_PRELOAD": half}})
    done.assert_right()
    assert len(done.said()) == 1 and "libepic_mpi_mpich.so" in done.said()[0] and done.report() == {}, done.output


def test_arguments_that_the_mpi_refuses_are_refused_by_the_mpi(mpirun):
    """Before and after there is a group, which works afterwards as it did; nothing of them is in the report."""
    mpirun.scene(ALL_REFUSED, "refused").assert_right()
    done = mpirun.played(ALL_REFUSED)
    assert done.report() == {("MPI_Allreduce", SWITCHES): tuple(map(sum, zip(*REFUSED.values())))}, done.output


@pytest.mark.parametrize("manager", [launcher.MANAGER, None])
def test_what_the_mpi_does_not_survive_is_not_survived_with_epic_either(bed, mpich, manager):
    """MPICH looks at the count of a Bcast, not at that of an Allreduce."""
    through = (launcher.EPIC_RUN, "--mpi") if manager else ("env",)
    before = launcher.groups_told_of(bed)
    done = mpich("traps", "negative", env={"EPIC_MANAGER": manager}, through=through)
    assert done.status != 0 and "checks" not in done.output and done.seconds < 60, done.output
    assert "all is well so far" in done.output, done.output
    assert len(launcher.groups_told_of(bed) - before) == (1 if manager else 0)
    bed.wait_clean()
