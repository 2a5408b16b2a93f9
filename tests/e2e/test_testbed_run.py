"""`testbed run` with ranks that join: on softnic and in a guest at the same time, Ctrl-C for both, and daemons that are started again."""

import re
import signal
import subprocess

import pytest

import harness

HOSTS = 3
BED = (f"star-{HOSTS}", "--hosts", "softnic,h0=rxe")
ENDLESS = (f"exec {harness.LOOP} --group $EPIC_GROUP --rank $EPIC_RANK --size $EPIC_SIZE --counts 1000 --iterations 1000000 --pause-ms 5")


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*BED)


def run(bed, *arguments):
    """The finished process."""
    return harness.epic_ranks.testbed("run", "--name", bed.name, "--timeout", "60", *arguments, check=False)


def test_ranks_find_their_group_by_what_is_set(bed):
    """epic-perf is told nothing: its rank, the group's size and name and the manager come from the environment."""
    done = run(bed, harness.PERF, "-b", "4K", "-e", "64K", "-f", "4", "-n", "2", "-w", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\[0\] # Out of bounds values : 0 OK", done.stdout, re.M), done.stdout
    bed.assert_clean()


def test_two_runs_after_each_other_and_a_smaller_one(bed):
    for count in (HOSTS, HOSTS, 2):
        done = run(bed, "--hosts", count, harness.PERF, "-b", "4", "-e", "4", "-n", "1", "-w", "0")
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_that_guests_cannot_see_is_refused(bed, tmp_path):
    hidden = tmp_path / "program"
    hidden.write_text("#!/bin/sh\n")
    hidden.chmod(0o755)
    done = run(bed, hidden)
    assert done.returncode == 1 and "guests have a /tmp and a /run of their own" in done.stderr, done.stderr


def test_ctrl_c_ends_ranks_on_softnic_and_in_guests(bed):
    argv = [harness.epic_ranks.TESTBED, "run", "--name", bed.name, "bash", "-c", ENDLESS]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, joined = "", 0
    while joined < HOSTS:
        line = process.stdout.readline()
        assert line, said
        said, joined = said + line, joined + ("joined" in line)
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode >= 128 + signal.SIGINT, said + rest
    bed.wait_clean()


def test_an_engine_that_is_started_again_sums_again(bed):
    for words in (("restart", "s1.engine"), ("restart", "manager", "s1.agent")):
        done = harness.epic_ranks.testbed(words[0], "--name", bed.name, *words[1:])
        assert "1 switch registered" in done.stderr
    bed.wait_for_switch("s1")
    done = run(bed, "--env", "EPIC_PATH=network", harness.PERF, "-b", "4", "-e", "4", "-n", "1", "-w", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert bed.counters("s1")["aggregated_packets"] > 0
    bed.wait_clean()
