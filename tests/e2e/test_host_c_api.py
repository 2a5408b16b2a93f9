"""The C interface: what c_rank and c_owner do with it, the README's and the examples' programs, and its header by itself."""

import re
import subprocess

import pytest

import harness
import host_api

pytestmark = pytest.mark.endings

GROUPS = ("refusals", "collectives", "requests", "abort", "timeout")
INCLUDE = harness.ROOT / "commlib" / "include"
LIBRARY = harness.BUILD / "commlib"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")


@pytest.fixture(name="told", scope="module")
def fixture_told(all_beds):
    """What each rank of c_rank printed; one process goes through all groups."""
    bed = all_beds.get(*host_api.BED)
    group = bed.new_group()
    ranks = [bed.start(host, host_api.C_RANK, group, rank, host_api.RANKS) for rank, host in enumerate(bed.hosts)]
    harness.finish(ranks)
    bed.end_programs()
    return [rank.output for rank in ranks]


@pytest.mark.parametrize("group", GROUPS)
def test_the_c_interface(told, group):
    for rank, output in enumerate(told):
        assert re.search(f"^{group}: right, [0-9]+ calls$", output, re.M), f"rank {rank}:\n{output}"


def test_nothing_else_was_wrong(told):
    """What no group has: the names of the errors."""
    assert not [output for output in told if "wrong" in output]


def test_who_owns_what(beds):
    """A join that fails leaves nothing behind, what is refused gives nothing out, requests outlive their communicator."""
    bed = beds.get(*host_api.BED)
    group = bed.new_group()
    ranks = [bed.start(host, host_api.C_OWNER, group, rank, host_api.RANKS) for rank, host in enumerate(bed.hosts)]
    harness.assert_all_right(ranks)
    for rank in ranks:
        told = [line for line in rank.output.splitlines() if line.endswith(": right")]
        assert told == ["failures: right", "refusals: right", "leaving: right"], rank.output
    bed.wait_clean()


@pytest.mark.parametrize("compiler, standard", [("cc", "c99"), ("cc", "c11"), ("c++", "c++20")])
def test_the_c_header_compiles_by_itself(compiler, standard):
    language = "c" if compiler == "cc" else "c++"
    argv = [compiler, f"-std={standard}", *WARNINGS, "-I", INCLUDE, "-fsyntax-only", "-x", language, "-"]
    done = subprocess.run(argv, input="#include <epic/epic_c.h>\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def readme_program():
    """The program of README.md, "From a program", as it is printed there."""
    blocks = re.findall(r"^```cpp\n(.*?)^```", (harness.ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    return next(block for block in blocks if "int main" in block)


def c_example():
    return (harness.ROOT / "examples" / "allreduce_c.c").read_text(encoding="utf-8")


@pytest.mark.parametrize("compiler, source", [
    (("c++", "-std=c++20", "-x", "c++"), readme_program),
    (("cc", "-std=c11", "-x", "c"), c_example)], ids=["readme", "allreduce_c.c"])
def test_a_program_that_is_shown_compiles_and_runs(beds, tmp_path, compiler, source):
    program = tmp_path / "program"
    done = subprocess.run([*compiler, *WARNINGS, "-I", INCLUDE, "-", "-o", program, f"-L{LIBRARY}", "-lcommlib",
                           f"-Wl,-rpath,{LIBRARY}"], input=source(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    bed = beds.get(*host_api.BED)
    group = "default" if source is c_example else bed.new_group()  # as it is called if nobody says otherwise
    said = [] if group == "default" else [f"EPIC_GROUP={group}"]
    ranks = [bed.start(host, "env", *said, f"EPIC_RANK={rank}", f"EPIC_SIZE={host_api.RANKS}", program)
             for rank, host in enumerate(bed.hosts)]
    harness.assert_all_right(ranks)
    assert any(event["about"] == f"group {group}" for event in bed.manager("events", "--last", "0")["events"])
    # Before it there may be warnings: of the tests' own variables.
    assert all(rank.output.splitlines()[-1] == "ok: sum is 4" for rank in ranks), [rank.output for rank in ranks]


LAUNCHERS = (("EPIC_RANK", "EPIC_SIZE"), ("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
             ("SLURM_PROCID", "SLURM_NTASKS"), ("PMI_RANK", "PMI_SIZE"))


def test_launchers_count_in_one_order(tmp_path):
    """The first says that the process is alone, which needs nobody; all behind it say what cannot be."""
    program = tmp_path / "program"
    subprocess.run(["cc", "-std=c11", "-x", "c", "-I", INCLUDE, "-", "-o", program, f"-L{LIBRARY}", "-lcommlib", f"-Wl,-rpath,{LIBRARY}"],
                   input=c_example(), text=True, check=True)
    for first in range(len(LAUNCHERS)):
        said = {}
        for place, (rank, size) in enumerate(LAUNCHERS[first:]):
            said |= {rank: "0", size: "1"} if place == 0 else {rank: "7", size: "3"}
        done = subprocess.run([program], env=said, capture_output=True, text=True, check=False)
        assert done.stdout == "ok: sum is 1\n", (said, done)


def test_an_unknown_variable_is_warned_about(beds):
    """It is a warning: the call that finds it goes on, to what is wrong here."""
    bed = beds.get(*host_api.BED)
    done = bed.start("h0", "env", "EPIC_TIMEOUTS=3", "EPIC_DEBUG=warn", host_api.C_RANK, "g", 3, 2)
    assert done.wait() == 1
    assert "unknown variable EPIC_TIMEOUTS; see docs/HOST.md" in done.output, done.output
    assert "rank 3 is not in a group of 2" in done.output, done.output
    assert "EPIC_DEBUG;" not in done.output and "EPIC_MANAGER;" not in done.output, done.output


def test_how_much_is_logged_and_where(beds, tmp_path):
    """The warning of an unknown variable, by EPIC_DEBUG and EPIC_DEBUG_FILE; hosts on softnic share this machine's files."""
    bed = beds.get(*host_api.BED)

    def said(*variables):
        done = bed.start("h0", "env", "EPIC_TIMEOUTS=3", *variables, host_api.C_RANK, "g", 3, 2)
        assert done.wait() == 1
        return done.output

    warning = "warn: unknown variable EPIC_TIMEOUTS"
    assert warning in said("EPIC_DEBUG=info") and warning in said("EPIC_DEBUG=trace") and warning not in said("EPIC_DEBUG=none")
    unknown = said("EPIC_DEBUG=loud")
    assert "EPIC_DEBUG must be none, warn, info or trace" in unknown and warning in unknown, unknown
    assert warning not in said(f"EPIC_DEBUG_FILE={tmp_path}/%h.%p.log")
    file, = tmp_path.iterdir()
    text = file.read_text(encoding="utf-8")
    named = re.fullmatch(r"(\S+)\.(\d+)\.log", file.name)
    assert named and text.startswith(f"epic {named[1]}:{named[2]} ") and warning in text, (file.name, text)
    nowhere = said(f"EPIC_DEBUG_FILE={tmp_path}/none/log")
    assert f"cannot write EPIC_DEBUG_FILE={tmp_path}/none/log" in nowhere and warning in nowhere, nowhere
