"""The figures of bench/compare: what is measured by turns, and whether the machine was quiet meanwhile."""
import statistics
import time

# Sizes in bytes and calls of each in a round: about as long for each, and long enough for the small ones.
CALLS = {8: 200, 1 << 10: 200, 4 << 10: 200, 16 << 10: 100, 64 << 10: 50, 256 << 10: 30, 1 << 20: 15, 4 << 20: 6,
         16 << 20: 3, 64 << 20: 2}
ENOUGH_ROUNDS = 5
QUIET = 0.10           # of the processors may be busy with other things
NOISY = 0.25           # of the median between the quartiles: such a figure is not to be quoted
_SAMPLE_S = 2


def quartiles(values):
    """(lower, upper); of a single value, that."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def spread(values):
    """The distance of the quartiles, of the median; none without values."""
    if not values:
        return 0.0
    low, high = quartiles(values)
    return (high - low) / statistics.median(values)


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
    """Times of calls, by (topology, collective, size, system), and of each by round: one in which a system failed has none.
    `links` has the bytes of a call on each host's link, as volume.Bytes, of what makes calls."""

    def __init__(self):
        self.times, self.links = {}, {}
        self.failures = []
        self.busy = 0.0  # of the processors, with other things, when a round began: the most

    def add(self, topology, collective, system, number, times, links=None):
        for size, us in times.items():
            self.times.setdefault((topology, collective, size, system), {})[number] = us
        for size, link in (links or {}).items():
            self.links.setdefault((topology, collective, size, system), {})[number] = link

    def median(self, *key):
        return statistics.median(self.times[key].values()) if key in self.times else None

    def busiest(self, *key):
        """(out, into) the host that has sent most, and into the one that has received most: bytes of a call, medians of the
        rounds. None without."""
        links = self.links.get(key, {}).values()
        if not links:
            return None
        return tuple(statistics.median(max(getattr(link, side)) for link in links) for side in ("sent", "received"))

    def quartiles(self, *key):
        """(lower, upper); of a single round, that."""
        return quartiles(list(self.times[key].values()))

    def spread(self, *key):
        """The distance of the quartiles, of the median."""
        return spread(list(self.times.get(key, {}).values()))

    def noisy(self, *key):
        return self.spread(*key) > NOISY

    def ratios(self, topology, collective, size, system, base):
        """Of each round that has both, base's time to the system's."""
        ours, theirs = (self.times.get((topology, collective, size, name), {}) for name in (system, base))
        return [theirs[number] / ours[number] for number in sorted(ours.keys() & theirs.keys())]

    def ratio(self, *key):
        """How many times as fast as `base`: the median of the rounds' ratios."""
        found = self.ratios(*key)
        return statistics.median(found) if found else None

    def not_slower_from(self, topology, collective, sizes, system, base):
        """The least of the sizes from which on the system is as fast as `base` at all of them, or None."""
        found = None
        for size in sorted(sizes, reverse=True):
            ratio = self.ratio(topology, collective, size, system, base)
            if ratio is None or ratio < 1:
                break
            found = size
        return found

    def noisy_ratio(self, *key):
        return spread(self.ratios(*key)) > NOISY
