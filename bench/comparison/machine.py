"""The machine that bench/compare and bench/train measure on, and what they build there."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Autogroups:
    """Linux's autogroups, by which the scheduler shares processors between sessions: each daemon of a bed has one of its own, as
    has each rank, and ranks that wait by yielding yield to nobody of another one. A process is in one, or not, by the setting when it was started.

    As a context: what was set is set again at its end, whatever ends it but SIGKILL; `set` before that only. A kernel without
    them has none to set."""
    PATH = pathlib.Path("/proc/sys/kernel/sched_autogroup_enabled")

    def __init__(self):
        self._before = None

    def __enter__(self):
        self._before = self.PATH.read_text(encoding="ascii") if self.PATH.exists() else None
        return self

    def __exit__(self, *_):
        if self._before is None:
            return
        # A second Ctrl-C waits until that is done.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        try:
            self.PATH.write_text(self._before, encoding="ascii")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def set(self, enabled):
        if self._before is not None:
            self.PATH.write_text(f"{int(enabled)}\n", encoding="ascii")


@contextlib.contextmanager
def one_scheduling_group():
    """Without autogroups. Systems differ in how many sessions they make; none is to gain or lose by that."""
    with Autogroups() as autogroups:
        autogroups.set(False)
        yield


def end_by_signals():
    """Lets what would end this process at once end it by way of its `finally`s."""
    def end(number, _):
        # Whoever ends a group of processes may send it twice, and the second would come in the midst of a `finally`.
        for other in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def description():
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo", encoding="ascii")
                  if l.startswith("model name")), "unknown processor")
    return f"{os.cpu_count()} processors, {model}"


def build(*targets):
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", *targets], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
