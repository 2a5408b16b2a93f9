"""Canaries: known mistakes, literally (tests/mutants/canaries.yaml). Does the checker find each, and is it right without?

An entry says in which configurations (`cases`) the mistake shows, and how: the options of epic-check, the verdict, the invariant
that it breaks, what it comes to without that invariant (the one that finds it then, or right), and words of how. For each the
program with the mistake must give that verdict, by that invariant, and the one without it, in the same configuration, must say
that all is right. The program with the mistake runs once more without that invariant, and must then say what the line `without`
states. Verdict, invariant and number of steps must be what docs/CANARIES.md has of it.
"""
import pathlib
import re
import subprocess
import textwrap
import typing

import mutation

ROOT = mutation.ROOT
PAGE = ROOT / "docs/CANARIES.md"
WRITES_IT = "scripts/mutate --canaries BUILD --write-page writes it anew"
WIDTH = 120  # of the page's lines
FIELDS = ("mistake", "source", "rule", "leads to", "edits", "cases")
OTHER_FIELDS = ("masked by",)

HEAD = """# Canaries: known mistakes, and how the checker finds them

Each canary is a change of the code that ships, in `tests/mutants/canaries.yaml`: a mistake that the EPIC paper, or an
earlier state of this code, makes or invites, taken literally. The build makes it in a copy, and links that into a
program of its own; one that no longer fits fails the build. The test `canary_NAME` runs that program in the
configurations below, where it must give this verdict by this invariant, and the program without the mistake, which
must find everything right. A few mistakes do no harm, because something else masks them, and some none where calls
are not late or not apart; there the verdict is right, and the test sees to it that this stays true.

The column "without it" says what the program with the mistake comes to when it judges nothing by that invariant
(`epic-check --without NAME`): which other invariant finds the mistake then, or **right**, if this one alone does. Each
invariant has a canary that it alone finds: if its check were lost, nothing else would tell.

A row's program prints the shortest counterexample, step by step, and the line that replays it: for the first row

```
build/release/check/canaries/canary-silent-drop --mode=3 --collective=barrier --topology=star-2 --losses=2
```

`scripts/mutate --canaries build/release --write-page` writes this page from what they print; a canary's
test fails when its verdict, invariant or number of steps is another, and `canaries_invariants` when one is missing, or when an invariant has no
canary that it alone finds.

"""


RULES = """
## What each takes out

| canary | mistake | leads to | rule |
|---|---|---|---|
"""


class Wrong(mutation.Wrong):
    """What a canary did other than stated."""


class Canary(typing.NamedTuple):
    """A mistake, and what the checker must say of it in each case."""
    name: str
    fields: dict[str, str]
    edits: tuple[mutation.Edit, ...]
    cases: list[dict[str, str]]


class Found(typing.NamedTuple):
    """What a canary came to in one configuration."""
    setup: str
    verdict: str
    invariant: str  # that is broken; empty when all is right
    words: str  # how it is broken
    steps: list[str]
    without: str = ""  # what the same comes to without that invariant: the one that finds it then, or right

    def says(self):
        return f"{self.verdict}: {self.invariant}: {self.words}" if self.invariant else self.verdict


def canary_of(name, entry):
    """The entry, checked as far as that needs no program."""
    mutation.check_keys(name, entry, FIELDS, OTHER_FIELDS)
    return Canary(name, {key: entry[key] for key in entry if key not in ("edits", "cases")}, mutation.edits_of(name, entry),
                  entry["cases"])


def canaries():
    """All of them, in the page's order."""
    return [canary_of(name, entry) for name, entry in mutation.entries("canaries").items()]


def write_sources(chosen, folder):
    """Puts what each changes below FOLDER/NAME.dir; what is there already as it should be keeps its time."""
    text_of = mutation.reader(ROOT)
    for canary in chosen:
        try:
            texts = mutation.changed(canary.edits, text_of)
        except mutation.Wrong as why:
            raise Wrong(f"{canary.name}: {why}") from None
        for file, text in texts.items():
            place = folder / f"{canary.name}.dir" / file
            if not place.exists() or place.read_text(encoding="utf-8") != text:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")


def built(program):
    """The program, which is there."""
    if not program.exists():
        raise Wrong(f"{program} is not there: cmake --build BUILD --target {program.name} makes it")
    return program


def run(program, setup):
    """What the program prints."""
    command = [built(program)] + ["--" + pair for pair in setup.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    found = re.search(r"^verdict: (\w+)(?:: ([\w-]+): (.*))?$", done.stdout, re.M)
    if not found or done.returncode != (0 if found[1] == "right" else 1):
        raise Wrong(f"{program} with {setup} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    if found[1] != "right" and not re.search(r"^replay: epic-check --replay '.+'$", done.stdout, re.M):
        raise Wrong(f"{program} with {setup} prints no line that replays its steps:\n{done.stdout}")
    # Of the place of a check that failed, the page shall not follow every line that moves.
    words = re.sub(r"\S*?(\w+\.(?:cc|h)):\d+", r"\1", found[3] or "")
    steps = re.findall(r"^ *\d+  (.*)$", done.stdout, re.M)
    return Found(setup, found[1], found[2] or "", words, steps)


def check(name, case, build):
    """One configuration of a canary: what it came to, which is as stated."""
    found = run(build / "check/canaries" / f"canary-{name}", case["setup"])
    wanted = (case["verdict"], case.get("invariant", ""))
    if (found.verdict, found.invariant) != wanted or case.get("words", "") not in found.words:
        raise Wrong(f"{name}: with {case['setup']} it is {found.says()}\n"
                    f"  and should be {': '.join(wanted)}: {case.get('words', '')}")
    without = run(build / "check/epic-check", case["setup"])
    if without.verdict != "right":
        raise Wrong(f"{name}: without the mistake, {case['setup']} is {without.says()}")
    if found.verdict == "right":
        return found
    others = run(build / "check/canaries" / f"canary-{name}", f"{case['setup']} without={found.invariant}")
    if (others.invariant or others.verdict) != case["without"]:
        raise Wrong(f"{name}: with {case['setup']} and without {found.invariant} it is {others.says()}\n"
                    f"  and should be {case['without']}")
    return found._replace(without=case["without"])


def folded(steps):
    """The steps without what repeats at their end, for a hang goes on for ever: each round but the first."""
    shortest = steps
    for period in range(1, len(steps) // 3 + 1):
        start = len(steps) - period
        while start > 0 and steps[start - 1] == steps[start - 1 + period]:
            start -= 1
        if len(steps) - start >= 3 * period and start + period < len(shortest):
            shortest = steps[:start + period]
    return shortest


def invariants_of(build):
    """Names and meanings of what is checked."""
    done = subprocess.run([built(build / "check/epic-check"), "--invariants"], capture_output=True, text=True, check=True)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def check_invariants(table, invariants):
    """Every invariant is the only one that finds some canary, and every case that is not right names one."""
    cases = [(name, case) for name, of_name in table.items() for case in of_name]
    for name, case in cases:
        if (case["verdict"] == "right") != ("invariant" not in case):
            raise Wrong(f"{name}: {case['setup']}: what is not right breaks an invariant, which is named")
        if ("invariant" in case) != ("without" in case):
            raise Wrong(f"{name}: {case['setup']}: what is not right comes to something without that invariant, too")
        if case["verdict"] == "hung" and not re.search(r"(host|switch)\d", case.get("words", "")):
            raise Wrong(f"{name}: {case['setup']}: the words do not say where the ranks stand, or which switch has a block")
    named = {case["invariant"] for _, case in cases if "invariant" in case}
    alone = {case["invariant"] for _, case in cases if case.get("without") == "right"}
    if missing := sorted(set(invariants) - alone):
        raise Wrong(f"without a canary that it alone finds: {', '.join(missing)}")
    named |= {case["without"] for _, case in cases if case.get("without", "right") != "right"}
    if unknown := sorted(named - set(invariants)):
        raise Wrong(f"no invariants: {', '.join(unknown)}")


def item(text):
    """An item of a list."""
    return textwrap.fill(f"- {text}", WIDTH, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False) + "\n"


def head_of(table, invariants):
    """What is above the canaries: what each invariant is and who breaks it."""
    lines = [HEAD, "## What each invariant says, and the canaries that break it\n\n"]
    for invariant, meaning in invariants.items():
        of_it = {name: [case for case in cases if case.get("invariant") == invariant] for name, cases in table.items()}
        alone = [name for name, cases in of_it.items() if any(case["without"] == "right" for case in cases)]
        others = [name for name, cases in of_it.items() if cases and name not in alone]
        also = f" Others find as well: {', '.join(others)}." if others else ""
        lines.append(item(f"**{invariant}**: {meaning}. It alone finds: {', '.join(alone)}.{also}"))
    lines.append("\n## All of them\n\n| canary | verdict | invariant | without it | in | steps |\n"
                 "|---|---|---|---|---|---|\n")
    return "".join(lines)


def rows_of(name, results):
    """A canary's lines in the table of all."""
    lines = []
    for number, found in enumerate(results):
        what = name if number == 0 else ""
        without = "**right**" if found.without == "right" else found.without
        lines.append(f"| {what} | {found.verdict} | {found.invariant} | {without} | `{found.setup}` | "
                     f"{len(folded(found.steps)) or ''} |\n")
    return "".join(lines)


def rules_of(canary):
    """A canary's row in the table of mistakes."""
    fields = canary.fields
    masked = f" Masked by: {fields['masked by']}" if "masked by" in fields else ""
    return f"| {canary.name} | {fields['mistake']}{masked} | {fields['leads to']} | {fields['rule']} |\n"


def tail_of(all_canaries):
    """What is below the canaries: what each takes out, and what rule that breaks."""
    return RULES + "".join(map(rules_of, all_canaries))


def check_part(name, results, page):
    """The page has what the canary has just come to."""
    if rows_of(name, results) not in page:
        raise Wrong(f"{PAGE} is out of date for {name}: {WRITES_IT}")


def check_frame(all_canaries, invariants, page):
    """The page has its head, a row for each configuration, in order, and its end; runs none."""
    table = {canary.name: canary.cases for canary in all_canaries}
    head, tail = head_of(table, invariants), tail_of(all_canaries)
    rows = page[len(head):len(page) - len(tail)]
    named = re.findall(r"^\| ([\w-]+) \|", rows, re.M)
    shown = re.findall(r"^\|.*\| `(.*?)` \| \d* \|$", rows, re.M)
    cases = [case["setup"] for name in table for case in table[name]]
    if not page.startswith(head) or not page.endswith(tail) or named != list(table) or shown != cases:
        raise Wrong(f"{PAGE} is out of date: {WRITES_IT}")


def add_options(parser):
    group = parser.add_argument_group("canaries (tests/mutants/canaries.yaml)")
    group.add_argument("--canaries", type=pathlib.Path, metavar="BUILD",
                       help="does epic-check find each, as built in this directory? --only names some")
    group.add_argument("--write-page", action="store_true", help="with --canaries: write docs/CANARIES.md; takes no names")
    group.add_argument("--check-invariants", action="store_true",
                       help="with --canaries: has every invariant a canary, and the page each of them? Runs none")
    group.add_argument("--canary-sources", type=pathlib.Path, metavar="FOLDER",
                       help="put what each changes below FOLDER/NAME.dir; with --list name the files and put nothing")


def wanted(args):
    return bool(args.canaries or args.canary_sources)


def main(args, chosen):
    """chosen: those that --only lets through."""
    if args.canary_sources:
        if not args.list:
            write_sources(chosen, args.canary_sources)
        for canary in chosen if args.list else []:
            print(" ".join([canary.name, *mutation.files_of(canary.edits)]))
        return
    if args.list:
        for canary in chosen:
            print(f"{canary.name}  {canary.fields['mistake']} {', '.join(case['setup'] for case in canary.cases)}")
        return
    if args.write_page and (args.only or args.check_invariants):
        raise Wrong("the page is that of all canaries as they run; give --write-page alone")
    all_canaries = canaries()
    table = {canary.name: canary.cases for canary in all_canaries}
    invariants = invariants_of(args.canaries)
    check_invariants(table, invariants)
    page = "" if args.write_page else PAGE.read_text(encoding="utf-8")
    if args.check_invariants:
        check_frame(all_canaries, invariants, page)
        return
    rows = []
    for canary in chosen:
        results = [check(canary.name, case, args.canaries) for case in canary.cases]
        for found in results:
            how = f" ({len(found.steps)} steps; without it {found.without})" if found.steps else ""
            print(f"{canary.name}: {found.says()}{how}", flush=True)
        rows.append(rows_of(canary.name, results))
        if not args.write_page:
            check_part(canary.name, results, page)
    if args.write_page:
        PAGE.write_text(head_of(table, invariants) + "".join(rows) + tail_of(all_canaries), encoding="utf-8")
