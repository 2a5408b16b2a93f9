#!/usr/bin/python3
"""Breaks one thing at a time under a running group, and says what each rank's call returned, and when.

    tests/e2e/faults.py                                       # softnic and rdma_rxe, each mode, once
    tests/e2e/faults.py --hosts softnic --path hosts          # of a group whose data go between the hosts
    tests/e2e/faults.py --hosts rxe --modes 2 --runs 10 --faults engine,switch

Tells of each run on standard error as soon as it is over, and prints a table in Markdown at the end (docs/FAULTS.md has
one); exit status 1 if a rank ended otherwise than it should, or later than docs/HOST.md promises. Several can run at the
same time: each has a test bed of its own. test_faults.py runs the same as a test.
"""

import argparse
import os
import signal
import statistics
import sys
import time

import harness
import modes

PROMISED_S = 5              # docs/HOST.md, "Errors and deadlines"
WHOLE_S = 10                # the same, of a whole switch
AT_ONCE_S = 1 + 2           # there, and what a loaded machine may take longer
SWITCH = "leaf1"            # of h0 and h1, in tree-3-2
UNDISTURBED_S = 12          # how long nothing may happen to ranks that are not to notice
STOPPED_S = 4
CALLS = ("--counts", "1000,50000", "--timeout-s", "60")
BY_HOSTS = "hosts"          # the way of a group that has no mode
MULTICAST = "multicast"     # the same, and its calls are AllGathers by multicast


class Fault:
    """Something that breaks. `error` is what the ranks' calls return within `promised_s`, and `names` what its message
    names; without `error` the ranks are to notice nothing. `spared` are ranks of which nothing is asked."""

    def __init__(self, what, error=None, names=(), spared=(), promised_s=PROMISED_S):
        self.what, self.error, self.names, self.spared, self.promised_s = what, error, names, spared, promised_s

    def strike(self, bed, ranks):
        """Breaks it; returns since when it is broken, by time.monotonic()."""
        raise NotImplementedError

    def mend(self, bed):
        """Afterwards everything is as it was."""


class Daemons(Fault):
    """Daemons of the switch are killed, and its ports may lose their carriers with them."""

    def __init__(self, what, daemons, ports=(), switch=SWITCH, **more):
        super().__init__(what, **more)
        self.daemons, self.ports, self.switch, self._argv = daemons, ports, switch, {}

    def strike(self, bed, ranks):
        begin = time.monotonic()
        for port in self.ports:
            bed.link(self.switch, port, "down")
        self._argv = {daemon: bed.kill(f"{self.switch}.{daemon}") for daemon in self.daemons}
        return begin

    def mend(self, bed):
        for port in self.ports:
            bed.link(self.switch, port, "up")
        for daemon, argv in self._argv.items():
            bed.revive(f"{self.switch}.{daemon}", argv)


class Link(Fault):
    """A link is cut: one of its ends is taken down."""

    def __init__(self, what, end, **more):
        super().__init__(what, **more)
        self.end = end

    def strike(self, bed, ranks):
        begin = time.monotonic()
        bed.link(*self.end(bed), "down")
        return begin

    def mend(self, bed):
        bed.link(*self.end(bed), "up")


class Signal(Fault):
    """Rank 1 gets a signal, and SIGCONT after some seconds."""

    def __init__(self, what, signum, **more):
        super().__init__(what, **more)
        self.signum = signum

    def strike(self, bed, ranks):
        pid = ranks[1].json_lines()[0]["pid"]
        # To start a program in a host takes longer than all the rest.
        sender = bed.start(bed.hosts[1], "sh", "-c", f"echo now; kill -{int(self.signum)} {pid}")
        sender.wait_for("now")
        begin = sender.time_of_last_line()
        assert sender.wait() == 0, sender.output
        if self.signum == signal.SIGSTOP:
            time.sleep(STOPPED_S)
            bed.run(bed.hosts[1], "kill", f"-{int(signal.SIGCONT)}", pid)
        return begin


class Manager(Fault):
    """The manager is killed; it begins anew without the groups that there were."""

    def __init__(self, what, **more):
        super().__init__(what, **more)
        self._argv = None

    def strike(self, bed, ranks):
        begin = time.monotonic()
        self._argv = bed.kill("manager")
        return begin

    def mend(self, bed):
        if self._argv:
            bed.revive("manager", self._argv)
        self._argv = None
        bed.wait_for_manager()


ALL_PORTS = ("swp1", "swp2", "swp3", "mgmt0")
FAULTS = {
    "engine": Daemons("engine killed", ["engine"], error="switch lost", names=[SWITCH]),
    "switch": Daemons("whole switch killed (engine and agent)", ["engine", "agent"], error="switch lost",
                      names=[SWITCH], promised_s=WHOLE_S),
    "machine": Daemons("the same, its links go down", ["engine", "agent"], ALL_PORTS, error="switch lost",
                       names=[SWITCH], promised_s=WHOLE_S),
    "agent": Daemons("agent killed", ["agent"]),
    "partition": Link("manager's link to an agent cut", lambda bed: (SWITCH, "mgmt0")),
    "uplink": Link("link cut between switches", lambda bed: (SWITCH, "swp3"), error="link lost",
                   names=["root:swp1", f"{SWITCH}:swp3"]),
    "hostlink": Link("host's link cut", lambda bed: bed.end_to_cut("h0"), error="link lost", names=["h0", f"{SWITCH}:swp1"]),
    "rank": Signal("rank killed", signal.SIGKILL, error="rank lost", names=["rank 1"], spared=[1],
                   promised_s=AT_ONCE_S),
    "stopped": Signal(f"rank stopped for {STOPPED_S} s", signal.SIGSTOP),
    "manager": Manager("manager killed", error="manager lost", promised_s=AT_ONCE_S),
}


# Those that nobody is to notice, at different switches, so that they can strike at once.
UNNOTICED = (FAULTS["agent"], Link("manager's link to another agent cut", lambda bed: ("leaf2", "mgmt0")), FAULTS["stopped"])


def asked_for(way):
    """What ranks are told, so that their group goes this way: a mode's number, or between the hosts."""
    if way == MULTICAST:
        return ("--path", "hosts", "--algorithm", "multicast", "--all-gather")
    return ("--path", "hosts") if way == BY_HOSTS else ("--path", "network", "--mode", way)


def in_words(way):
    if way == MULTICAST:
        return "by multicast"
    return "between hosts" if way == BY_HOSTS else modes.numeral(modes.number_of(way))


def run_fault(bed, fault, way):
    """Breaks it under a group of all hosts. Returns [(error or "right", message, seconds)] by rank."""
    return run_at_once(bed, [(fault, way)])[0]


def run_at_once(bed, faults):
    """Each (fault, way) has a group of all hosts; the faults strike one right after the other, one that takes its time the last.
    As run_fault, for each of them."""
    groups = []
    try:
        for fault, way in faults:
            # What must notice nothing has to end by itself, later than it could have noticed.
            iterations, pause_ms = (1_000_000, 20) if fault.error else (40, UNDISTURBED_S * 1000 // 40)
            group = bed.new_group()
            groups.append((group, bed.loops(*asked_for(way), *CALLS, "--each", "--iterations", iterations, "--pause-ms", pause_ms,
                                            group=group, timeout_s=180)))
        for group, ranks in groups:
            for rank in ranks:
                rank.wait_for("joined", 60)
                rank.wait_for('"iteration": 1,')  # a call of each size has been made, and with them all connections
            bed.wait_until_watched(group)  # a switch that dies before is not found
        begins = [fault.strike(bed, ranks) for (fault, _), (_, ranks) in zip(faults, groups)]
        return [how_they_ended(fault, ranks, begin) for (fault, _), (_, ranks), begin in zip(faults, groups, begins)]
    finally:
        bed.end_programs()
        for fault, _ in faults:
            fault.mend(bed)
        for switch in bed.switches:
            bed.wait_for_switch(switch, timeout_s=40)


def how_they_ended(fault, ranks, begin):
    """[(error or "right", message, seconds since begin)] of the ranks of which something is asked."""
    found = []
    for number, (rank, error) in enumerate(zip(ranks, harness.errors(ranks, 120))):
        if number in fault.spared:
            continue
        ended = "right" if error is None and rank.wait() == 0 else (error or {}).get("error", "no error told")
        seconds = max(0.0, rank.time_of_last_line() - begin)
        found.append((ended, (error or {}).get("message", ""), seconds))
    return found


def complaint(fault, found):
    """What is wrong with how the ranks ended; nothing if they did as they should."""
    for ended, message, seconds in found:
        if ended != (fault.error or "right"):
            return f"'{ended}' instead of '{fault.error or 'right'}': {message}"
        if any(name not in message for name in fault.names):
            return f"does not name {' and '.join(fault.names)}: {message}"
        if fault.error and seconds > fault.promised_s:
            return f"'{ended}' only after {seconds:.1f} s instead of {fault.promised_s} s"
    return None


def line(kind, way, fault, found):
    """A run: what each rank returned, after how many seconds."""
    ranks = (ended if not fault.error else f"{ended} {seconds:.1f} s" for ended, _, seconds in found)
    by = {BY_HOSTS: "by the hosts", MULTICAST: "by multicast"}.get(way, f"mode {way}")
    return f"{kind:8} {by}  {fault.what}: {', '.join(ranks)}"


def cell(fault, runs):
    """A cell of the table: what the ranks of all runs returned; the median and the maximum of their times."""
    kinds = sorted({ended for found in runs for ended, _, _ in found})
    if not fault.error:
        return ", ".join(kinds)
    seconds = [s for found in runs for _, _, s in found]
    return f"{', '.join(kinds)}, {statistics.median(seconds):.1f} s, at most {max(seconds):.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="softnic,rxe", help="kinds of hosts")
    parser.add_argument("--modes", default=",".join(map(str, modes.NUMBERS)))
    parser.add_argument("--path", choices=("network", "hosts"), default="network",
                        help="of the groups; between the hosts there are no modes")
    parser.add_argument("--faults", default=",".join(FAULTS), help=f"of {', '.join(FAULTS)}")
    parser.add_argument("--runs", type=int, default=1, help="of each cell")
    options = parser.parse_args()
    ways = [BY_HOSTS] if options.path == "hosts" else options.modes.split(",")
    names = options.faults.split(",")
    table, bad = {}, []
    for hosts in options.hosts.split(","):
        bed = harness.Bed(("tree-3-2", "--hosts", hosts))
        try:
            for name in names:
                for way in ways:
                    runs = []
                    for _ in range(options.runs):
                        runs.append(run_fault(bed, FAULTS[name], way))
                        print(line(hosts, way, FAULTS[name], runs[-1]), file=sys.stderr, flush=True)
                        wrong = complaint(FAULTS[name], runs[-1])
                        if wrong:
                            bad.append(f"{hosts}, {in_words(way)}, {FAULTS[name].what}: {wrong}")
                            print(bad[-1], file=sys.stderr, flush=True)
                    table[name, hosts, way] = cell(FAULTS[name], runs)
        finally:
            bed.down()
    columns = [(hosts, way) for hosts in options.hosts.split(",") for way in ways]
    print("| fault | " + " | ".join(f"{hosts}, {in_words(way)}" for hosts, way in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in names:
        print(f"| {FAULTS[name].what} | " + " | ".join(table[name, *column] for column in columns) + " |")
    print("\n".join(bad) or f"{options.runs} runs of each cell, all as they should be", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("faults.py needs root, for network namespaces")
    sys.exit(main())
