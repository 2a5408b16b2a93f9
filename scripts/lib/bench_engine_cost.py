#!/usr/bin/python3
"""bench_engine_cost.py: what a packet costs the engine in memory, by children, groups and payload.

engine_bench's "frames": Switch::OnFrame, to the pieces of a frame with its ICRC for each child when the sum is complete, on one
core. Prints a table of medians; --write-page puts it into bench/results/engine-cost.md, and a plot beside it.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import epic_ranks
import page

BENCH = epic_ranks.BUILD / "incengine" / "engine_bench"
PAGE = page.results("engine-cost")
PLOT = PAGE.with_suffix(".svg")
# (heading, the benchmark's name with the number as its group)
SERIES = (
    ("children, 4 KB", r"BM_EngineFrames/payload:4096/degree:(\d+)/"),
    ("bytes of payload, 4 children", r"BM_EngineFrames/payload:(\d+)/degree:4/"),
    ("groups of 4 children by turns, 1 KB", r"BM_EngineGroups/groups:(\d+)/"),
)


def measure(repetitions):
    """{heading: [(number, ns for each packet that comes in)]}"""
    done = subprocess.run([BENCH, "--benchmark_filter=EngineFrames|EngineGroups", "--benchmark_format=json",
                           f"--benchmark_repetitions={repetitions}", "--benchmark_report_aggregates_only=true"],
                          capture_output=True, text=True, check=True)
    found = {heading: {} for heading, _ in SERIES}
    for run in json.loads(done.stdout)["benchmarks"]:
        if run["aggregate_name"] != "median":
            continue
        for heading, name in SERIES:
            if number := re.match(name, run["name"]):
                found[heading][int(number[1])] = 1e9 / run["packets"]
    return {heading: sorted(points.items()) for heading, points in found.items()}


def table(figures):
    lines = []
    for heading, points in figures.items():
        lines += [f"| {heading} | {' | '.join(f'{number:,}' for number, _ in points)} |", "|---|" + "---:|" * len(points),
                  f"| ns of a packet | {' | '.join(f'{ns:.0f}' for _, ns in points)} |", ""]
    return "\n".join(lines)


def plot(figures):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "epic"
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, panels = pyplot.subplots(1, len(figures), figsize=(12, 3.5), layout="constrained")
    for axes, (heading, points) in zip(panels, figures.items()):
        axes.plot(*zip(*points), marker="o")
        axes.set(xscale="log", xlabel=heading, ylabel="ns of a packet", ylim=(0, None), xticks=[n for n, _ in points])
        axes.set_xticklabels([str(n) for n, _ in points])
        axes.minorticks_off()
        axes.grid(True, alpha=0.3)
    figure.savefig(PLOT, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, help="of which the medians count")
    parser.add_argument("--write-page", action="store_true", help="needs matplotlib: scripts/install-deps --bench")
    args = parser.parse_args()
    figures = measure(args.repetitions)
    text = table(figures)
    print(text)
    if args.write_page:
        plot(figures)
        command = f"scripts/lib/{pathlib.Path(__file__).name} --repetitions {args.repetitions}"
        page.write(PAGE, "engine-cost", f"`{command}`:\n\n{text}\n![cost of a packet](engine-cost.svg)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
