"""What bench/compare writes: Markdown, JSON and plots of its figures."""
import dataclasses
import json

import rounds
import volume
from systems import ON_EPIC, SYSTEMS, Epic, Link

# Behind the name of a system that was measured in one scheduling group beside itself with autogroups on.
ONE_GROUP = "@one-group"
OURS = tuple(name for name, system in SYSTEMS.items() if isinstance(system, Epic))
MODES = tuple(name for name in OURS if name.startswith("epic") and not name.endswith("-int8"))
COLOURS = dict(zip(MODES, ("tab:blue", "tab:green", "tab:purple", "magenta"), strict=True))
COLOURS |= {"epic1-int8": "deepskyblue", "epic2-int8": "lime", "epic3-int8": "violet", "hosts-int8": "darkolivegreen"}
COLOURS |= {"auto": "navy", "hosts": "tab:olive", "hosts-ring": "tab:cyan", "hosts-ring-registered": "teal", "hosts-doubling": "tab:pink",
            "hosts-lacking": "darkkhaki", "multicast": "purple", "link": "black", "links": "dimgray", "openmpi": "tab:red",
            "openmpi-switches": "tab:orange", "mpich": "tab:brown", "gloo": "tab:gray", "openmpi-epic": "gold", "mpich-epic": "tan"}


def size_text(size):
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def bytes_text(count):
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}" if count < 1000 * unit else f"{count / unit:.0f} {name}"
    return f"{count:.0f} B"


def time_text(us):
    if us is None:
        return "–"
    if us >= 10000:
        return f"{us / 1000:.0f} ms"
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.0f} µs"


def _ratio_text(figures, key, system, base):
    ratio = figures.ratio(*key, system, base)
    if ratio is None:
        return "–"
    return f"({ratio:.2f})" if figures.noisy_ratio(*key, system, base) else f"{ratio:.2f}"


def _on_epic(systems, base):
    """Of these systems the MPI `base` on EPIC."""
    return [name for name in systems if ON_EPIC.get(name) == base]


def thresholds(figures, topology, collective, sizes, systems):
    """From which size on each MPI is not slower on EPIC, a line each."""
    lines = []
    for name in systems:
        base = ON_EPIC.get(name)
        if base not in systems or collective == "barrier":
            continue
        least = figures.not_slower_from(topology, collective, sizes, name, base)
        where = f"from {size_text(least)} on" if least is not None else f"not at {size_text(max(sizes))}"
        lines += ["", f"{SYSTEMS[name].name} is as fast as {SYSTEMS[base].name}, or faster, {where}."]
    return lines


def _time_cell(figures, key, system):
    text = time_text(figures.median(*key, system))
    if spread := figures.spread(*key, system):
        text += f" ±{50 * spread:.0f} %"
    return f"({text})" if figures.noisy(*key, system) else text


def table(figures, topology, collective, sizes, systems, both=False):
    """Median times, and how many times as fast as each baseline our best and our slowest mode and the hosts are. `both`: each system
    has a second time, in one scheduling group; ratios are of the first ones."""
    ours = [s for s in systems if s in MODES]
    hosts = [s for s in systems if s in OURS and s not in MODES]
    bases = [s for s in systems if s not in OURS and s not in ON_EPIC]
    bounds = [s for s in bases if isinstance(SYSTEMS[s], Link)]  # of the hosts' path
    ways = ("", ONE_GROUP) if both else ("",)
    head = ["size"] + [SYSTEMS[s].name + (", one group" if way else "") for s in systems for way in ways]
    for base in bases:
        head += [f"{which} mode, of {SYSTEMS[base].name}" for which in ("best", "slowest") if ours and base not in bounds]
        head += [f"{SYSTEMS[h].name.removeprefix('EPIC ')}, of {SYSTEMS[base].name}" for h in [*hosts, *_on_epic(systems, base)]]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for size in sizes:
        key = (topology, collective, size)
        row = ["" if collective == "barrier" else size_text(size)]
        row += [_time_cell(figures, key, system + way) for system in systems for way in ways]
        there = [s for s in ours if figures.median(*key, s) is not None]
        for base in bases:
            by_time = sorted(there, key=lambda s: figures.median(*key, s))
            if ours and base not in bounds:
                row += [_ratio_text(figures, key, by_time[i], base) if by_time else "–" for i in (0, -1)]
            row += [_ratio_text(figures, key, host, base) for host in [*hosts, *_on_epic(systems, base)]]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _busiest_least(collective, size, ranks, in_network):
    """(out, into) the busiest host at least, a rank on each."""
    bound = volume.least(collective, size, [1] * ranks, in_network)
    return (max(*bound.sent, bound.sent_together / ranks), max(*bound.received, bound.received_together / ranks))


def links_table(figures, topology, collective, sizes, systems, ranks):
    """Bytes of a call on the busiest host's link, out and in, beside the least that there may be."""
    systems = [s for s in systems if not isinstance(SYSTEMS[s], Link)]
    head = ["size", "least", "least between hosts", *(SYSTEMS[s].name for s in systems)]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for size in sizes:
        cells = [_busiest_least(collective, size, ranks, in_network) for in_network in (True, False)]
        cells += [figures.busiest(topology, collective, size, system) for system in systems]
        lines.append("| " + " | ".join(["" if collective == "barrier" else size_text(size),
                                        *(", ".join(map(bytes_text, cell)) if cell else "–" for cell in cells)]) + " |")
    return "\n".join(lines)


def markdown(figures, run):
    """The whole report. `run` is what was measured: see bench/compare."""
    rate = f" links of {run['rate']}," if run["rate"] else ""
    lines = [f"`{run['command']}`, {run['date']}: {run['rounds']} rounds, {run['ranks']} ranks,{rate} hosts on {run['hosts']}; "
             f"{run['machine']}. Times are medians of a call (the slowest rank's mean), ratios medians of the rounds' "
             "ratios, all taken by turns. ± is half the distance of the quartiles, of the median; in brackets is what is not to "
             "be quoted, because that distance, of the times or of the rounds' ratios, is over a quarter of the median. Second tables: "
             "bytes of a call, out of the host that sends most and into the one that receives most, as the kernel counts them while calls "
             "are timed (of a segment that it is to cut, one header), and the least that there may be, with switches that compute and copy "
             "and without; a run with less is no figure.", ""]
    if run["rounds"] < rounds.ENOUGH_ROUNDS:
        lines += [f"**Fewer than {rounds.ENOUGH_ROUNDS} rounds**: for a first look, not to be quoted.", ""]
    lines += [f"- {line}" for line in run["settings"]] + [""]
    if run["busy"] > 0.1:
        lines += [f"**The machine was not quiet**: up to {100 * run['busy']:.0f} % of it was busy with other things.", ""]
    for topology in run["topologies"]:
        for collective in run["collectives"]:
            lines += [f"### {collective}, {topology}", "",
                      table(figures, topology, collective, run["sizes"][collective], run["systems"], run.get("both", False)),
                      *thresholds(figures, topology, collective, run["sizes"][collective], run["systems"]), "",
                      f"On a host's link, {collective}, {topology}:", "",
                      links_table(figures, topology, collective, run["sizes"][collective], run["systems"], run["ranks"]), ""]
    lines += [f"- failed: {failure}" for failure in figures.failures]
    return "\n".join(lines)


def as_json(figures, run):
    ours = (*OURS, *ON_EPIC)
    bases = [system for system in run["systems"] if system not in ours]
    rows = [{"topology": t, "collective": c, "size": s, "system": name, "times_us_by_round": times,
             "median_us": figures.median(t, c, s, name), "spread": figures.spread(t, c, s, name),
             "link_bytes_by_round": {number: dataclasses.asdict(link) for number, link in figures.links.get((t, c, s, name), {}).items()},
             "ratios_by_round": {base: figures.ratios(t, c, s, name, base + name[len(system):]) for base in bases if system in ours}}
            for (t, c, s, name), times in sorted(figures.times.items()) for system in [name.removesuffix(ONE_GROUP)]]
    return json.dumps({"run": run, "figures": rows, "failures": figures.failures}, indent=1)


def plot(figures, run, topology, collective, path):
    """Time of a call against its size, each system a line with its quartiles."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("svg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for system in run["systems"]:
        points = [(size, figures.median(topology, collective, size, system)) for size in run["sizes"][collective]]
        points = [(size, us) for size, us in points if us is not None]
        if points:
            axes.plot(*zip(*points), marker="o", label=SYSTEMS[system].name, color=COLOURS[system])
            quartiles = [figures.quartiles(topology, collective, size, system) for size, _ in points]
            axes.fill_between([size for size, _ in points], *zip(*quartiles), color=COLOURS[system], alpha=0.2)
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="µs", title=f"{collective}, {topology}")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path)
    pyplot.close(figure)
