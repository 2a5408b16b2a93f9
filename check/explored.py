#!/usr/bin/python3
"""explored: how far epic-check has gone, by collective and mode, from the two files of configurations.

Prints two tables, or writes them into docs/PROOF.md; tests/style/explored_test.py fails when the page is out of date. A
configuration counts for every collective in its list of calls, and a small call (+) apart from those whose data follow. It
is left out where another one, whose calls are made in the same way and whose channels keep as much order, covers it: has no
fewer hosts, and no less of anything else. Those between the hosts (--path hosts) and those of several groups (--groups) have
tables of their own on that page, where calls in slices (--slices) are, too.
"""
import argparse
import itertools
import pathlib
import re
import shlex
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts" / "lib"))
sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import modes as mode_table  # noqa: E402
import page  # noqa: E402

TABLES = (ROOT / "check/configurations.txt", ROOT / "check/configurations-long.txt")
PAGE = ROOT / "docs/PROOF.md"

COLLECTIVES = ("allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather")
MODES = {str(mode.number): mode.numeral for mode in mode_table.OWN_MEMORY}
MODES["mixed"] = " and ".join(mode.numeral for mode in mode_table.OWN_MEMORY if mode.per_hop)
# epic-check's own, of the options that matter here.
DEFAULTS = {"mode": "2", "collective": "allreduce", "calls": "together", "topology": "tree-3-2", "messages": "1",
            "packets": "1", "late-calls": "0", "reorder": "neighbours"}
FAULTS = {"losses": "loss", "duplicates": "duplicate", "reorderings": "swap", "timeouts": "early timer",
          "late-timers": "late timer", "crashes": "crash", "regroups": "new group"}
ANY = 10**6  # of late calls


class Configuration(typing.NamedTuple):
    """A line of the files, for one of its collectives."""
    collective: str
    mode: str
    topology: str
    calls: str
    late: int
    ordered: bool
    faults: tuple[int, ...]  # as FAULTS
    messages: int
    packets: int

    def size(self):
        """What of it can be more or less; hosts first."""
        return (hosts(self.topology), *self.faults, self.late, self.messages, self.packets)

    def kind(self):
        """One of another kind does not cover it."""
        return self.calls, self.ordered

    def kinds_of_faults(self):
        return sum(number > 0 for number in self.faults)


def hosts(topology):
    """A tree's switches below the root have so many each."""
    kind, *numbers = topology.split("-")
    numbers = [int(number) for number in numbers]
    return numbers[0] if kind == "star" else (numbers[0] - 1) * numbers[1]


def options_of(line):
    """The options of a line, with those by default; a line of the paper's six cases is six."""
    words = line.split("#", 1)[0].split()
    cases = [("2", "allreduce")]
    given = {}
    if "--paper" in words:
        words.remove("--paper")
        cases = itertools.product("23", ("allreduce", "reduce", "broadcast"))
        given = {"messages": "3", "losses": "1"}
    words = iter(words)
    given |= {option.removeprefix("--"): next(words) for option in words}
    return [DEFAULTS | {"mode": mode, "collective": collective} | given for mode, collective in cases]


def configurations(files=TABLES):
    found = set()
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    for options in itertools.chain.from_iterable(options_of(line) for line in lines if shlex.split(line, comments=True)):
        if options.get("path") == "hosts" or any(other in options for other in ("groups", "slices", "pool")):
            continue
        late = options["late-calls"]
        for call in options["collective"].split(","):
            found.add(Configuration(
                re.sub(r"[@*]\d+", "", call), options["mode"] if len(options["mode"]) == 1 else "mixed",
                options["topology"], options["calls"], ANY if late == "any" else int(late),
                options["reorder"] == "neighbours", tuple(int(options.get(fault, 0)) for fault in FAULTS),
                int(options["messages"]), int(options["packets"])))
    return found


def largest(found, size=Configuration.size):
    """Those that no other one covers, the most hosts first."""
    sizes = {one: size(one) for one in found}

    def covered(one):
        return any(of_other != sizes[one] and all(a >= b for a, b in zip(of_other, sizes[one]))
                   for other, of_other in sizes.items() if other.kind() == one.kind())

    return sorted((one for one in found if not covered(one)), key=lambda one: (sizes[one], one), reverse=True)


def plural(what):
    return what + ("es" if what.endswith(("s", "sh")) else "s")


def counted(number, what):
    return f"{number} {what if number == 1 else plural(what)}"


def told(one, column):
    """A cell's words for a configuration: what the column does not say."""
    words = [counted(number, what) for number, what in zip(one.faults, FAULTS.values()) if number]
    if one.late and column != "late":
        words.append("late without bound" if one.late == ANY else f"{one.late} late")
    if one.calls != "together" and column not in ("apart", "after-results"):
        words.append(one.calls.replace("-", " "))
    if not one.ordered and column != "unordered":
        words.append("no order")
    words += [counted(one.messages, "message")] if one.messages > 1 else []
    words += [counted(one.packets, "packet")] if one.packets > 1 else []
    late = ("any: " if one.late == ANY else f"{one.late}: ") if column == "late" else ""
    return late + ", ".join([one.topology, *words])


COLUMNS = {"late": ("late calls", lambda one: one.late > 0),
           "apart": ("calls apart", lambda one: one.calls == "apart"),
           "after-results": ("calls after results", lambda one: one.calls == "after-results"),
           "unordered": ("channels without order", lambda one: not one.ordered)}


def cell(words):
    return "; ".join(dict.fromkeys(words)) or "–"


def table(heads, found, cells):
    """A row for each collective and mode, but one for those that are next to each other and have the same cells."""
    names = [name + suffix for suffix in ("", "+") for name in COLLECTIVES if suffix == "" or name != "barrier"]
    of_names = []  # names, and their rows: modes and cells
    for name in names:
        rows = []
        for mode, numeral in MODES.items():
            row = cells([one for one in found if (one.collective, one.mode) == (name, mode)])
            if rows and rows[-1][1] == row:
                rows[-1][0].append(numeral)
            else:
                rows.append(([numeral], row))
        if of_names and of_names[-1][1] == rows:
            of_names[-1][0].append(name)
        else:
            of_names.append(([name], rows))
    lines = [f"| calls | mode | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for names, rows in of_names:
        for modes, row in rows:
            lines.append(f"| {', '.join(names)} | {'all' if len(rows) == 1 else ', '.join(modes)} | {' | '.join(row)} |")
    return lines


def by_fault(found):
    def cells(of_row):
        plain = [one for one in of_row if one.kind() == ("together", True) and one.late == 0]
        row = []
        for fault in range(len(FAULTS)):
            most = largest([one for one in plain if one.faults[fault]],
                           lambda one, fault=fault: (hosts(one.topology), one.faults[fault]))
            row.append(cell(f"{one.faults[fault]} on {one.topology}" for one in most))
        return [*row, cell(told(one, "faults") for one in largest([one for one in plain if one.kinds_of_faults() > 1]))]

    return table([*map(plural, FAULTS.values()), "of several kinds"], found, cells)


def by_order(found):
    def cells(of_row):
        return [cell(told(one, column) for one in largest([one for one in of_row if belongs(one)]))
                for column, (_, belongs) in COLUMNS.items()]

    return table([head for head, _ in COLUMNS.values()], found, cells)


def block(found):
    return "\n".join([
        "Calls made together, none late, channels in order: the most faults of a kind, and of several kinds.", "",
        *by_fault(found), "",
        "Late calls (as many timers, or any number, run out before), calls apart, calls after results, no order:", "",
        *by_order(found)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write-page", action="store_true", help="put the tables into docs/PROOF.md")
    args = parser.parse_args()
    if args.write_page:
        page.write(PAGE, "explored", block(configurations()))
    else:
        print(block(configurations()))


if __name__ == "__main__":
    main()
