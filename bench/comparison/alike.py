"""What bench/compare says of a mode that differs from another one in its addresses alone: whether its calls take as long."""
import statistics

from report import size_text
from systems import modes

# Beyond what the rounds themselves are apart, the longest that a row may take more.
MORE = 0.05


def pairs(systems):
    """[(system, the one that it is compared with)]: of modes that bear hosts' addresses, and that whose logic they have."""
    names = {mode.number: f"epic{mode.number}" for mode in modes.OWN_MEMORY}
    found = []
    for mode in modes.OWN_MEMORY:
        like = next((m for m in modes.OWN_MEMORY if mode.bears_hosts and not m.bears_hosts
                     and (m.formula, m.per_hop) == (mode.formula, mode.per_hop)), None)
        if like and {names[mode.number], names[like.number]} <= set(systems):
            found.append((names[mode.number], names[like.number]))
    return found


class Rows:
    """Each row's median time of `system`, of that of `like`; `slower` and `faster` are rows that are so by more than the larger of
    the two spreads and MORE."""

    def __init__(self, figures, run, system, like):
        self.ratios, self.slower, self.faster = {}, [], []
        for topology in run["topologies"]:
            for collective in run["collectives"]:
                for size in run["sizes"][collective]:
                    self._add(figures, (topology, collective, size), system, like)

    def _add(self, figures, key, system, like):
        times = [figures.median(*key, name) for name in (system, like)]
        if None in times:
            return
        ratio = self.ratios[key] = times[0] / times[1]
        bound = 1 + max(figures.spread(*key, system), figures.spread(*key, like)) + MORE
        name = f"{key[1]}, {key[0]}" + ("" if key[1] == "barrier" else f", {size_text(key[2])}")
        if ratio > bound:
            self.slower.append(f"{name} ({ratio:.2f})")
        if 1 / ratio > bound:
            self.faster.append(f"{name} ({ratio:.2f})")


def markdown(figures, run):
    """A paragraph for each such mode that was measured; nothing without one."""
    lines = []
    for system, like in pairs(run["systems"]):
        rows = Rows(figures, run, system, like)
        if not rows.ratios:
            continue
        ratios = sorted(rows.ratios.values())
        one, other = (modes.numeral(name.removeprefix("epic")) for name in (system, like))
        lines += [f"### Mode {one} beside mode {other}", "",
                  f"Mode {one} has mode {other}'s logic. Median time of a call in {one}, of that in {other}, over {len(ratios)} rows: "
                  f"median {statistics.median(ratios):.3f}, {ratios[0]:.2f} to {ratios[-1]:.2f}, geometric mean {statistics.geometric_mean(ratios):.3f}. "
                  f"By more than a row's spread and {100 * MORE:.0f} %:", "",
                  f"- slower: {'; '.join(rows.slower) or 'none'}", f"- faster: {'; '.join(rows.faster) or 'none'}", ""]
    return "\n".join(lines)
