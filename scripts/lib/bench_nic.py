#!/usr/bin/python3
"""bench_nic.py: perftest over softnic beside the same programs over rdma_rxe, in one run.

Two test beds, each two hosts on one Linux bridge: namespaces with softnic, and guests with rdma_rxe. The runs alternate;
the tables have medians. softnic runs as it is, and with super-frames between the two (EPIC_SOFTNIC_SUPER_FRAMES). Small
latencies stand beside sockperf's over UDP, which sleeps as it is made to, from the same namespaces. Then the wake-up by events over softnic. A guest is a
User-Mode Linux on the same two cores: its figures are those of "rxe in a guest".
"""
import argparse
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

import epic_ranks
import page
from epic_testbed import net

PAGE = page.results("nic")
BEDS = {"softnic": "benchsn", "rxe": "benchrxe"}
BESIDE = "benchold"  # with --beside: the bed of another build's softnic
PEERS = "10.10.0.0/24"
# What runs: the bed, and the environment of both ends.
SUPER_FRAMES = ["--env", f"EPIC_SOFTNIC_SUPER_FRAMES={PEERS}"]
KINDS = {"softnic": (BEDS["softnic"], []), "super-frames": (BEDS["softnic"], SUPER_FRAMES), "rxe": (BEDS["rxe"], [])}
OF_ANOTHER_BUILD = {"before": (BESIDE, []), "before, super-frames": (BESIDE, SUPER_FRAMES)}
# Program and size; what is taken is a column of perftest's last line.
RUNS = [("ib_send_bw", 4096), ("ib_send_bw", 65536), ("ib_write_bw", 4096), ("ib_write_bw", 65536), ("ib_read_bw", 65536),
        ("ib_send_lat", 8), ("ib_send_lat", 4096), ("ib_send_lat", 65536)]
COLUMNS = {"bw": (3, "MB/s"), "lat": (4, "µs")}
ITERATIONS = {"bw": {4096: 5000, 65536: 1000}, "lat": {8: 2000, 4096: 1000, 65536: 300}}
UDP_SIZES = (8, 4096)  # sockperf's packets have 14 bytes at least
LEAST_SOCKPERF = 14
UDP_SECONDS = 2


class Failed(Exception):
    """A program did not end well; the message has what it said."""


def family(program):
    return program.rpartition("_")[2]


def measure(kind, program, size, port):
    """The figure of one run; again where perftest could not find the clock rate of a busy CPU, and says 0 or inf."""
    for _ in range(5):
        figure = run_once(kind, program, size, port)
        if math.isfinite(figure) and figure > 0:
            return figure
    raise Failed(f"{program} over {kind}: perftest finds no clock rate; is the machine busy?")


def run_once(kind, program, size, port):
    """One run between h0 and h1: the figure of the client."""
    bed, environment = (KINDS | OF_ANOTHER_BUILD)[kind]
    argv = [program, "-x", "1", "-F", "-s", str(size), "-n", str(ITERATIONS[family(program)][size]), "-p", str(port)]
    command = [str(epic_ranks.TESTBED), "exec", "--name", bed, "--timeout", "60", *environment]
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
        raise Failed(f"{program} over {kind}: client {client.stdout}{client.stderr}\nserver {said}")
    return float(lines[-1][COLUMNS[family(program)][0]])


def udp_latency(size):
    """Half of a round trip of sockperf's between the softnic hosts, through the kernel, in us."""
    bytes_sent = str(max(size, LEAST_SOCKPERF))
    command = [str(epic_ranks.TESTBED), "exec", "--name", BEDS["softnic"], "--timeout", "30"]
    with subprocess.Popen(command + ["h0", "--", "sockperf", "server", "-i", "10.10.0.1", "-p", "18500"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        time.sleep(1)
        client = subprocess.run(
            command + ["h1", "--", "sockperf", "ping-pong", "-i", "10.10.0.1", "-p", "18500", "-m", bytes_sent,
                       "-t", str(UDP_SECONDS)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        server.terminate()
        said = server.communicate()[0]
    latency = re.search(r"Latency is ([\d.]+) usec", client.stdout)
    if client.returncode != 0 or not latency:
        raise Failed(f"sockperf: client {client.stdout}{client.stderr}\nserver {said}")
    return float(latency[1])


def all_figures(repeat, kinds, udp=True):
    """{(program, size): {kind: [figure, ...]}}; "udp" is a kind of the small latencies."""
    figures = {run: {kind: [] for kind in kinds} for run in RUNS}
    for number, (program, size) in enumerate(RUNS):
        for turn in range(repeat):
            for kind, of_kind in figures[program, size].items():
                if kind != "udp":
                    of_kind.append(measure(kind, program, size, 18600 + 10 * number + turn))
            if udp and family(program) == "lat" and size in UDP_SIZES:
                figures[program, size].setdefault("udp", []).append(udp_latency(size))
        print(f"bench: {program}, {size} bytes: done", file=sys.stderr, flush=True)
    return figures


def tables(figures):
    lines = ["| program | size | softnic | softnic, super-frames | rxe in guests | softnic, of rxe | super-frames, of rxe |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    for (program, size), of_run in figures.items():
        unit = COLUMNS[family(program)][1]
        middle = {kind: statistics.median(values) for kind, values in of_run.items()}
        ratios = [middle[kind] / middle["rxe"] if family(program) == "bw" else middle["rxe"] / middle[kind]
                  for kind in ("softnic", "super-frames")]
        lines.append(f"| {program} | {size:,} | " + " | ".join(f"{middle[kind]:.0f} {unit}" for kind in KINDS)
                     + " | " + " | ".join(f"{ratio:.1f}" for ratio in ratios) + " |")
    lines += ["", "| latency | softnic, ib_send_lat | UDP, sockperf | of UDP |", "|---|---:|---:|---:|"]
    for (program, size), of_run in figures.items():
        if "udp" in of_run:
            ours, theirs = (statistics.median(of_run[kind]) for kind in ("softnic", "udp"))
            lines.append(f"| {size:,} B | {ours:.1f} µs | {theirs:.1f} µs | {ours / theirs:.2f} |")
    return "\n".join(lines)


def beside_table(figures):
    """How this build's softnic does beside another build's: above 1 it is better. The spread is that of both, half of
    the way from the worst run to the best, of the median."""
    lines = ["| program | size | before | now | ratio | spread | before, super-frames | now | ratio | spread |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for (program, size), of_run in figures.items():
        row = f"| {program} | {size:,} "
        for old, new in (("before", "softnic"), ("before, super-frames", "super-frames")):
            middle = {kind: statistics.median(of_run[kind]) for kind in (old, new)}
            ratio = middle[new] / middle[old] if family(program) == "bw" else middle[old] / middle[new]
            spread = max((max(of_run[kind]) - min(of_run[kind])) / 2 / middle[kind] for kind in (old, new))
            row += f"| {middle[old]:.1f} | {middle[new]:.1f} {COLUMNS[family(program)][1]} | {ratio:.2f} | {spread:.0%} "
        lines.append(row + "|")
    return "\n".join(lines)


def beside(build, repeat):
    """Brings the other build's bed up, too, and takes it down whatever happens."""
    try:
        epic_ranks.testbed("up", "star-2", "--name", BESIDE, "--bridge", "--hosts", "softnic", "--build", build)
        net.set_offloads(f"epic-{BESIDE}-", net.SUPER_FRAMES)
        kinds = ["before", "softnic", "before, super-frames", "super-frames"]
        print(beside_table(all_figures(repeat, kinds, udp=False)))
    finally:
        epic_ranks.testbed("down", "--name", BESIDE, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the median counts")
    parser.add_argument("--beside", metavar="BUILD", help="instead: beside the softnic of another build, by turns")
    parser.add_argument("--write-page", action="store_true", help="put the tables into bench/results/nic.md, too")
    args = parser.parse_args()
    subprocess.run([epic_ranks.ROOT / "scripts" / "install-deps", "--bench"], check=True)
    try:
        for kind, bed in BEDS.items():
            if kind == "softnic" or not args.beside:
                epic_ranks.testbed("up", "star-2", "--name", bed, "--bridge", "--hosts", kind,
                                   "--build", epic_ranks.BUILD)
        net.set_offloads(f"epic-{BEDS['softnic']}-", net.SUPER_FRAMES)
        if args.beside:
            beside(args.beside, args.repeat)
            return 0
        text = tables(all_figures(args.repeat, KINDS))
        print(text)
        print("\nsoftnic, from a frame to the thread that sleeps for it:", flush=True)
        print(epic_ranks.testbed("exec", "--name", BEDS["softnic"], "h0", "--",
                                 epic_ranks.BUILD / "tests/softnic/softnic_wakeup").stdout.strip())
    except (Failed, RuntimeError, net.NetError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        for bed in BEDS.values():
            epic_ranks.testbed("down", "--name", bed, check=False)
    if args.write_page:
        page.write(PAGE, "nic", f"`/usr/bin/python3 scripts/lib/{pathlib.Path(__file__).name} --repeat {args.repeat}`, medians:\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
