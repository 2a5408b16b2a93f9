#!/usr/bin/python3
"""bench_isolation.py: what a group, and ordinary traffic, notice of what goes on beside them on one switch.

Two switches, hosts on softnic: h0 to h3 at s1, h4 and h5 at s2. Between h0 and h1 two ranks make small calls, or iperf3
runs, and meanwhile there is

    nothing
    busy loops             two processes that take all the processor they can get
    big calls at s2        on h4 and h5 a group of 16 MB calls without a pause
    big calls              the same at s1, on h2 and h3
    failures               such a group at s1, which by turns loses a rank (killed) and its NIC (the port is deleted) in
                           mid-call, and is made anew, over and over

Everything shares the machine's processors: what sharing the switch adds is the difference to the big calls at s2. The
rounds go through all of it by turns; the table has medians over the rounds, and of p10, which is what the switch allows
when the scheduler does not interfere, the least.
"""
import argparse
import collections
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

import epic_ranks
from epic_testbed import net

LOOP = epic_ranks.BUILD / "tests" / "e2e" / "loop_rank"
PERF = epic_ranks.BUILD / "bench" / "epic-perf"
TOPOLOGY = epic_ranks.ROOT / "topologies" / "two-stars.yaml"
MTU = 4200
HERE, ELSEWHERE = ("s1", ("h2", "h3")), ("s2", ("h4", "h5"))
SMALL_COUNT = 1024  # elements of 4 bytes
BASE = "big calls at s2"
WAYS = ("rank killed", "port deleted")  # of failing
BESIDE = ("nothing", "busy loops", BASE, "big calls", "failures")
PERCENTILES = ("p10", "p50", "p99")
_DEADLINE_S = 120


class Failed(Exception):
    """What was to be measured did not go right; the message says what was seen."""


def wait_until(condition, what, timeout_s=60):
    """Failed, which names `what`, if it is not so by then."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {timeout_s} s")
        time.sleep(0.05)


def start(bed, host, argv):
    """A process on a host, its output a pipe."""
    command = [str(epic_ranks.TESTBED), "exec", "--name", bed, "--timeout", "600", host, "--"]
    return subprocess.Popen(command + [str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def end(process):
    """Ends what start started, if it still runs: `testbed exec` takes its command with it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


class _Groups:
    """Names of groups that no bed has had."""
    made = 0

    @classmethod
    def new(cls, what):
        cls.made += 1
        return f"{what}{cls.made}"


# --- what is measured


def small_calls(bed, calls):
    """4 KB AllReduces of h0 and h1, one after the other, every element checked: {"p10", "p50", "p99"} in microseconds."""
    group = _Groups.new("small")
    ranks = [start(bed, host, [LOOP, "--group", group, "--rank", rank, "--size", 2, "--counts", SMALL_COUNT,
                                "--iterations", calls]) for rank, host in enumerate(("h0", "h1"))]
    said = [rank.communicate(timeout=_DEADLINE_S)[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        raise Failed("small calls: " + "\n".join(said))
    ends = [json.loads(lines.splitlines()[-1]) for lines in said]
    return {name: max(end[f"{name}_us"] for end in ends) for name in PERCENTILES}


def iperf3(bed, seconds):
    """TCP from h1 to h0: Mbit/s received."""
    server = start(bed, "h0", ["iperf3", "-s", "-1", "--forceflush"])
    try:
        while "listening" not in (line := server.stdout.readline()):
            if not line:
                raise Failed("iperf3 does not listen")
        address = epic_ranks.node_of(bed, "h0")["address"]
        client = start(bed, "h1", ["iperf3", "-J", "-t", seconds, "-c", address])
        said = client.communicate(timeout=_DEADLINE_S)[0]
        if client.returncode != 0:
            raise Failed(f"iperf3: {said}")
        return json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e6
    finally:
        end(server)


# --- what goes on beside it


@contextlib.contextmanager
def busy_loops(count):
    """Processes that do nothing but take the processor."""
    loops = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class BigGroup:
    """Two ranks that make 16 MB AllReduces until they are ended; `fails` breaks the group over and over."""

    def __init__(self, bed, where=HERE, fails=False):
        self.bed, self.fails = bed, fails
        self.switch, self.hosts = where
        self.failures, self.packets = collections.Counter(dict.fromkeys(WAYS, 0)), 0
        self._ranks, self._group, self._stop, self._error = [], None, threading.Event(), None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        before = self._summed()
        if self.fails:
            self._thread.start()
            wait_until(lambda: self._error or self.failures.total() > 0, "a first failure")
        else:
            self._start_group()
        self.check()
        wait_until(lambda: self._summed() > before, "the big group sums")
        self._before = self._summed()
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self.fails:
            self._thread.join()
        self.packets = self._summed() - self._before
        self._end_group()

    def check(self):
        """Raises what went wrong in breaking and making the group, or that it has ended by itself."""
        if self._error:
            raise Failed(f"failing group: {self._error}")
        if not self.fails and any(rank.poll() is not None for rank in self._ranks):
            raise Failed("the big group has ended: " + self._ranks[0].communicate()[0])

    def _summed(self):
        return epic_ranks.aggregated_packets(self.bed, self.switch)

    def _start_group(self):
        self._group = group = _Groups.new("big")
        self._ranks = [start(self.bed, host, [PERF, "--group", group, "--rank", rank, "--size", 2, "-b", "16M", "-e",
                                               "16M", "-n", 1000000, "-c", 0, "--timeout", 20])
                       for rank, host in enumerate(self.hosts)]

    def _end_group(self):
        for rank in self._ranks:
            end(rank)
        self._ranks = []

    def _run(self):
        try:
            while not self._stop.is_set():
                self._start_group()
                # The small calls are summed at the same switch: only then do sums say that this group is in mid-call.
                wait_until(self._is_running, "the group that is to fail is joined by both")
                before = self._summed()
                wait_until(lambda: self._summed() > before + 1000, "the group that is to fail sums")
                way = WAYS[self.failures.total() % len(WAYS)]
                if way == "port deleted":
                    self._delete_port()
                else:
                    wait_until(self._kill_rank_1, "rank 1 is killed")
                wait_until(lambda: all(rank.poll() is not None for rank in self._ranks), f"{way}: the ranks have the error")
                self._end_group()
                if way == "port deleted":
                    self._make_port()
                self.failures[way] += 1
        except Exception as error:  # pylint: disable=broad-except
            self._error = error
        finally:
            self._end_group()

    def _is_running(self):
        shown = epic_ranks.manager(self.bed, "group", "show", self._group, check=False) or {}
        return shown.get("state") == "running"

    def _kill_rank_1(self):
        """Kills whatever runs on h3; true when rank 1 has ended."""
        for pid in net.pids_in(f"epic-{self.bed}-h3"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self._ranks[1].poll() is not None

    def _delete_port(self):
        net.run(["ip", "-n", f"epic-{self.bed}-h3", "link", "del", "vec0"])

    def _make_port(self):
        host = epic_ranks.node_of(self.bed, "h3")
        own, devices = f"epic-{self.bed}-h3", net.Devices()
        devices.veth((f"epic-{self.bed}-{self.switch}", "swp4"), (own, "vec0"), MTU)
        devices.address(own, "vec0", host["address"] + "/16", host["mac"])
        devices.make()
        wait_until(self._ports_are_up, "the switch has its port again")

    def _ports_are_up(self):
        return all(port.get("up") for port in epic_ranks.manager(self.bed, "tables", self.switch)["info"]["ports"])


@contextlib.contextmanager
def beside(bed, what):
    """One of BESIDE goes on; yields None or the group."""
    if what == "busy loops":
        with busy_loops(2):
            yield None
    elif what in (BASE, "big calls", "failures"):
        with BigGroup(bed, ELSEWHERE if what == BASE else HERE, fails=what == "failures") as group:
            yield group
            group.check()
    else:
        yield None


# --- all of it


def measure(bed, calls, seconds, rounds, failures=2, besides=BESIDE):
    """{what goes on beside: {"p10", "p50", "p99", "iperf3", "failures"}}: medians of the rounds, of p10 the least; of
    failures the number by way. A round beside failures lasts for so many in each way."""
    figures = {what: {**{name: [] for name in (*PERCENTILES, "iperf3")}, "failures": collections.Counter()}
               for what in besides}
    for _ in range(rounds):
        for what in besides:
            with beside(bed, what) as group:
                one = figures[what]
                while True:
                    for name, us in small_calls(bed, calls).items():
                        one[name].append(us)
                    if what != "failures" or min(group.failures.values()) >= failures:
                        break
                    group.check()
                if what != "failures":
                    one["iperf3"].append(iperf3(bed, seconds))
            one["failures"] += group.failures if group else collections.Counter()
    for one in figures.values():
        one["p10"] = min(one["p10"])
        for name in ("p50", "p99", "iperf3"):
            one[name] = statistics.median(one[name]) if one[name] else None
    return figures


def table(figures):
    """The figures as lines of a Markdown table, each with its ratio to the big calls' at the other switch."""
    lines = ["| beside it | 4 KB calls, p10 | ratio | p50 | ratio | p99 | ratio | iperf3 | ratio |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    base = figures[BASE]
    for what, one in figures.items():
        name = f"{one['failures'].total()} failures" if what == "failures" else what
        row = [name]
        for percentile in PERCENTILES:
            row += [f"{one[percentile]:.0f} us", f"{one[percentile] / base[percentile]:.2f}"]
        row += [f"{one['iperf3']:.0f} Mbit/s", f"{one['iperf3'] / base['iperf3']:.2f}"] if one["iperf3"] else ["", ""]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians count")
    parser.add_argument("--calls", type=int, default=5000, help="small calls of each measurement")
    parser.add_argument("--seconds", type=int, default=3, help="of each run of iperf3")
    args = parser.parse_args()
    bed = "benchiso"
    try:
        epic_ranks.testbed("up", TOPOLOGY, "--name", bed, "--hosts", "softnic", "--build", epic_ranks.BUILD)
        print(table(measure(bed, args.calls, args.seconds, args.rounds)))
    except (Failed, RuntimeError, net.NetError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        epic_ranks.testbed("down", "--name", bed, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
