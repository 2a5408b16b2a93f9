"""The figures of bench/compare: what is measured by turns, and whether the machine was quiet meanwhile."""
import statistics
import time

# Sizes in bytes and calls of each in a round: about as long for each, and long enough for the small ones.
CALLS = {8: 200, 1 << 10: 200, 4 << 10: 200, 16 << 10: 100, 64 << 10: 50, 256 << 10: 30, 1 << 20: 15, 4 << 20: 6,
         16 << 20: 3, 64 << 20: 2}
QUIET = 0.10           # of the processors may be busy with other things
NOISY = 0.25           # of the median between the quartiles: such a figure is not to be quoted
_SAMPLE_S = 2


def busy(read=None, sleep=time.sleep):
    """How much of the processors is in use, of 1, over two seconds."""
    def ticks():
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(f) for f in file.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    read = read or ticks
    total, idle = read()
    sleep(_SAMPLE_S)
    later, idle_later = read()
    return 1 - (idle_later - idle) / max(1, later - total)


def wait_for_quiet(patience_s, say, sample=busy):
    """Waits until the machine does nothing else, at most that long; returns how busy it is then."""
    deadline = time.monotonic() + patience_s
    said = False
    while (now := sample()) > QUIET and time.monotonic() < deadline:
        if not said:
            say(f"waiting for a quiet machine: {100 * now:.0f} % busy with other things (at most {patience_s:.0f} s)")
            said = True
    return now


class Figures:
    """Times of calls, by (topology, collective, size, system), and of each by round: one in which a system failed has none."""

    def __init__(self):
        self.times = {}
        self.failures = []
        self.busy = 0.0  # of the processors, with other things, when a round began: the most

    def add(self, topology, collective, system, number, times):
        for size, us in times.items():
            self.times.setdefault((topology, collective, size, system), {})[number] = us

    def median(self, *key):
        return statistics.median(self.times[key].values()) if key in self.times else None

    def quartiles(self, *key):
        """(lower, upper); of a single round, that."""
        times = list(self.times[key].values())
        if len(times) < 2:
            return times[0], times[0]
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
        return low, high

    def spread(self, *key):
        """The distance of the quartiles, of the median."""
        if key not in self.times:
            return 0.0
        low, high = self.quartiles(*key)
        return (high - low) / self.median(*key)

    def noisy(self, *key):
        return self.spread(*key) > NOISY

    def ratio(self, topology, collective, size, system, base):
        """How many times as fast as `base`: the median, over the rounds that have both, of base's time to the system's."""
        ours, theirs = (self.times.get((topology, collective, size, name), {}) for name in (system, base))
        both = ours.keys() & theirs.keys()
        return statistics.median(theirs[number] / ours[number] for number in both) if both else None
