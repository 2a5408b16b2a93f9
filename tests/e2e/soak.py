#!/usr/bin/python3
"""Healthy groups on a machine that is busy with other things: none may be lost.

    tests/e2e/soak.py                                  # star-4, then tree-3-2, an hour each, twelve busy loops beside
    tests/e2e/soak.py --topologies star-4 --minutes 5 --loops 24 --mpi
    tests/e2e/soak.py --build ../before/build/release  # programs of another tree

On each bed groups of all modes, and between the hosts, follow one another, two at a time, with random sizes; with --mpi programs
of both MPIs that check their results run beside. Other work, as compilers or other beds, is for the caller to start. Each minute
a line tells what was done. Exit status 1 if a call or a program was wrong or failed, or if the manager has called anything lost;
then its events are printed.
"""

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time

import harness
import modes

LOST = ("agent_lost", "engine_restarted", "engine_stopped", "switch_lost", "host_lost", "rank_gone", "group_failed")
WAYS = (*modes.NUMBERS, "hosts")
PROGRAMS = (("openmpi", "mpi_collectives"), ("mpich", "mpich_collectives"), ("openmpi", "mpi_steps"), ("mpich", "mpich_steps"))
PROGRAM_S = 1800  # one that takes longer hangs, however busy the machine
SIZES = (1, 257, 1000, 4000, 20001, 100_000)


def group_of(bed, way, draw):
    """A group of all hosts under way: its ranks."""
    asked = ("--path", "hosts") if way == "hosts" else ("--path", "network", "--mode", way)
    counts = ",".join(str(draw.choice(SIZES)) for _ in range(3))
    return bed.loops(*asked, "--counts", counts, "--iterations", draw.choice((5, 50, 200)), "--timeout-s", 600, group=bed.new_group(),
                     timeout_s=900)


class MpiPrograms(threading.Thread):
    """MPI programs that check their results, of both MPIs, one after the other on the bed until told to stop."""

    def __init__(self, bed, build):
        super().__init__()
        self.env = {**os.environ, "EPIC_MPI_FROM_CALL": "1", "TESTBED_NAME": bed.name}
        self.programs = itertools.cycle([(mpi, os.path.join(build, "tests", "mpi", name)) for mpi, name in PROGRAMS])
        self.stopped = threading.Event()
        self.right, self.wrong = 0, []

    def run(self):
        while not self.stopped.is_set() and not self.wrong:
            mpi, program = next(self.programs)
            argv = [f"{harness.ROOT}/scripts/testbed", "mpirun", mpi, program]
            with subprocess.Popen(argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  start_new_session=True) as process:
                try:
                    output, _ = process.communicate(timeout=PROGRAM_S)
                except subprocess.TimeoutExpired:
                    process.terminate()
                    output, _ = process.communicate()
            if process.returncode == 0:
                self.right += 1
            else:
                self.wrong.append(f"{mpi} {os.path.basename(program)}: exit status {process.returncode}:\n{output[-2000:]}")

    def end(self):
        """Waits for the program that runs; what went wrong."""
        self.stopped.set()
        self.join()
        return self.wrong


def lost(bed):
    """What the manager has called lost since it started, in its own words."""
    return [f"{event['time']} {event['about']}: {event['text']}" for event in bed.manager("events")["events"] if event["type"] in LOST]


def of_mpi(mpi):
    return f" and {mpi.right} MPI programs" if mpi else ""


def soak(topology, options, draw):
    """What went wrong on this bed, in words; nothing if nothing did."""
    bed = harness.Bed((topology, "--hosts", "softnic"))
    mpi = MpiPrograms(bed, options.build) if options.mpi else None
    try:
        if mpi:
            mpi.start()
        begin = said = time.monotonic()
        groups, under_way = 0, []
        while (now := time.monotonic()) < begin + options.minutes * 60:
            under_way.append((way := draw.choice(WAYS), group_of(bed, way, draw)))
            if len(under_way) > 1:
                way, ranks = under_way.pop(0)
                harness.assert_all_right(ranks, 900)
                groups += 1
            if now - said >= 60:
                said = now
                load = os.getloadavg()[0]
                print(f"{topology}: {groups} groups{of_mpi(mpi)} right in {(now - begin) / 60:.0f} min, load {load:.0f}", file=sys.stderr,
                      flush=True)
                if wrong := lost(bed) + (mpi.wrong if mpi else []):
                    return wrong
        for _, ranks in under_way:
            harness.assert_all_right(ranks, 900)
        wrong = mpi.end() if mpi else []
        print(f"{topology}: {groups + len(under_way)} groups{of_mpi(mpi)} right in {options.minutes} min", flush=True)
        return lost(bed) + wrong
    except AssertionError as wrong:
        return [str(wrong), *lost(bed)]
    finally:
        if mpi:
            mpi.end()
        bed.end_programs()
        bed.down()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topologies", default="star-4,tree-3-2")
    parser.add_argument("--minutes", type=float, default=60, help="on each of them")
    parser.add_argument("--loops", type=int, default=12, help="busy loops beside")
    parser.add_argument("--mpi", action="store_true", help="MPI programs beside, too")
    parser.add_argument("--build", default=os.environ.get("EPIC_TEST_BUILD", "build/release"))
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"the same draws again: --seed {seed}", file=sys.stderr)
    draw = random.Random(seed)
    bad = []
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.loops)]
    try:
        for topology in options.topologies.split(","):
            bad += [f"{topology}: {line}" for line in soak(topology, options, draw)]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    print("\n".join(bad) or "no group was lost")
    return 1 if bad else 0


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("soak.py needs root, for network namespaces")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the bed goes as after Ctrl-C
    sys.exit(main())
