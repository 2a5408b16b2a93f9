"""The machine that bench/compare and bench/train measure on, and what they build there."""
import contextlib
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def one_scheduling_group():
    """Without autogroups, by which the scheduler shares the processors between sessions: each daemon of a bed has one of
    its own, and ranks that wait by yielding would yield to nobody but each other. Systems differ in how many sessions
    they make; none is to gain or lose by that."""
    path = pathlib.Path("/proc/sys/kernel/sched_autogroup_enabled")
    before = path.read_text(encoding="ascii") if path.exists() else None
    try:
        if before is not None:
            path.write_text("0\n", encoding="ascii")
        yield
    finally:
        if before is not None:
            path.write_text(before, encoding="ascii")


def description():
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo", encoding="ascii")
                  if l.startswith("model name")), "unknown processor")
    return f"{os.cpu_count()} processors, {model}"


def build(*targets):
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", *targets], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
