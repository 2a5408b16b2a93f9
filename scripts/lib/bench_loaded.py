#!/usr/bin/python3
"""bench_loaded.py: how long small calls take on a machine that has more to do than processors.

AllReduces of 4 KB over four hosts on softnic and one switch, one after the other, in each mode, by turns with nothing and
with busy loops beside: the median and the 99.9th percentile of rank 0's calls. The table has medians over the rounds.
The scheduler is as it is found, autogroups included.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import sys

import bench_isolation
import epic_ranks
import modes
import page
from epic_testbed import net

PERF = epic_ranks.BUILD / "bench" / "epic-perf"
PAGE = page.results("loaded")
RANKS = 4
_TIMEOUT_S = 300
_numbers = itertools.count(1)


def calls(bed, mode, count):
    """{"p50_us", "p99_9_us"} of so many calls."""
    group = f"loaded{next(_numbers)}"
    results = epic_ranks.run_ranks(
        bed, epic_ranks.hosts_of(bed),
        lambda rank: [PERF, "--group", group, "--rank", rank, "--size", RANKS, "--mode", mode, "-b", "4K", "-e", "4K",
                      "-n", count, "-w", count // 10, "--json"], _TIMEOUT_S)
    if any(result.status != 0 for result in results):
        raise bench_isolation.Failed("\n".join(result.output for result in results if result.status != 0))
    return json.loads(results[0].output)["results"][0]["out_of_place"]



def measure(bed, count, loops, rounds):
    """{(mode, loops): ([p50], [p99.9])}, microseconds, a figure for each round."""
    figures = {(mode, n): ([], []) for mode in modes.NUMBERS for n in (0, loops)}
    for _ in range(rounds):
        for (mode, n), (p50, p99_9) in figures.items():
            with bench_isolation.busy_loops(n):
                one = calls(bed, mode, count)
            p50.append(one["p50_us"])
            p99_9.append(one["p99_9_us"])
    return figures


def table(figures):
    lines = ["| mode | busy loops | p50 | p99.9 |", "|---|---:|---:|---:|"]
    for (mode, loops), times in figures.items():
        p50, p99_9 = (statistics.median(one) for one in times)
        lines.append(f"| {modes.numeral(mode)} | {loops} | {p50:.0f} µs | {p99_9:.0f} µs |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians count")
    parser.add_argument("--calls", type=int, default=5000, help="of each measurement")
    parser.add_argument("--loops", type=int, default=3, help="busy loops beside (default 3)")
    parser.add_argument("--write-page", action="store_true", help="put the table into bench/results/loaded.md, too")
    args = parser.parse_args()
    bed = "benchload"
    try:
        epic_ranks.testbed("up", f"star-{RANKS}", "--name", bed, "--hosts", "softnic", "--build", epic_ranks.BUILD)
        text = table(measure(bed, args.calls, args.loops, args.rounds))
    except (bench_isolation.Failed, RuntimeError, net.NetError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        epic_ranks.testbed("down", "--name", bed, check=False)
    print(text)
    if args.write_page:
        command = f"scripts/lib/{pathlib.Path(__file__).name} --rounds {args.rounds} --calls {args.calls} --loops {args.loops}"
        page.write(PAGE, "loaded", f"`{command}`, calls of rank 0, medians of the rounds:\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
