#!/usr/bin/python3
"""bench_nic.py: perftest over softnic beside the same programs over rdma_rxe, in one run.

Two test beds, each two hosts on one Linux bridge: namespaces with softnic, and guests with rdma_rxe. The runs alternate;
the table has medians. Then the wake-up by events over softnic. A guest is a User-Mode Linux on the same two cores: its
figures are those of "rxe in a guest".
"""
import argparse
import math
import re
import statistics
import subprocess
import sys
import time

import epic_ranks

# Program, size, what is taken of its last line (column, unit), whether more is better.
RUNS = [("ib_send_bw", 4096, 3, "MB/s", True), ("ib_send_bw", 65536, 3, "MB/s", True),
        ("ib_write_bw", 4096, 3, "MB/s", True), ("ib_write_bw", 65536, 3, "MB/s", True),
        ("ib_send_lat", 4096, 4, "us", False), ("ib_send_lat", 65536, 4, "us", False)]
ITERATIONS = {"bw": {4096: 5000, 65536: 1000}, "lat": {4096: 1000, 65536: 300}}


class Failed(Exception):
    """A program did not end well; the message has what it said."""


def measure(bed, program, size, column, port):
    """The figure of one run; again where perftest could not find the clock rate of a busy CPU, and says 0 or inf."""
    for _ in range(5):
        figure = run_once(bed, program, size, column, port)
        if math.isfinite(figure) and figure > 0:
            return figure
    raise Failed(f"{program} over {bed}: perftest finds no clock rate; is the machine busy?")


def run_once(bed, program, size, column, port):
    """One run between h0 and h1: the figure of the client."""
    iterations = ITERATIONS["bw" if program.endswith("bw") else "lat"][size]
    argv = [program, "-x", "1", "-F", "-s", str(size), "-n", str(iterations), "-p", str(port)]
    command = [str(epic_ranks.TESTBED), "exec", "--name", bed, "--timeout", "60"]
    with subprocess.Popen(command + ["h0", "--"] + argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as server:
        for attempt in range(5):  # until the server listens
            time.sleep(1)
            client = subprocess.run(command + ["h1", "--", *argv, "10.10.0.1"], stdin=subprocess.DEVNULL,
                                    capture_output=True, text=True, check=False)
            if client.returncode == 0 or "Couldn't connect" not in client.stdout + client.stderr or attempt == 4:
                break
        said = server.communicate()[0]
    lines = [line.split() for line in client.stdout.splitlines() if re.match(rf"^ *{size} ", line)]
    if client.returncode != 0 or server.returncode != 0 or not lines:
        raise Failed(f"{program} over {bed}: client {client.stdout}{client.stderr}\nserver {said}")
    return float(lines[-1][column])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the median counts")
    args = parser.parse_args()
    beds = {"softnic": "benchsn", "rxe": "benchrxe"}
    try:
        for kind, bed in beds.items():
            epic_ranks.testbed("up", "star-2", "--name", bed, "--bridge", "--hosts", kind,
                               "--build", epic_ranks.BUILD)
        print("| program | size (B) | softnic | rxe in guests | ratio |\n|---|---|---|---|---|", flush=True)
        for number, (program, size, column, unit, more_is_better) in enumerate(RUNS):
            figures = {kind: [] for kind in beds}
            for run in range(args.repeat):
                for kind, bed in beds.items():
                    figures[kind].append(measure(bed, program, size, column, 18600 + 10 * number + run))
            ours, theirs = (statistics.median(figures[kind]) for kind in ("softnic", "rxe"))
            ratio = ours / theirs if more_is_better else theirs / ours
            print(f"| {program} | {size} | {ours:.1f} {unit} | {theirs:.1f} {unit} | {ratio:.1f} x |", flush=True)
        print("\nsoftnic, from a frame to the thread that sleeps for it:", flush=True)
        print(epic_ranks.testbed("exec", "--name", beds["softnic"], "h0", "--",
                                 epic_ranks.BUILD / "tests/softnic/softnic_wakeup").stdout.strip())
    except (Failed, RuntimeError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        for bed in beds.values():
            epic_ranks.testbed("down", "--name", bed, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
