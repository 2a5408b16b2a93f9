"""docs/HOST.md, "From a clone to a program on N hosts": what is printed there is typed here, in its order."""

import os
import re
import shutil
import subprocess

import pytest

import harness

RANKS = 4
SECTION = "\n## From a clone to a program on N hosts\n"
PAGE = (harness.ROOT / "docs" / "HOST.md").read_text(encoding="utf-8")
# All of its blocks; one that is added has no name here, and nothing runs before it has.
(INSTALL, PROGRAM, BY_PKG_CONFIG, CMAKE_LISTS, BY_CMAKE, ON_THE_BED, WHO, WITH_RDMA, WITHOUT, BY_SSH) = re.findall(
    r"^```\w+\n(.*?)^```$", PAGE.partition(SECTION)[2].partition("\n## ")[0], re.M | re.S)
PROGRAMS = ("./sum", "build/sum")
# Guests see the build tree, and not /tmp.
FOLDER = harness.BUILD / "tests" / "e2e" / "host_page"
PREFIX = FOLDER / "opt"
HERE = {"~/epic": harness.ROOT, "/opt/epic": PREFIX, "192.0.2.1:7400": "10.255.0.1:7400", "eth1": "vec0"}


def here(script):
    """The page's commands, with this machine's places and addresses."""
    return re.sub("|".join(map(re.escape, HERE)), lambda found: str(HERE[found[0]]), script)


def shell(script, *inside, **variables):
    """Starts bash with the page's commands in the program's folder, and with nothing of ours in the environment."""
    kept = {key: value for key, value in os.environ.items()
            if not key.startswith("EPIC_") and key not in ("PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH")}
    return subprocess.Popen([*inside, "bash", "-euo", "pipefail", "-c", here(script)], cwd=FOLDER, env=kept | variables,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(script, **variables):
    """Its output."""
    process = shell(script, **variables)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, f"{script}\n{output}"
    return output


@pytest.fixture(name="built", scope="module", autouse=True)
def fixture_built():
    """The library is installed, and the program built in both ways."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run(INSTALL)
    (FOLDER / "sum.cc").write_text(PROGRAM, encoding="utf-8")
    run(BY_PKG_CONFIG)
    (FOLDER / "CMakeLists.txt").write_text(CMAKE_LISTS, encoding="utf-8")
    run(BY_CMAKE)
    yield
    shutil.rmtree(FOLDER)


def said(rank):
    return f"rank {rank} of {RANKS}: the sum is {RANKS}"


def test_the_programs_run_on_the_test_bed():
    name = f"page{os.getpid() % 100000}"
    try:
        output = run(ON_THE_BED, TESTBED_NAME=name)
    finally:
        harness.epic_ranks.testbed("down", "--name", name)
    printed = [f"[{rank}] {said(rank)}" for rank in range(RANKS)]
    assert "\n\n" + "".join(f"    {line}\n" for line in printed) in PAGE
    assert sorted(re.findall(r"^\[\d\] .*", output, re.M)) == sorted(printed * len(PROGRAMS)), output


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_run_on_hosts_of_ones_own(beds, program):
    """Two hosts have rdma_rxe, two are a machine with a port and nothing else."""
    bed = beds.get(f"star-{RANKS}", "--hosts", "softnic,h0=rxe,h1=rxe")
    kinds = harness.epic_ranks.kinds_of(bed.name)
    group = bed.new_group()
    guests, others = [], []
    for rank, host in enumerate(bed.hosts):
        script = WHO.replace("EPIC_GROUP=first", f"EPIC_GROUP={group}").replace("EPIC_RANK=0", f"EPIC_RANK={rank}")
        script += (WITH_RDMA if kinds[host] == "rxe" else WITHOUT).replace("./sum", program)
        if kinds[host] == "rxe":
            guests.append(bed.start(host, "bash", "-euo", "pipefail", "-c", f"cd {FOLDER}\n{here(script)}"))
        else:
            others.append(shell(script, *harness.beds.Bed(bed.name).enter(host)))
    outputs = [process.communicate(timeout=180)[0] for process in others]
    harness.finish(guests)
    outputs = [guest.output for guest in guests] + outputs
    # Before it there may be warnings: exec passes variables of the tests on to guests.
    assert [output.splitlines()[-1:] for output in outputs] == [[said(rank)] for rank in range(RANKS)], outputs


def test_all_ranks_are_started_by_ssh(beds, tmp_path):
    """By what is installed. A command that enters a host's namespace stands in for ssh."""
    bed = beds.get(f"star-{RANKS}", "--hosts", "softnic")
    output = run(BY_SSH.replace("a,b,c,d", ",".join(bed.hosts)), EPIC_SSH=str(bed.shell(tmp_path)))
    assert sorted(output.splitlines()) == [f"[{rank}] {said(rank)}" for rank in range(RANKS)]
    bed.wait_clean()
