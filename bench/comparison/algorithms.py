"""What bench/algorithms decides by, and what it writes: by which algorithm hosts are faster, beside commlib's table."""
import dataclasses
import pathlib
import re

import rounds
from report import size_text, time_text

TABLE = pathlib.Path(__file__).resolve().parents[2] / "commlib" / "core" / "host_algorithm.cc"
DOUBLING, RING, MULTICAST = "hosts-doubling", "hosts-ring", "multicast"
# Bytes of data that one message of doubling holds at most (docs/PROTOCOL.md, section 11.5): above it a call is several.
MOST = 32704
FEW = 8  # ranks, up to which the table's first column counts
# Bytes of all parts together, and calls of each in a round: as many as there are from one trial of how to wait to the next
# (commlib/core/wait_trials.h), so that no size is waited for only as another one was.
SIZES = dict.fromkeys((1 << 10, 2 << 10, 4 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, MOST), 256)
COLLECTIVES = ("allreduce", "reduce", "broadcast", "reducescatter", "allgather")
# The same of what may go by multicast.
COPIES = ("broadcast", "allgather")
COPY_SIZES = {size: calls for size, calls in rounds.CALLS.items() if 4 << 10 <= size <= 16 << 20}
_ROW = re.compile(r"(?<!\w)Row\{Collective::k(\w+), (\d+), (\d+)\}")
_COPY_ROW = re.compile(r"MulticastRow\{Collective::k(\w+), (\d+), (\d+)\}")
_LEAST_RANKS = re.compile(r"kLeastMulticastRanks = (\d+);")


def read_table(text):
    """{collective: (most bytes inlined of up to FEW ranks, of more)}."""
    rows = {name.lower(): (int(few), int(many)) for name, few, many in _ROW.findall(text)}
    if set(rows) != set(COLLECTIVES):
        raise ValueError(f"{TABLE.name} has rows of {', '.join(rows) or 'nothing'}, not of {', '.join(COLLECTIVES)}")
    return rows


def most_inlined(rows, collective, ranks):
    return rows[collective][0 if ranks <= FEW else 1]


class Decision:
    """Of one collective and number of ranks: `ring_from`, the least size from which on the ring is as fast or faster at all sizes, or
    None; `most`, the largest size that was measured below it, 0 if there is none; `unclear`, whether rounds are too far apart at
    one of these two to tell."""

    def __init__(self, figures, topology, collective, sizes):
        self.ring_from = figures.not_slower_from(topology, collective, sizes, RING, DOUBLING)
        below = [size for size in sizes if self.ring_from is None or size < self.ring_from]
        self.most = max(below, default=0)
        self.unclear = any(figures.noisy_ratio(topology, collective, size, RING, DOUBLING)
                           for size in (self.ring_from, self.most) if size)

    def agrees(self, stated, sizes):
        """Whether the table, which inlines so many bytes, would have the faster one at each size."""
        return all((size <= self.most) == (size <= stated) for size in sizes)


def exact_text(size):
    """Unlike a report's, of sizes that are no whole KB, too."""
    return size_text(size) if size % 1024 == 0 else f"{size:,} B"


def _cell(figures, topology, collective, size):
    both = [time_text(figures.median(topology, collective, size, system)) for system in (DOUBLING, RING)]
    text = " / ".join(both)
    return f"({text})" if figures.noisy_ratio(topology, collective, size, RING, DOUBLING) else text


def table(figures, topology, ranks, sizes, rows, collectives):
    """Of one number of ranks: medians by both, from which size on the ring is faster, and what the table has."""
    head = ["doubling / ring", *map(exact_text, sizes), "ring faster from", "inlined up to, by this", "in the table"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for collective in collectives:
        decision = Decision(figures, topology, collective, sizes)
        found = [exact_text(decision.ring_from) if decision.ring_from else "–", exact_text(decision.most)]
        found = [f"({text})" for text in found] if decision.unclear else found
        stated = most_inlined(rows, collective, ranks)
        differs = "" if decision.agrees(stated, sizes) else ", **differs**"
        lines.append("| " + " | ".join([collective, *(_cell(figures, topology, collective, size) for size in sizes), *found,
                                        exact_text(stated) + differs]) + " |")
    return "\n".join(lines)


def read_multicast(text):
    """(the least number of ranks, {collective: (least, most) bytes}) with which a call goes by multicast."""
    rows = {name.lower(): (int(least), int(most)) for name, least, most in _COPY_ROW.findall(text)}
    ranks = _LEAST_RANKS.search(text)
    if set(rows) != set(COPIES) or not ranks:
        raise ValueError(f"{TABLE.name} has rows by multicast of {', '.join(rows) or 'nothing'}, not of {', '.join(COPIES)}")
    return int(ranks[1]), rows


def _beside(size):
    """What a call goes by where there is no multicast."""
    return DOUBLING if size <= MOST else RING


@dataclasses.dataclass
class Window:
    """Of one collective and number of ranks: the most sizes in a row at which multicast is as fast or faster, from the least to the
    largest, or None; and whether rounds are too far apart at one of these two to tell."""
    least: int | None = None
    most: int | None = None
    unclear: bool = False

    @classmethod
    def of(cls, figures, topology, collective, sizes):
        rows, row = [], []
        for size in sorted(sizes):
            ratio = figures.ratio(topology, collective, size, MULTICAST, _beside(size))
            row = [*row, size] if ratio is not None and ratio >= 1 else []
            rows.append(row)
        best = max(rows, key=len, default=[])
        if not best:
            return cls()
        ends = (best[0], best[-1])
        return cls(*ends, any(figures.noisy_ratio(topology, collective, size, MULTICAST, _beside(size)) for size in ends))

    def text(self):
        words = _span(self.least, self.most) if self.least else "–"
        return f"({words})" if self.unclear else words


def _span(least, most):
    return exact_text(least) if least == most else f"{exact_text(least)} to {exact_text(most)}"


def _copy_cell(figures, topology, collective, size):
    names = (DOUBLING, RING, MULTICAST) if size <= MOST else (RING, MULTICAST)
    text = " / ".join(time_text(figures.median(topology, collective, size, system)) for system in names)
    return f"({text})" if figures.noisy_ratio(topology, collective, size, MULTICAST, _beside(size)) else text


def copies_table(figures, topology, ranks, sizes, rows):
    """Of one number of ranks: medians, at which sizes multicast is faster, and what the table has."""
    least_ranks, stated = rows
    head = ["", *map(exact_text, sizes), "multicast faster", "in the table"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for collective in COPIES:
        found = Window.of(figures, topology, collective, sizes)
        has = _span(*stated[collective]) if ranks >= least_ranks else "–"
        lines.append("| " + " | ".join([collective, *(_copy_cell(figures, topology, collective, size) for size in sizes),
                                        found.text(), has]) + " |")
    return "\n".join(lines)


def copies_markdown(figures, run, rows):
    lines = [f"`{run['command']}`: {run['rounds']} rounds, hosts on softnic, a rank on each of a star; {run['machine']}. Medians of a call, "
             "doubling / ring / multicast up to 16 KB, above ring / multicast, by turns; in brackets is what is not to be quoted, because "
             "the quartiles of the rounds' ratios are more than a quarter of the median apart. Sizes are those of all parts together.", ""]
    return _pages(lines, figures, run, lambda topology, ranks: copies_table(figures, topology, ranks, run["sizes"], rows))


def _pages(lines, figures, run, table_of):
    if run["busy"] > 0.1:
        lines += [f"**The machine was not quiet**: up to {100 * run['busy']:.0f} % of it was busy with other things.", ""]
    for ranks in run["ranks"]:
        lines += [f"{ranks} ranks:", "", table_of(f"star-{ranks}", ranks), ""]
    lines += [f"- failed: {failure}" for failure in figures.failures]
    return "\n".join(lines).rstrip()


def markdown(figures, run, rows):
    lines = [f"`{run['command']}`: {run['rounds']} rounds, hosts on softnic, a rank on each of a star; {run['machine']}. Medians of a call, "
             "doubling / ring, by turns; in brackets is what is not to be quoted, because the quartiles of the rounds' "
             "ratios are more than a quarter of the median apart. Sizes are those of all parts together; one message of doubling holds "
             f"{MOST:,} bytes.", ""]
    return _pages(lines, figures, run,
                  lambda topology, ranks: table(figures, topology, ranks, run["sizes"], rows, run["collectives"]))
