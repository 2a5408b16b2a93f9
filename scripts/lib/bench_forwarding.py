#!/usr/bin/python3
"""bench_forwarding.py: what forwarding through a switch notices of groups that have contexts there and make no calls.

star-4, hosts on softnic. iperf3 (TCP) from h1 to h0, and meanwhile

    no group
    groups by the hosts    four groups of h2 and h3 whose ranks go by the hosts: no context in the switch
    groups in mode II      the same groups through the switch
    groups in mode IV      the same: the switch asks of each frame between hosts whether an endpoint bears its address

With --everywhere the groups have a rank on each host. Their queue pairs' packet sockets are then on the interfaces by which
iperf3 sends, and each of its frames is looked at by these, too.

By turns in one run, in another order each time; the table has medians, and of each round's ratio to no group.
"""
import argparse
import contextlib
import json
import os
import signal
import statistics
import sys

import epic_ranks
from bench_isolation import LOOP, Failed, end, iperf3, start
from epic_testbed import net

GROUPS, CALLS = 4, 3
NONE = "no group"
WAYS = {NONE: None, "groups by the hosts": ("--path", "hosts"), "groups in mode II": ("--path", "network", "--mode", "II"),
        "groups in mode IV": ("--path", "network", "--mode", "IV")}


@contextlib.contextmanager
def idle_groups(bed, hosts, options, prefix):
    """Groups with a rank on each of the hosts, which have made some calls and make no more."""
    ranks = []
    try:
        for number in range(GROUPS if options else 0):
            group = f"{prefix}-{number}"
            epic_ranks.manager(bed, "group", "create", group, "--size", len(hosts), *options)
            ranks += [start(bed, host, [LOOP, "--group", group, "--rank", rank, "--size", len(hosts), "--iterations", CALLS,
                                        "--each", "--hold"]) for rank, host in enumerate(hosts)]
        pids = [_pid_when_idle(rank) for rank in ranks]
        yield
        for pid in pids:  # a rank leaves when all do
            os.kill(pid, signal.SIGUSR1)
        for rank in ranks:
            if rank.wait(timeout=60) != 0:
                raise Failed(rank.stdout.read())
    finally:
        for rank in ranks:
            end(rank)


def _pid_when_idle(rank):
    """Waits until the rank has made all its calls."""
    pid, said = None, []
    for line in rank.stdout:
        said.append(line)
        told = json.loads(line) if line.startswith("{") else {}
        pid = told.get("pid", pid)
        if told.get("iteration") == CALLS - 1:
            return pid
    raise Failed("".join(said))


def measure(bed, hosts, rounds, seconds):
    """{way: [Mbit/s of each round]}."""
    figures = {way: [] for way in WAYS}
    for number in range(rounds):
        order = list(WAYS)
        at = number % len(order)
        for way in order[at:] + order[:at]:
            with idle_groups(bed, hosts, WAYS[way], f"idle{number}-{list(WAYS).index(way)}"):
                figures[way].append(iperf3(bed, seconds))
        print(f"bench: round {number + 1} of {rounds}: "
              + ", ".join(f"{way} {rates[-1]:.0f}" for way, rates in figures.items()), file=sys.stderr, flush=True)
    return figures


def table(figures):
    """The figures as lines of a Markdown table."""
    lines = ["| beside iperf3 | Mbit/s | of no group's |", "|---|---:|---:|"]
    for way, rates in figures.items():
        ratio = statistics.median(rate / none for rate, none in zip(rates, figures[NONE]))
        lines.append(f"| {way} | {statistics.median(rates):.0f} | {ratio:.3f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="of which the medians count (default 8)")
    parser.add_argument("--seconds", type=int, default=4, help="of each run of iperf3 (default 4)")
    parser.add_argument("--everywhere", action="store_true", help="ranks on all four hosts")
    args = parser.parse_args()
    bed = "benchfwd"
    try:
        epic_ranks.testbed("up", "star-4", "--name", bed, "--hosts", "softnic", "--build", epic_ranks.BUILD)
        hosts = epic_ranks.hosts_of(bed)
        print(table(measure(bed, hosts if args.everywhere else hosts[2:], args.rounds, args.seconds)))
    except (Failed, RuntimeError, net.NetError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        epic_ranks.testbed("down", "--name", bed, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
