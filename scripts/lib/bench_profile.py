#!/usr/bin/python3
"""bench_profile.py: what a packet costs on a hop of a collective, by kinds of work.

AllReduces over four hosts on softnic and one switch, while perf counts and samples all processors. A packet crosses two
hops, from a host to the switch or from the switch to a host: of B bytes in packets of 4 KB there are 8 B / 4096 such
crossings in a call, acknowledgements not counted; of an AllGather of B bytes, all parts together, 4 B / 4096. Needs
linux-perf, which it installs.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import epic_ranks
import modes
import page
from epic_testbed import net

PAGE = page.results("profile")
RANKS = 4
PACKET = 4096
# Bytes, and calls by which their time is found; then as many are made as last for the whole sample.
CASES = {4 << 10: 2000, 64 << 10: 500, 16 << 20: 10}
EVENTS = {"raw_syscalls:sys_enter": "system calls", "net:net_dev_xmit": "frames",
          "sched:sched_wakeup": "wake-ups", "sched:sched_switch": "switches of threads"}
# Shares of the time, by where a function is ("k" the kernel, "." outside) and its name: the first that fits.
IDLE = "nobody works, ns"
KINDS = ((IDLE, "k", r"safe_halt|default_idle|cpuidle|mwait|^do_idle|acpi_idle|intel_idle"),
         ("copies in the kernel, ns", "k", r"memcpy|_copy_from_iter|copy_user|rep_movs|skb_copy_bits"),
         ("copies outside it, ns", ".", r"memmove|memcpy"),
         ("CRC, ns", ".", r"crc32"),
         ("sums, ns", ".", r"Accumulate|reduce"),
         ("looks, yields, switches, ns", "k.", r"sched_yield|schedule|finish_task_switch|do_syscall_64|Ready|PollCq|PollOn|epoll"),
         ("the kernel's way of a frame, ns", "k", r"skb|veth|netif|net_rx|dev_|packet|xmit|napi|eth_|qdisc|sock|sendmsg|sendto|udp|ip_|bpf"),
         ("the rest of the kernel, ns", "k", r""),
         ("softnic, commlib, the engine, ns", ".", r""))
_WARM_S, _WINDOW_S = 2, 3
_CALLS_S = 2 * (_WARM_S + 2 * _WINDOW_S)


def crossings(collective, size):
    """Packets of a call, each counted on each hop. In an AllGather a part goes up once and down to all others."""
    return (1 if collective == "allgather" else 2) * RANKS * max(1, size // PACKET)


def _perf(*argv):
    return subprocess.run(["perf", *argv], capture_output=True, text=True, check=True)


def counts(text):
    """{event: number} of what `perf stat -x,` prints."""
    rows = [line.split(",") for line in text.splitlines() if "," in line]
    return {row[2]: int(row[0]) for row in rows if row[0].isdigit()}


def shares(text):
    """{kind: share of 1} of lines "12.3% [k] symbol", as `perf report --sort symbol` prints them."""
    found = dict.fromkeys((kind for kind, _, _ in KINDS), 0.0)
    for percent, where, symbol in re.findall(r"^\s*([\d.]+)%\s+\[(.)\]\s+(\S+)", text, re.M):
        where = "." if where == "." else "k"  # modules and the hypervisor's calls are the kernel's
        kind = next(kind for kind, of, pattern in KINDS if where in of and re.search(pattern, symbol))
        found[kind] += float(percent) / 100
    return found


def sample(data):
    """What happens on the machine in the window: counts a second, shares of the processors' time."""
    events = ",".join(EVENTS)
    said = _perf("stat", "-a", "-x", ",", "-e", events, "--", "sleep", str(_WINDOW_S)).stderr
    per_second = {event: n / _WINDOW_S for event, n in counts(said).items()}
    _perf("record", "-a", "-e", "cpu-clock", "-F", "2000", "-o", data, "--", "sleep", str(_WINDOW_S))
    return per_second, shares(_perf("report", "-i", data, "--stdio", "--sort", "symbol").stdout)


def run_calls(bed, way, size, calls):
    """Microseconds of a call; way: options of epic-perf, of which the first is the collective."""
    results = epic_ranks.run_ranks(
        bed, epic_ranks.hosts_of(bed),
        lambda rank: [epic_ranks.BUILD / "bench" / "epic-perf", "--group", f"profile{size}x{calls}", "--rank", rank,
                      "--size", RANKS, "--collective", *way, "-b", size, "-e", size, "-n", calls, "-w", 20, "--json"], 120)
    if any(result.status != 0 for result in results):
        raise RuntimeError("\n".join(result.output for result in results if result.status != 0))
    return json.loads(results[0].output)["results"][0]["out_of_place"]["time_us"]


def measure(bed, way, size, calls, data):
    """{what: per packet and hop}"""
    calls = max(calls, int(_CALLS_S * 1e6 / run_calls(bed, way, size, calls)))
    found = []
    sampling = threading.Thread(target=lambda: (time.sleep(_WARM_S), found.append((*sample(data), time.monotonic()))))
    sampling.start()
    call_us = run_calls(bed, way, size, calls)
    ended = time.monotonic()
    sampling.join()
    if not found:
        raise RuntimeError("perf found nothing")
    per_second, share, sampled = found[0]
    if sampled > ended:
        raise RuntimeError(f"{calls} calls of {size} bytes were over before the sample was taken: is the machine busy?")
    each_us = call_us / crossings(way[0], size)
    row = {"a call, µs": call_us}
    row.update({what: per_second.get(event, 0) * each_us / 1e6 for event, what in EVENTS.items()})
    row.update({kind: part * os.cpu_count() * each_us * 1000 for kind, part in share.items()})
    return row


def table(rows):
    names = list(next(iter(rows.values())))
    lines = ["| of a packet on a hop | " + " | ".join(f"{size >> 10} KB" for size in rows) + " |",
             "|---|" + "---:|" * len(rows)]
    lines += [f"| {name} | " + " | ".join(f"{row[name]:.0f}" if row[name] >= 20 else f"{row[name]:.2g}"
                                          for row in rows.values()) + " |" for name in names]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", type=modes.number_of, default=2, help=modes.CHOICE)
    parser.add_argument("--all-gather", choices=("mode", "multicast"), metavar="mode|multicast",
                        help="AllGathers of 16 MB in place of AllReduces, by this mode (mode) or by multicast")
    parser.add_argument("--build", default=str(epic_ranks.BUILD), metavar="DIR", help="whose binaries; default this tree's")
    parser.add_argument("--write-page", action="store_true", help="put the table into bench/results/profile.md, too")
    args = parser.parse_args()
    if args.write_page and args.all_gather:
        parser.error("--write-page: the page has AllReduces")
    epic_ranks.BUILD = pathlib.Path(args.build).resolve()
    way = ["allgather" if args.all_gather else "allreduce"]
    way += ["--path", "hosts", "--algorithm", "multicast"] if args.all_gather == "multicast" else ["--mode", args.mode]
    cases = {size: calls for size, calls in CASES.items() if size >= 16 << 20} if args.all_gather else CASES
    bed, data = "benchprofile", "/tmp/epic-bench-profile.data"
    try:
        subprocess.run(["sh", "-c", "command -v perf || { apt-get update && apt-get install -y --no-install-recommends linux-perf; }"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        epic_ranks.testbed("up", f"star-{RANKS}", "--name", bed, "--hosts", "softnic", "--build", epic_ranks.BUILD)
        rows = {size: measure(bed, way, size, calls, data) for size, calls in cases.items()}
    except (RuntimeError, net.NetError, subprocess.CalledProcessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        epic_ranks.testbed("down", "--name", bed, check=False)
        pathlib.Path(data).unlink(missing_ok=True)
    print(table(rows))
    if args.write_page:
        page.write(PAGE, "profile", f"`scripts/lib/{pathlib.Path(__file__).name} --mode {args.mode}`:\n\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
