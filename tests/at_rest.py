"""Whether processes rest, by what the scheduler counts of each of their threads: exact, whatever else the machine does."""

import dataclasses
import pathlib
import time

WATCHED_S = 0.1
HARDLY_S = 0.001  # of a processor, of WATCHED_S: no work any more, but a timer now and then


@dataclasses.dataclass(frozen=True)
class Work:
    """What all threads of some processes have done: seconds of a processor, and how many times one got a processor."""

    seconds: float
    turns: int

    def __sub__(self, other):
        return Work(self.seconds - other.seconds, self.turns - other.turns)


def work(*pids):
    """What the processes have done until now."""
    lines = [path.read_text(encoding="ascii").split()
             for pid in pids for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")]
    assert lines, "the kernel counts nothing of them"
    return Work(sum(int(line[0]) for line in lines) / 1e9, sum(int(line[2]) for line in lines))


def wait(*pids, timeout_s=20):
    """Returns their work so far once they have hardly done any for a tenth of a second."""
    deadline, before = time.monotonic() + timeout_s, work(*pids)
    while True:
        time.sleep(WATCHED_S)
        now = work(*pids)
        if (now - before).seconds < HARDLY_S:
            return now
        assert time.monotonic() < deadline, f"not at rest within {timeout_s} s: {now - before} of the last {WATCHED_S} s"
        before = now


def within(seconds, *pids):
    """What they do in that time, after they have come to rest."""
    before = wait(*pids)
    time.sleep(seconds)
    done = work(*pids) - before
    print(f"in {seconds} s at rest: {done}")
    return done
