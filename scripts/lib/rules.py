"""docs/RULES.md: its rules, their tests, and the programs that have these; and the mutants of tests/mutants/rules."""
import functools
import re
import typing

import mutation

ROOT = mutation.ROOT
PAGE = ROOT / "docs/RULES.md"
UNPROVED = "Rules without such a proof here"


class Row(typing.NamedTuple):
    section: str
    rule: str
    tests: tuple[str, ...]
    taken_out: tuple[str, ...]  # the alternatives


class Mutant(typing.NamedTuple):
    """What takes a rule out; each of its tests must fail then."""
    name: str
    section: str
    rule: str
    tests: tuple[str, ...]
    taken_out: str
    edits: tuple[mutation.Edit, ...]


@functools.cache
def suites():
    """The table at the page's head: files and program by suite."""
    rows = re.findall(r"^\| `(\w+)` \| (`[\w/.]+`(?:, `[\w/.]+`)*) \| `([\w/]+)` \|$",
                      PAGE.read_text(encoding="utf-8"), re.M)
    return {suite: (re.findall(r"`([^`]+)`", files), program) for suite, files, program in rows}


@functools.cache
def rows():
    """The rows of every section with a proof."""
    found = []
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        section, *lines = part.splitlines()
        if section == UNPROVED:
            continue
        for line in lines:
            if not line.startswith("| ") or line.startswith("| rule "):
                continue
            rule, tests, taken_out = (cell.strip() for cell in line.strip("|").split(" | "))
            named = found[-1].tests if tests == "the same" else tuple(re.findall(r"`(\w+\.\w+)`", tests))
            found.append(Row(section, rule, named, tuple(taken_out.split("; "))))
    return found


@functools.cache
def unproved():
    """[(rule, what there is), ...] of the section without proofs."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {UNPROVED}\n")[1].partition("\n## ")[0]
    found = [tuple(cell.strip() for cell in line.strip("|").split(" | ", 1)) for line in section.splitlines() if line.startswith("| ")]
    return [row for row in found if row[0] != "rule"]


def mutant_of(name, entry):
    """The entry of tests/mutants/rules, as a mutant."""
    mutation.check_keys(name, entry, ("rule", "section", "tests", "taken out", "edits"))
    return Mutant(name, entry["section"], entry["rule"], tuple(entry["tests"]), entry["taken out"], mutation.edits_of(name, entry))


@functools.cache
def mutants():
    """All of them, in the page's order."""
    order = {row[:2]: number for number, row in reversed(list(enumerate(rows())))}
    found = [mutant_of(name, entry) for name, entry in mutation.entries("rules").items()]
    return sorted(found, key=lambda m: (order.get((m.section, m.rule), len(order)), m.name))


def mutants_of(row, among):
    """The mutants of a row. Two rows may bear the same words, such as "… and down": the tests tell which is meant."""
    return [m for m in among if (m.section, m.rule) == row[:2] and set(m.tests) <= set(row.tests)]


def program_of(test):
    """The program that has a test, as FOLDER/NAME."""
    return suites()[test.split(".")[0]][1]
