"""`testbed run`: programs that know their ranks, what is told of what they say, and how they end. Nothing is summed."""

import json
import os
import signal
import subprocess
import time

import pytest

from epic_run import together
from epic_testbed import procs

HOSTS = 3


@pytest.fixture(name="bed")
def fixture_bed(testbed, build):
    """A star whose hosts have a softnic that nobody asks for anything."""
    testbed("up", f"star-{HOSTS}", "--build", str(build))
    return testbed


def run(bed, *arguments, check=True):
    """Its lines, those of a rank in order and the ranks one after the other."""
    return sorted(bed("run", *arguments, check=check).stdout.splitlines(), key=lambda line: line.partition(" ")[0])


def start(bed, *arguments):
    """What goes on, and is asked for its lines one by one."""
    return subprocess.Popen(bed.argv("run", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ready(process):
    """Waits until each rank has said that it is."""
    assert sorted(process.stdout.readline() for _ in range(HOSTS)) == [f"[{rank}] ready\n" for rank in range(HOSTS)]


def test_each_host_has_a_rank_and_what_a_rank_needs(bed):
    lines = run(bed, "sh", "-c", "echo $EPIC_RANK of $EPIC_SIZE, $EPIC_MANAGER, $EPIC_IFNAME, $EPIC_SOFTNIC_DEVICES; "
                "ip -o -4 addr show vec0 | grep -o 'inet [0-9.]*'")
    expected = [(f"[{rank}] {rank} of {HOSTS}, 10.255.0.1:7400, vec0, vec0", f"[{rank}] inet 10.10.0.{rank + 1}")
                for rank in range(HOSTS)]
    assert lines == [line for pair in expected for line in pair]


def test_the_group_is_a_new_one_unless_somebody_says_which(bed, monkeypatch):
    def groups(*options):
        return {line.split()[1] for line in run(bed, *options, "sh", "-c", "echo $EPIC_GROUP")}

    first, second = groups(), groups()
    assert len(first) == len(second) == 1 and first != second
    monkeypatch.setenv("EPIC_GROUP", "theirs")
    assert groups() == {"theirs"} and groups("--group", "mine") == {"mine"} and groups("--env", "EPIC_GROUP=own") == {"own"}


def test_the_first_hosts_only(bed):
    assert run(bed, "--hosts", "2", "sh", "-c", "echo $EPIC_SIZE") == ["[0] 2", "[1] 2"]


def test_hosts_that_are_named_and_several_ranks_on_one(bed):
    assert run(bed, "--hosts", "h2:2,h0", "sh", "-c", "echo $EPIC_RANK of $EPIC_SIZE on $(hostname)") == [
        "[0] 0 of 3 on h2", "[1] 1 of 3 on h2", "[2] 2 of 3 on h0"]


def test_what_stands_behind_the_program_is_its_own(bed):
    words = ("--hosts", "9", "-x", "--h", "--", "--env")
    assert run(bed, "--hosts", "1", "echo", *words) == ["[0] " + " ".join(words)]
    assert run(bed, "--hosts", "1", "--", "echo", *words) == ["[0] " + " ".join(words)]
    assert run(bed, "--hosts", "1", "echo", "--", "a") == ["[0] -- a"]


def test_both_outputs_are_told_apart_and_a_last_line_without_an_end_is_kept(bed):
    done = bed("run", "--hosts", "1", "sh", "-c", "echo out; echo err >&2; printf last")
    assert done.stdout == "[0] out\n[0] last\n" and done.stderr == "[0] err\n"


def test_the_status_is_that_of_the_worst_rank(bed):
    assert bed("run", "sh", "-c", "exit $((7 - EPIC_RANK * 3))", check=False).returncode == 7
    assert bed("run", "sh", "-c", "[ $EPIC_RANK != 1 ] || kill -9 $$", check=False).returncode == 128 + signal.SIGKILL
    assert bed("run", "true").returncode == 0


def test_who_ended_badly_is_said_while_the_others_go_on(bed, tmp_path):
    process = start(bed, "sh", "-c", f"[ $EPIC_RANK != 1 ] || exit 4; until [ -e {tmp_path}/on ]; do sleep 0.05; done")
    assert process.stderr.readline() == "testbed: rank 1 (h1) ended with status 4; the others go on, Ctrl-C ends them\n"
    (tmp_path / "on").touch()
    assert process.wait(timeout=30) == 4


def test_ctrl_c_ends_all_ranks(bed):
    process = start(bed, "sh", "-c", "echo ready; echo $$ >&2; exec sleep 1000")
    ready(process)
    pids = [process.stderr.readline().split()[1] for _ in range(HOSTS)]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 128 + signal.SIGINT
    assert not [pid for pid in pids if procs.start_time(int(pid)) is not None]


def test_ctrl_c_ends_also_what_is_left_in_the_background(bed):
    process = start(bed, "sh", "-c", "(trap '' INT TERM; exec sleep 1000) & echo $! >&2; echo ready; exec sleep 1000")
    ready(process)
    pids = [process.stderr.readline().split()[1] for _ in range(HOSTS)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    for pid in pids:
        while procs.start_time(int(pid)) is not None:  # the signal is sent, the process has yet to be scheduled to die of it
            time.sleep(0.01)


def test_ranks_may_clean_up_and_the_worst_status_counts(bed):
    process = start(bed, "sh", "-c", "trap 'echo cleaned; exit $((EPIC_RANK * 100))' INT; echo ready; while :; do sleep 0.05; done")
    ready(process)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0].count("cleaned") == HOSTS and process.returncode == 200


def test_each_ctrl_c_is_stronger_than_the_one_before(bed):
    process = start(bed, "--hosts", "1", "sh", "-c",
                    "trap 'echo int' INT; trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done")
    for line in ("ready", "int", "term"):
        assert process.stdout.readline() == f"[0] {line}\n"
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 128 + signal.SIGKILL


class Sent:
    """A rank of which only the signals that it is sent matter."""

    def __init__(self):
        self.signals = []
        self.send = self.signals.append


def test_ctrl_c_reaches_also_a_rank_that_begins_just_then():
    running, before, then = set(), Sent(), Sent()
    ending = together.Ending(running)
    try:
        ending.add(before)
        signal.raise_signal(signal.SIGINT)
        ending.add(then)
        assert before.signals == then.signals == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
        assert before.signals == then.signals == [signal.SIGINT, signal.SIGTERM]
    finally:
        ending.over()


def test_a_timeout_ends_the_ranks(bed):
    assert bed("run", "--timeout", "0.3", "sleep", "1000", check=False).returncode == 124


def test_who_reads_no_further_does_not_hold_the_ranks(bed):
    process = start(bed, "--hosts", "1", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i + 1)); done")
    assert process.stdout.readline() == "[0] line 0\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 0 and process.stderr.read() == ""


def test_what_is_left_in_the_background_does_not_hold_the_run(bed):
    assert run(bed, "--hosts", "1", "sh", "-c", "sleep 1000 & echo left it") == ["[0] left it"]


def refused(bed, *arguments):
    """Why a run is refused."""
    done = bed("run", *arguments, check=False)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("testbed: ")
    return done.stderr


def test_refusals_say_what_to_do(bed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    assert "there is no program './nothing': build it" in refused(bed, "./nothing")
    assert "chmod +x ./plain" in refused(bed, "./plain")
    (tmp_path / "plain").chmod(0o755)
    assert "Did you mean ./plain?" in refused(bed, "plain")
    assert bed("run", "./plain").returncode == 0
    for count in ("0", str(HOSTS + 1)):
        assert f"star-{HOSTS} has {HOSTS} hosts. Say 1 to {HOSTS}" in refused(bed, "--hosts", count, "true")
    assert "there is no host 'h9'" in refused(bed, "--hosts", "h0,h9:2", "true")
    assert "is no number of ranks" in refused(bed, "--hosts", "h0:x", "true")
    assert "run needs a program" in refused(bed)


def test_without_a_test_bed_one_is_asked_for(testbed):
    assert "is not up: scripts/testbed up" in refused(testbed, "true")


@pytest.mark.parametrize("options, said", [(("--bridge",), "brought up with --bridge"),
                                           (("--no-daemons",), "brought up with --no-daemons")])
def test_switches_that_sum_nothing_are_refused(testbed, build, options, said):
    testbed("up", "star-2", "--build", str(build), *options)
    assert said in refused(testbed, "true")


def test_hosts_without_rdma_are_refused(testbed, build):
    testbed("up", "star-2", "--build", str(build), "--hosts", "softnic,h1=none")
    assert "h1: no RDMA there" in refused(testbed, "true")
    assert testbed("run", "--hosts", "1", "true").returncode == 0


def test_torchrun_is_started_on_each_host(bed, build):
    """What torch has in its place here tells its arguments; a host that fails ends all."""
    module = build / "pytorch" / "lib"
    for package in ("torch_epic", "torch/distributed"):
        (module / package).mkdir(parents=True)
        (module / package / "__init__.py").touch()
    (module / "torch" / "__init__.py").touch()
    (module / "torch" / "distributed" / "run.py").write_text(
        "import os, socket, sys, time\n"
        "told = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "print(socket.gethostname(), told['--node_rank'], told['--nnodes'], told['--nproc_per_node'], told['--master_addr'],\n"
        "      os.environ['GLOO_SOCKET_IFNAME'], os.environ['EPIC_IFNAME'], os.environ['X'], *sys.argv[-3:], flush=True)\n"
        "if sys.argv[-1] == 'fails': sys.exit(3) if told['--node_rank'] == '1' else time.sleep(1000)\n")
    done = bed("torchrun", "--hosts", "h0:2,h2", "--env", "X=5", "--max_restarts", "0", "train.py", check=False)
    assert done.returncode == 2 and "usage" in done.stderr  # torchrun's own options stand behind --
    done = bed("torchrun", "--hosts", "h0:2,h2", "--env", "X=5", "--", "--max_restarts", "0", "train.py")
    assert sorted(done.stdout.splitlines()) == [f"[{host}] {host} {node} 2 {ranks} 10.255.2.1 vec1 vec0 5 --max_restarts 0 train.py"
                                                for host, node, ranks in (("h0", 0, 2), ("h2", 1, 1))]
    assert bed("torchrun", "--env", "X=5", "train.py", "a", "fails", check=False).returncode == 3


def test_an_mpirun_gets_the_hosts_and_a_shell(bed, build, tmp_path, monkeypatch):
    """What stands in its place tells its arguments. The MPI is that of the program, unless the other is named."""
    (build / "mpi" / "lib").mkdir(parents=True)
    for library in ("mca_coll_epic.so", "libepic_mpi.so"):
        (build / "mpi" / "lib" / library).touch()
    for mpirun in ("mpirun.openmpi", "mpirun.mpich"):
        (tmp_path / mpirun).write_text('#!/bin/sh\necho "$(hostname) ${0##*/} $EPIC_SOFTNIC_DEVICES $*"\nexit 3\n')
        (tmp_path / mpirun).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    for name, library in (("by_openmpi", "libmpi.so.40"), ("by_mpich", "libmpich.so.12"), ("plain", "libc.so")):
        (tmp_path / name).write_text(f"#!/bin/sh\n# {library}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)

    def said(*arguments):
        done = bed("mpirun", *arguments, check=False)
        assert done.returncode == 3, done.stderr
        return done.stdout

    shell = bed.path("rsh")
    for words in (("./by_openmpi",), ("openmpi", "./by_openmpi"), ("./plain",)):
        line = said("--hosts", "h1:2,h0", "--env", "A=b", *words)
        assert line.startswith("h1 mpirun.openmpi vec0 ") and f"--host h1:2,h0:1 --bind-to none --mca plm_rsh_agent {shell} " in line
        assert line.endswith(f"-x A=b {words[-1]}\n")
    assert f"-launcher-exec {shell} -hosts h0:1,h1:1,h2:1 -iface vec1 -n 3 ./by_mpich\n" in said("./by_mpich")
    line = said("mpich", "-n", "2", "./plain", "-n", "7")
    assert line.startswith("h0 mpirun.mpich ") and line.endswith("-iface vec1 -n 2 ./plain -n 7\n")
    done = bed("mpirun", "mpich", "./by_openmpi", check=False)
    assert done.returncode == 1 and "say testbed mpirun openmpi ./by_openmpi" in done.stderr


def test_programs_of_mpi_and_torch_are_for_softnic_hosts(testbed, build):
    testbed("up", "star-2", "--build", str(build), "--hosts", "softnic,h1=none")
    for command in ("mpirun", "torchrun"):
        done = testbed(command, "true", check=False)
        assert done.returncode == 1 and "h1: no RDMA there" in done.stderr
        done = testbed(command, "--hosts", "1", check=False)
        assert done.returncode == 1 and f"{command} needs a program" in done.stderr
    done = testbed("torchrun", "--hosts", "1", "train.py", check=False)
    assert done.returncode == 1 and "scripts/torch-test --install" in done.stderr


def test_daemons_are_started_again(testbed, build):
    testbed("up", "star-2", "--build", str(build), "--hosts", "none")

    def processes():
        return json.loads(testbed("status", "--json").stdout)["processes"]

    before = processes()
    os.kill(before["manager"]["pid"], signal.SIGKILL)
    testbed("restart", "s1.agent", "manager")
    after = processes()
    for name, changed in (("s1.engine", False), ("s1.agent", True), ("manager", True)):
        assert (before[name]["pid"] != after[name]["pid"]) == changed and before[name]["argv"] == after[name]["argv"]
        assert procs.start_time(after[name]["pid"]) == after[name]["start"]
    done = testbed("restart", "leaf1.engine", check=False)
    assert done.returncode == 1 and "Say one of manager, s1.engine, s1.agent" in done.stderr


def test_a_restart_that_is_interrupted_names_who_does_not_run(testbed, build):
    """Its agent does not heed SIGTERM: the restart waits for its end, and is interrupted then."""
    (build / "incagent" / "incagent").write_text(f"#!/bin/sh\ntrap 'touch {build}/told' TERM\nwhile :; do sleep 0.1; done\n")
    testbed("up", "star-2", "--build", str(build), "--hosts", "none")
    agent = json.loads(testbed("status", "--json").stdout)["processes"]["s1.agent"]["pid"]
    with subprocess.Popen(testbed.argv("restart", "s1.agent", "manager"), stderr=subprocess.PIPE, text=True) as process:
        while not (build / "told").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    os.kill(agent, signal.SIGKILL)
    assert process.returncode == 130, said
    assert "interrupted: s1.agent has been told to end, and is not started again. `testbed restart s1.agent` does that" in said, said
    assert "manager" not in said, said


@pytest.mark.parametrize("command, words", [
    ("mpirun", ("openmpi|mpich", "--hosts", "Ctrl-C")), ("torchrun", ("TORCHRUN-OPTION", "--hosts", "Ctrl-C")), ("restart", ("leaf1.engine",))])
def test_the_help_of_the_other_commands(testbed, command, words):
    shown = testbed(command, "--help").stdout
    assert all(word in shown for word in words), shown


def test_the_help_says_what_is_set(testbed):
    shown = testbed("run", "--help").stdout
    assert all(word in shown for word in ("EPIC_RANK", "EPIC_SIZE", "EPIC_GROUP", "EPIC_MANAGER", "--hosts", "Ctrl-C"))
