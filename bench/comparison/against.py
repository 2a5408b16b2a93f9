"""bench/compare --against-hosts: where the network's path is slower than the same calls between the hosts, and by how much.

A round trip is a Barrier between the hosts, in the same round of the same bed: with four ranks two messages in a row, each from
host to host through the switches, there and back, by the same processes on the same processors as the calls that are judged. Two
hosts alone (ib_send_lat) would have the processors for themselves, and no call has; the Barrier's wait for its last
acknowledgement is in it, which favours the network by up to half a round trip.
"""
import math
import statistics

import rounds
import systems as measured
from report import MODES, size_text, time_text
from systems import modes

BASE = "hosts"
DEFAULT = f"epic{modes.DEFAULT}"
LACKING, WANT = "hosts-lacking", "for want of an operation"
# What is measured if nobody chooses systems.
SYSTEMS = (*MODES, BASE, LACKING)
_TRIP = ("barrier", 4)  # its size is only a number of calls: rounds.CALLS
EXPLAINED = ("How much longer a call takes by the network than between the hosts: medians of the rounds' differences, in µs and in round "
             "trips; less than nothing where it is faster. A round trip is a Barrier between the hosts in the same round: with four "
             "ranks two messages in a row, there and back, and the wait for the last acknowledgement. In brackets: the quartiles "
             "of the rounds are on both sides of one round trip.")


class Excess:
    """By how much a system's calls are longer than between the hosts, round by round: `us`, and `trips`."""

    def __init__(self, figures, topology, collective, size, system):
        self.system = system
        ours, theirs, trip = (figures.times.get(key, {}) for key in (
            (topology, collective, size, system), (topology, collective, size, BASE), (topology, *_TRIP, BASE)))
        both = sorted(ours.keys() & theirs.keys() & trip.keys())
        self.by_round = [ours[n] - theirs[n] for n in both]
        self.trips_by_round = [(ours[n] - theirs[n]) / trip[n] for n in both]

    def __bool__(self):
        return bool(self.by_round)

    @property
    def us(self):
        return statistics.median(self.by_round)

    @property
    def trips(self):
        return statistics.median(self.trips_by_round)

    def too_slow(self):
        return bool(self) and self.trips > 1

    def unclear(self):
        low, high = rounds.quartiles(self.trips_by_round)
        return low <= 1 < high

    def text(self):
        if not self:
            return "–"
        sign = "-" if self.us < 0 else "+"
        text = f"{sign}{time_text(abs(self.us))}, {self.trips:+.1f}"
        return f"({text})" if self.unclear() else text


def _best(figures, key, systems):
    """The mode whose calls are the shortest; any if there are no figures, None without modes."""
    return min((s for s in systems if s in MODES), key=lambda s: figures.median(*key, s) or math.inf, default=None)


def ways(figures, key, systems):
    """[(name, Excess)] of the network's best mode, of its default one, and of calls that have no other way than the hosts."""
    best = _best(figures, key, systems)
    chosen = [("best mode", best), ("default mode", DEFAULT if DEFAULT in systems else None),
              (WANT, LACKING if LACKING in systems else None)]
    return [(name, Excess(figures, *key, system)) for name, system in chosen if system]


def _names(systems):
    return [name for name, there in (("best mode", set(systems) & set(MODES)), ("default mode", DEFAULT in systems),
                                     (WANT, LACKING in systems)) if there]


def _numeral(system):
    return modes.numeral(system.removeprefix("epic"))


def _title(name):
    return f"{name} ({_numeral(DEFAULT)})" if name == "default mode" else name


def table(figures, topology, collective, sizes, systems):
    names = _names(systems)
    head = ["size", "between hosts", *(_title(name) for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for size in sizes:
        key = (topology, collective, size)
        found = dict(ways(figures, key, systems))
        row = ["" if collective == "barrier" else size_text(size), time_text(figures.median(*key, BASE))]
        for name in names:
            text = found[name].text()
            row.append(f"{_numeral(found[name].system)}: {text}" if name == "best mode" and found[name] else text)
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _listed(run, told):
    """A line for each topology, collective and way, with the sizes at which told(key), {way: text or None}, has a text."""
    lines = []
    for topology in run["topologies"]:
        for collective in run["collectives"]:
            found = {}
            for size in run["sizes"][collective]:
                for way, text in told((topology, collective, size)).items():
                    where = "" if collective == "barrier" else size_text(size)
                    found.setdefault(way, []).extend([f"{where} {text}".strip()] if text is not None else [])
            for way, texts in found.items():
                if texts:
                    name = f"{collective}, {topology}" + (f", {way}" if way else "")
                    lines.append(f"{name}: {', '.join(texts)}".removesuffix(": "))
    return lines


def too_slow(figures, run):
    """What is slower than between the hosts by more than a round trip, and by how many."""
    def told(excess):
        if not excess.too_slow():
            return None
        return f"({excess.trips:.1f}, unclear)" if excess.unclear() else f"{excess.trips:.1f}"
    return _listed(run, lambda key: {_title(way): told(excess) for way, excess in ways(figures, key, run["systems"])})


def not_judged(figures, run):
    """What has no figure, so that it is not taken for as fast."""
    def told(key):
        judged = [bool(excess) for _, excess in ways(figures, key, run["systems"]) if measured.SYSTEMS[excess.system].can(key[1])]
        return {"": None if all(judged) else ""}
    return _listed(run, told)


def markdown(figures, run):
    """`run` as report.markdown has it."""
    lines = ["### Against the hosts", "", EXPLAINED, ""]
    for topology in run["topologies"]:
        trip = time_text(figures.median(topology, *_TRIP, BASE))
        lines += [f"A round trip on {topology}: {trip}.", ""]
        for collective in run["collectives"]:
            lines += [f"### {collective}, {topology}, against the hosts", "",
                      table(figures, topology, collective, run["sizes"][collective], run["systems"]), ""]
    slow, missing = too_slow(figures, run), not_judged(figures, run)
    if slow:
        lines += ["Slower than between the hosts by more than one round trip (by how many):", "", *(f"- {line}" for line in slow)]
    elif not missing:
        lines += ["Nothing is slower than between the hosts by more than one round trip."]
    else:
        lines += ["Nothing of what was judged is slower than between the hosts by more than one round trip."]
    if missing:
        lines += ["", "Not judged, for want of a figure:", "", *(f"- {line}" for line in missing)]
    return "\n".join(lines)
