"""Tools beside EPIC: those that stand before MPI's functions (PMPI) see every call, and EPIC makes it; bench/compare has
figures of what has gone over the network alone."""

import os
import subprocess
import sys
import types

import harness
import launcher
import pytest

import epic_ranks

sys.path.insert(0, str(harness.ROOT / "bench" / "comparison"))
import systems  # noqa: E402 pylint: disable=wrong-import-position

SWITCHES = "by EPIC, through the switches"
PRELOAD = harness.BUILD / "mpi" / "lib" / "libepic_mpi.so"
# Three of each on every rank.
SEEN = "tool: 12 Allreduce, 12 Iallreduce, 12 Barrier, 12 Wait\n"
MADE = {("MPI_Allreduce", SWITCHES): (6, 48), ("MPI_Barrier", SWITCHES): (3, 0)}
OWN = ("MPI_Reduce", SWITCHES)


def assert_seen(done):
    """Of the Reduce in the tool's MPI_Finalize either may make it: EPIC has ended where it comes before the tool."""
    done.assert_right()
    report = done.report()
    report.pop(OWN, None)
    assert SEEN in done.output and report == MADE and done.said() == [], done.output


@pytest.mark.one_mpi("tools that are linked")
@pytest.mark.parametrize("program", ["watched_static", "watched_shared"])
def test_a_tool_that_is_linked_with_the_program(bed, mpirun, program):
    assert_seen(mpirun(program))
    bed.wait_clean()


def test_a_tool_that_is_preloaded(bed, mpirun):
    """On all hosts; by Open MPI's mpirun, which hands no such variable to others, with -x."""
    tool = launcher.PROGRAMS / f"lib{mpirun.PROGRAMS_OF}_tool.so"
    assert_seen(mpirun("watched", env={"LD_PRELOAD": str(tool)}, of_hosts={host: {"LD_PRELOAD": str(tool)} for host in bed.hosts}
                       if mpirun.PROGRAMS_OF == "mpi" else None))
    bed.wait_clean()


def test_what_the_mpi_calls_for_files_is_its_own(bed, mpich, tmp_path):
    """As before MPI's other functions that EPIC does not have. MPICH calls PMPI's functions for them."""
    done = mpich("watched", str(tmp_path / "file"))
    done.assert_right()
    assert done.report() == MADE, done.output
    bed.wait_clean()


# MPICH's hwloc gives some of its memory not back, also without EPIC.
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}


@pytest.mark.parametrize("sanitizer", ["address", "thread_static"])
def test_a_program_that_is_built_with_a_sanitizer(bed, mpich, sanitizer):
    """What is preloaded stands before the sanitizer's runtime, which has nothing to tell; or that is in the program."""
    done = mpich(f"watched_{sanitizer}", ranks=2, env=NO_LEAKS)
    done.assert_right(2)
    assert "Sanitizer" not in done.output and done.report() == MADE, done.output
    bed.wait_clean()


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_that_without_epic_run(bed, mpich, sanitizer):
    preload = ["env", f"LD_PRELOAD={PRELOAD}", f"LD_LIBRARY_PATH={harness.BUILD}/softnic/lib", "UCX_TLS=tcp,self,sm",
               "UCX_MODULES=^ib,rdmacm", "UCX_MEM_EVENTS=n", *(f"{name}={value}" for name, value in NO_LEAKS.items())]
    done = mpich(f"watched_{sanitizer}", ranks=2, through=preload)
    done.assert_right(2)
    assert "Sanitizer" not in done.output and done.report() == MADE, done.output
    bed.wait_clean()


def test_a_sanitizer_still_finds_what_is_wrong_with_the_program(bed, mpich):
    done = mpich("watched_address", "beyond", ranks=2, env=NO_LEAKS)
    assert done.status != 0 and "AddressSanitizer: heap-buffer-overflow" in done.output, done.output
    bed.wait_clean()


@pytest.mark.slow
def test_a_program_under_valgrind(bed, mpich):
    done = mpich("watched", ranks=2, under=("valgrind", "--error-exitcode=9"))
    done.assert_right(2)
    assert done.output.count("ERROR SUMMARY: 0 errors") == 2 and done.report() == MADE, done.output
    bed.wait_clean()


@pytest.mark.parametrize("given, becomes", [
    (["-genv", "LD_PRELOAD", "/a.so"], ["-genv", "LD_PRELOAD", f"/a.so:{PRELOAD}"]),
    (["-env", "LD_PRELOAD=/a.so /b.so"], ["-env", f"LD_PRELOAD=/a.so /b.so:{PRELOAD}"]),
    (["-genv", "LD_LIBRARY_PATH", "/lib"], ["-genv", "LD_LIBRARY_PATH", f"{harness.BUILD}/softnic/lib:/lib"]),
    (["--env", "LD_LIBRARY_PATH=/lib"], ["--env", f"LD_LIBRARY_PATH={harness.BUILD}/softnic/lib:/lib"]),
    (["-genv", "LD_PRELOADED", "x y", "", "-env"], ["-genv", "LD_PRELOADED", "x y", "", "-env"])])
def test_variables_that_mpirun_is_to_set_go_together_with_ours(tmp_path, given, becomes):
    """It would set the last of a name alone."""
    mpirun = tmp_path / "mpirun.mpich"
    mpirun.write_text("#!/usr/bin/python3\nimport sys\nprint(sys.argv[1:])\n", encoding="utf-8")
    mpirun.chmod(0o700)
    env = {**os.environ, "EPIC_MANAGER": launcher.MANAGER, "EPIC_BUILD": str(harness.BUILD), "LD_PRELOAD": ""}
    done = subprocess.run([launcher.EPIC_RUN, "--mpi", mpirun, *given, "./program"], env=env, capture_output=True, text=True, check=True)
    arguments = eval(done.stdout)  # pylint: disable=eval-used
    assert arguments[-len(becomes) - 1:] == [*becomes, "./program"] and arguments[:3] == ["-genv", "LD_PRELOAD", str(PRELOAD)]


def test_calls_of_the_library_itself_are_none_of_the_programs():
    """They would come back to it, if they had a name by which it stands before MPICH's functions. Messages wait for EPIC's calls, too."""
    def names(library, kind):
        lines = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.splitlines()
        return {line.split()[-1].split("@")[0] for line in lines if f" {kind} " in line}
    ours = names(PRELOAD, "T")
    assert {"PMPI_Allreduce", "MPI_Allreduce", "PMPI_Reduce_init_c"} <= ours
    assert names(PRELOAD.with_name("libepic_mpi_mpich.so"), "U") & ours == {"PMPI_Recv", "PMPI_Send", "PMPI_Test"}


@pytest.mark.slow  # four ranks of MPICH that look again and again may take minutes beside other work
def test_calls_over_the_network_are_a_figure_and_calls_in_shared_memory_are_none(bed, tmp_path, monkeypatch):
    """Of MPICH, whose ranks share the machine's memory here."""
    size, calls = 256 << 10, 3
    monkeypatch.setattr(systems, "PROGRAMS", tmp_path)
    systems.build_programs(["mpich"])
    compared = types.SimpleNamespace(name=bed.name, hosts=bed.hosts, namespace=lambda host: f"epic-{bed.name}-{host}",
                                     addresses=[epic_ranks.node_of(bed.name, host)["address"] for host in bed.hosts])
    mpich = systems.Mpi("MPICH, our switches", "mpich", "switches")
    link = mpich.measure(compared, "allreduce", {size: calls})[size].link
    # Of four hosts that compute themselves at least 2(P - 1) times the size, together.
    assert min(sum(link.sent), sum(link.received)) >= 6 * size, link
    monkeypatch.setitem(systems.Mpi.UCX, "UCX_TLS", "tcp,self,sm")
    with pytest.raises(systems.Failed, match=r"MPICH, our switches, allreduce, 262144 bytes: not over the hosts' links: host 0 has sent"):
        mpich.measure(compared, "allreduce", {size: calls})
