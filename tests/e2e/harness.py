"""What the end-to-end tests share: a test bed, programs on its hosts, the manager's answers."""

import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "tests" / "wire")]

# pylint: disable=wrong-import-position
import epic_ranks  # noqa: E402
from epic_testbed import bed as beds  # noqa: E402
from epic_testbed import cli, net, nodes, procs  # noqa: E402
from wire_client import Wire  # noqa: E402

BUILD = epic_ranks.BUILD
PERF = BUILD / "bench" / "epic-perf"  # as it is installed
PERF_INSIDE = BUILD / "bench" / "epic-perf-inside"  # the same; a start takes a fifth of that in a guest
MANAGER = BUILD / "incmanager" / "incmanager"
LOOP = BUILD / "tests" / "e2e" / "loop_rank"
CALLS = BUILD / "bench" / "calls_rank"
# The hosts of a bed whose test does not say which it needs: one of them on rdma_rxe, in a guest that computes more
# than a host on softnic. EPIC_TEST_HOSTS says otherwise; with --full all are guests.
HOSTS = "softnic,h1=rxe"
# What a test says that is about the control plane alone, whatever its hosts' NICs are: no guest, unless it is asked for.
ANY_HOSTS = ("--hosts", os.environ.get("EPIC_TEST_HOSTS", "softnic"))
NAME = f"e2e{os.getpid() % 100000}"
# How long to wait for what needs a moment, and for a program's end, before a test takes it for hung: much longer than
# on a machine that is doing five other things. What must be there within a stated time is measured where it is tested.
SOON_S, END_S = 60, 300


class Program:
    """A program that runs on a node of the test bed; its output is collected while it runs."""

    def __init__(self, bed, node, argv, timeout_s):
        """`bed`: the test bed's own, loaded."""
        self.node, self._lines, self._changed = node, [], threading.Condition()
        self._ended, self._last_line_at = False, time.monotonic()
        command, env = nodes.command(bed, node, [str(a) for a in argv], timeout_s)
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, errors="replace")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._last_line_at = time.monotonic()
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def output(self):
        return "".join(self._lines)

    def wait_for(self, text, timeout_s=SOON_S):
        """Waits until a line contains text and returns it; fails if the program ends without it."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                for line in self._lines:
                    if text in line:
                        return line
                left = deadline - time.monotonic()
                assert not self._ended and left > 0, f"{self.node}: no '{text}' in:\n{self.output}"
                self._changed.wait(left)

    def json_lines(self):
        """The objects that loop_rank wrote, in order."""
        return [json.loads(line) for line in self._lines if line.startswith("{")]

    def time_of_last_line(self):
        """When it wrote its last line, by time.monotonic()."""
        return self._last_line_at

    def wait(self, timeout_s=END_S):
        """Exit status; 124 if exec's own time limit ended it."""
        status = self._process.wait(timeout_s)
        self._reader.join(5)
        return status

    def end(self, signum=signal.SIGTERM):
        """Ends the program if it still runs; one that does not heed the signal dies with its client."""
        if self._process.poll() is None:
            self._process.send_signal(signum)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reader.join(5)


def testbed(*args):
    """scripts/testbed with these arguments, within this process: to load it takes as long as half of what it does."""
    said, signals = io.StringIO(), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(signum) for signum in signals]
    try:
        with contextlib.redirect_stderr(said):
            status = cli.main([str(word) for word in args])
    finally:
        for signum, handler in zip(signals, before):
            signal.signal(signum, handler)
    if status == cli.INTERRUPTED:
        raise KeyboardInterrupt
    if status != 0:
        raise RuntimeError(f"testbed {' '.join(map(str, args))} failed:\n{said.getvalue()}")


class Bed:
    """One test bed that is up. `spec` is the arguments of `testbed up`."""

    def __init__(self, spec):
        self.name, self.spec = NAME, spec
        self.wire = None
        self._programs = []
        self._groups = 0
        hosts = () if "--hosts" in spec else ("--hosts", os.environ.get("EPIC_TEST_HOSTS", HOSTS))
        testbed("up", "--name", self.name, "--build", BUILD, *hosts, *spec)
        self._bed = beds.Bed(self.name)
        self._bed.require_up()
        self.hosts = epic_ranks.hosts_of(self.name)
        self.switches = epic_ranks.switches_of(self.name)
        epic_ranks.askers[self.name] = epic_ranks.Asker(self.name)
        if "--wire" in spec:
            self.wire = Wire(f"/run/epic/{self.name}/wire.sock")

    def down(self):
        self.end_programs()
        if self.wire:
            self.wire.close()
        if self.name in epic_ranks.askers:  # not where an attempt before this one has failed
            epic_ranks.askers.pop(self.name).close()
        testbed("down", "--name", self.name)

    # --- programs

    def start(self, node, *argv, timeout_s=END_S):
        program = Program(self._bed, node, argv, timeout_s)
        self._programs.append(program)
        return program

    def run(self, node, *argv, timeout_s=END_S, check=True):
        """Runs a program to its end; returns its output."""
        program = self.start(node, *argv, timeout_s=timeout_s)
        status = program.wait(timeout_s + 20)
        assert not check or status == 0, f"{argv} on {node}: status {status}\n{program.output}"
        return program.output

    def shell(self, folder):
        """A command in place of ssh, which enters a host's namespaces: HOST COMMAND. Nothing of the environment goes along."""
        path = folder / "shell"
        path.write_text(f'#!/bin/sh\nhost=$1; shift\nexec env -i PATH=/usr/bin:/bin '
                        f'ip netns exec epic-{self.name}-$host nsenter --uts=/run/epic/{self.name}/uts/$host sh -c "$*"\n')
        path.chmod(0o700)
        return path

    def release(self, ranks):
        """Lets ranks that were started with --hold leave their group."""
        for rank in ranks:
            self.signal(rank, signal.SIGUSR1)

    def signal(self, rank, signum):
        """Sends it to the process of a program that has told its number, as loop_rank does."""
        pid = json.loads(rank.wait_for('"pid"'))["pid"]
        if self._bed.host(rank.node)["kind"] == "rxe":
            self.run(rank.node, "kill", f"-{int(signum)}", pid)
        else:  # a process of this machine
            try:
                os.kill(pid, signum)
            except ProcessLookupError as error:
                raise AssertionError(f"it has ended:\n{rank.output}") from error

    def loops_until_told(self, *options):
        """As loops, that go on until end_loops; all ranks have joined."""
        ranks = self.loops("--until-signal", "--iterations", 1_000_000, *options)
        for rank in ranks:
            rank.wait_for("joined")
        return ranks

    def end_loops(self, ranks):
        """Ends what loops_until_told has started, which has gone on until now, and was right."""
        self.release(ranks[:1])
        assert_all_right(ranks)

    def end_programs(self):
        for program in self._programs:
            program.end()
        self._programs = []

    def new_group(self):
        """A group name that was not used on this bed."""
        self._groups += 1
        return f"g{self._groups}"

    def network_group(self, *options):
        """A group for all hosts that goes through switches or is refused; to be destroyed when it has ended."""
        group = self.new_group()
        self.manager("group", "create", group, "--size", str(len(self.hosts)), "--path", "network", *options)
        return group

    def loop(self, rank, *options, group, size=None, host=None, timeout_s=END_S):
        """Starts loop_rank as a rank, on the host of that number unless another is named."""
        return self.start(host or self.hosts[rank], LOOP, "--group", group, "--rank", rank,
                          "--size", size or len(self.hosts), *options, timeout_s=timeout_s)

    def loops(self, *options, group=None, hosts=None, timeout_s=END_S):
        """Starts loop_rank on all hosts (or on these), as ranks 0, 1, ... of one group."""
        hosts, group = hosts or self.hosts, group or self.new_group()
        return [self.loop(rank, *options, group=group, size=len(hosts), host=host, timeout_s=timeout_s)
                for rank, host in enumerate(hosts)]

    def perf(self, *options, group=None, timeout_s=END_S):
        """Starts epic-perf on all hosts as one group."""
        group = group or self.new_group()
        return [self.start(host, PERF_INSIDE, "--group", group, "--rank", rank, "--size", len(self.hosts), *options,
                           timeout_s=timeout_s) for rank, host in enumerate(self.hosts)]

    # --- the control plane

    def manager(self, *args, check=True):
        return epic_ranks.manager(self.name, *args, check=check)

    def manager_cli(self, *args):
        """Runs the incmanager CLI; returns the finished process."""
        return epic_ranks.run_manager(self.name, *args, timeout_s=END_S)

    def topology(self):
        with open(f"/run/epic/{self.name}/topology.yaml", encoding="utf-8") as file:
            return yaml.safe_load(file)

    def tables(self, switch):
        return self.manager("tables", switch)

    def counters(self, switch):
        """Counters of a switch, by name."""
        return {c["name"]: int(c.get("value", 0)) for c in self.tables(switch).get("counters", [])}

    def groups(self):
        return (self.manager("group", "list") or {}).get("groups", [])

    def shown_while_held(self, group, *options):
        """Runs a loop rank on each host; what `group show` says of the group while they hold it, as JSON and as text. Destroys it."""
        ranks = self.loops(*options, "--hold", group=group)
        for rank in ranks:
            rank.wait_for("joined")
        shown, text = self.manager("group", "show", group), self.manager_cli("group", "show", group).stdout
        self.release(ranks)
        assert_all_right(ranks)
        self.manager("group", "destroy", group)
        return shown, text

    def wait_for_rank(self, group, rank, timeout_s=SOON_S):
        """Waits until the manager knows that a rank has asked to join a group."""
        deadline = time.monotonic() + timeout_s
        while rank not in (self.manager("group", "show", group, check=False) or {}).get("joined_ranks", []):
            assert time.monotonic() < deadline, f"rank {rank} of {group} does not join"
            time.sleep(0.1)

    def wait_until_watched(self, group, timeout_s=SOON_S):
        """Waits until the manager finds each switch of the group that dies as a whole."""
        deadline = time.monotonic() + timeout_s
        while not self.manager("group", "show", group).get("watched", False):
            assert time.monotonic() < deadline, f"the switches of {group} do not answer their witnesses"
            time.sleep(0.1)

    def assert_clean(self):
        """Nothing of any group is left on manager and switches."""
        assert self.groups() == [], "the manager still has groups"
        for switch in self.switches:
            dump = self.tables(switch)
            assert dump.get("groups", []) == [], f"{switch} still has groups"
            capability = dump["info"]["capability"]
            pool = capability.get("pool", {"bytes": 0, "buffers": 0, "spare_buffers": 0})
            assert capability["arena_free_bytes"] + pool["bytes"] == capability["arena_bytes"], f"{switch}: {capability}"
            assert pool["spare_buffers"] == pool["buffers"], f"{switch}: {capability}"

    def wait_clean(self, timeout_s=SOON_S):
        """As assert_clean, after a group has failed: manager and switches let go of it within some seconds. So does a switch
        whose agent has been started again answer, a moment after the manager has called it up."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.assert_clean()
            except (AssertionError, RuntimeError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.3)

    # --- daemons

    def record(self):
        with open(f"/run/epic/{self.name}/record.json", encoding="utf-8") as file:
            return json.load(file)

    def kill(self, daemon):
        """Kills a daemon ("leaf1.agent"); returns the command line with which revive() starts it again."""
        pid = self.record()["processes"][daemon]["pid"]
        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
        os.kill(pid, signal.SIGKILL)
        return argv

    def revive(self, daemon, argv):
        """Starts a daemon again, when the one that was killed has gone, and notes it in the test bed's record."""
        record = self.record()
        deadline = time.monotonic() + SOON_S
        while daemon in record["processes"] and procs.alive(record["processes"][daemon]):
            assert time.monotonic() < deadline, f"{daemon} has been killed and is still there"
            time.sleep(0.01)
        node = "mgmt" if daemon == "manager" else daemon.partition(".")[0]
        record["processes"][daemon] = procs.spawn(argv, f"/run/epic/{self.name}/logs/{daemon}.log",
                                                  f"epic-{self.name}-{node}")
        with open(f"/run/epic/{self.name}/record.json", "w", encoding="utf-8") as file:
            json.dump(record, file)

    def link(self, node, port, state):
        """Takes a port of a node "up" or "down"; its other end loses or gets the carrier."""
        net.batch([f"link set {port} {state}"], f"epic-{self.name}-{node}")

    def end_to_cut(self, host):
        """An end of the host's data link, (node, port): its own, but of a guest the switch's: the other one is the
        device that its port stands on, and taking that away would be another fault."""
        record = next(h for h in self.record()["hosts"] if h["name"] == host)
        return (record["switch"], record["port"]) if record["kind"] == "rxe" else (host, "vec0")

    def wait_for_switch(self, switch, state="up", timeout_s=SOON_S):
        """Waits until the manager shows the switch in a state; returns the seconds that it took."""
        begin = time.monotonic()
        while True:
            states = {s["name"]: s["state"] for s in self.manager("switches").get("switches", [])}
            if states.get(switch) == state:
                return time.monotonic() - begin
            assert time.monotonic() < begin + timeout_s, f"{switch} is '{states.get(switch)}', not '{state}'"
            time.sleep(0.2)

    def wait_for_manager(self, timeout_s=SOON_S):
        """Waits until a manager that was started again has heard of all switches."""
        deadline = time.monotonic() + timeout_s
        while self.manager_cli("switches").returncode:
            assert time.monotonic() < deadline, "the manager does not answer"
            time.sleep(0.1)
        for switch in self.switches:
            self.wait_for_switch(switch)

    def diagnosis(self):
        """What helps to understand a failure: output of the programs, tables, ends of logs, lost frames."""
        parts = [f"--- {p.node}:\n{p.output[-2000:]}" for p in self._programs]
        for args in (["group", "list"], ["switches"]) + tuple(["tables", s] for s in self.switches[:4]):
            done = self.manager_cli(*args)
            parts.append(f"--- incmanager {' '.join(args)}:\n{(done.stdout + done.stderr)[-4000:]}")
        for path in sorted(pathlib.Path(f"/run/epic/{self.name}/logs").glob("*.log")):
            parts.append(f"--- {path.name}:\n{path.read_text(encoding='utf-8', errors='replace')[-1500:]}")
        if self.wire:
            parts.append("--- lost frames:\n" + "\n".join(map(describe, self.wire.log()[-70:])))
        return "\n".join(parts)


def describe(frame):
    """A frame of the forwarder's log in one line."""
    return (f"invocation {frame['invocation']} frame {frame['number']}: {frame['opcode']} PSN {frame['psn']} "
            f"{frame['direction']}")


def finish(programs, timeout_s=END_S):
    """Waits for all; returns their exit statuses."""
    deadline = time.monotonic() + timeout_s
    return [program.wait(max(1, deadline - time.monotonic())) for program in programs]


def assert_all_right(programs, timeout_s=END_S):
    """Waits for programs that exit with 0 only if every element was right."""
    statuses = finish(programs, timeout_s)
    bad = [f"{p.node}: status {s}\n{p.output[-3000:]}" for p, s in zip(programs, statuses) if s != 0]
    assert not bad, "\n".join(bad)


def errors(programs, timeout_s=END_S):
    """Waits for all; the error object with which each loop_rank ended, or None where it had none."""
    finish(programs, timeout_s)
    return [next((line for line in p.json_lines() if "error" in line), None) for p in programs]
