#!/usr/bin/python3
"""Known mistakes, literally: does the checker find each, and is it right without?

Each NAME.patch in this folder is a mistake; canaries.yaml says in which configurations it shows, and how. For
each the program with the mistake must give the verdict that is stated, and the one without it, in the same
configuration, must say that all is right. Without names: all canaries.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import typing

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/CANARIES.md"
PROOF = ROOT / "docs/PROOF.md"
# Between these lines of docs/PROOF.md is the table of counterexamples.
TABLE_BEGIN, TABLE_END = "<!-- written by run_canaries.py -->\n", "<!-- end of what it wrote -->\n"
FIELDS = ("Mistake", "Source", "Rule", "Leads to")
ALL_FIELDS = (*FIELDS, "Masked by")

HEAD = """# Canaries: known mistakes, and how the checker finds them

Each canary is a change of the code that ships, `check/canaries/NAME.patch`: a mistake that the EPIC paper, or an
earlier state of this code, makes or invites, taken literally. The build applies it to a copy, and links that into a
program of its own; one that no longer applies fails the build. The test `canary_NAME` runs that program in the
configurations below, where it must give this verdict, and the program without the mistake, which must find
everything right. A few mistakes do no harm, because something else masks them; their verdict is right, and the test
sees to it that this stays true.

`check/canaries/run_canaries.py --build build/release --write-page` writes this page, and the lines that replay the
counterexamples in [PROOF.md](PROOF.md#canaries), from what they print; the test `canaries_page` fails when they are out
of date.

"""


class Wrong(Exception):
    """What a canary did other than stated."""


class Found(typing.NamedTuple):
    """What a canary came to in one configuration."""
    setup: str
    verdict: str
    words: str  # of the violation
    steps: list[str]
    replay: str  # the line that replays the steps; empty when all is right

    def says(self):
        return f"{self.verdict}: {self.words}" if self.words else self.verdict


def header_of(name):
    """The fields of the patch's comment."""
    text = (HERE / f"{name}.patch").read_text(encoding="utf-8").split("\n--- a/")[0]
    pattern = rf"^({'|'.join(ALL_FIELDS)}): (.*?)(?=^(?:{'|'.join(ALL_FIELDS)}): |\Z)"
    found = {key: " ".join(value.split()) for key, value in re.findall(pattern, text, re.S | re.M)}
    missing = [field for field in FIELDS if field not in found]
    if missing:
        raise Wrong(f"{name}.patch: its comment lacks {', '.join(missing)}")
    return found


def run(program, setup):
    """What the program prints."""
    if not program.exists():
        raise Wrong(f"{program} is not there: cmake --build BUILD --target {program.name} makes it")
    command = [program] + ["--" + pair for pair in setup.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    found = re.search(r"^verdict: (\w+)(?:: (.*))?$", done.stdout, re.M)
    if not found or done.returncode != (0 if found[1] == "right" else 1):
        raise Wrong(f"{program} with {setup} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    # Of the place of a check that failed, the page shall not follow every line that moves.
    words = re.sub(r"\S*?(\w+\.(?:cc|h)):\d+", r"\1", found[2] or "")
    replay = re.search(r"^replay: epic-check --replay '(.*)'$", done.stdout, re.M)
    steps = re.findall(r"^ *\d+  (.*)$", done.stdout, re.M)
    return Found(setup, found[1], words, steps, replay[1] if replay else "")


def check(name, case, build):
    """One configuration of a canary: what it came to, which is as stated."""
    found = run(build / "check/canaries" / f"canary-{name}", case["setup"])
    if found.verdict != case["verdict"] or case.get("words", "") not in found.words:
        raise Wrong(f"{name}: with {case['setup']} it is {found.verdict}: {found.words}\n"
                    f"  and should be {case['verdict']}: {case.get('words', '')}")
    without = run(build / "check/epic-check", case["setup"])
    if without.verdict != "right":
        raise Wrong(f"{name}: without the mistake, {case['setup']} is {without.verdict}: {without.words}")
    return found


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


def page_of(results):
    """The page: a table, then the counterexamples."""
    lines = [HEAD, "| canary | mistake | source | verdict, in | steps |\n|---|---|---|---|---|\n"]
    for name, cases in results.items():
        header = header_of(name)
        for number, found in enumerate(cases):
            what = (f"[{name}](#{name})", header["Mistake"], header["Source"]) if number == 0 else [""] * 3
            where = f"{found.verdict}: `{found.setup}` | {len(folded(found.steps)) or ''}"
            lines.append(f"| {' | '.join(what)} | {where} |\n")
    for name, cases in results.items():
        lines.append(f"\n## {name}\n\n")
        lines += [f"- {field}: {value}\n" for field, value in header_of(name).items()]
        for found in cases:
            shown = folded(found.steps)
            numbered = "".join(f"{number:4}  {step}\n" for number, step in enumerate(shown, 1))
            numbered += "      and so on\n" if len(shown) < len(found.steps) else ""
            lines.append(f"\n```\n{found.setup}\n{found.says()}\n{numbered}```\n")
    return "".join(lines)


def proof_of(results):
    """docs/PROOF.md with the table of counterexamples as it should be."""
    before, table, rest = PROOF.read_text(encoding="utf-8").partition(TABLE_BEGIN)
    _, end, after = rest.partition(TABLE_END)
    if not table or not end:
        raise Wrong(f"{PROOF} lacks the line {(TABLE_END if table else TABLE_BEGIN).strip()}")
    lines = ["| canary | verdict | the shortest counterexample known |\n|---|---|---|\n"]
    for name, cases in results.items():
        for found in cases:
            counterexample = found.replay or found.setup
            lines.append(f"| [{name}](CANARIES.md#{name}) | {found.says()} | `{counterexample}` |\n")
    return before + table + "".join(lines) + end + after


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="the build directory")
    parser.add_argument("--write-page", action="store_true",
                        help="write docs/CANARIES.md and the table in docs/PROOF.md; takes no names")
    parser.add_argument("--check-page", action="store_true", help="are they what it would write?")
    parser.add_argument("name", nargs="*", help="canaries to run")
    args = parser.parse_args()
    table = yaml.safe_load((HERE / "canaries.yaml").read_text(encoding="utf-8"))
    patches = {patch.stem for patch in HERE.glob("*.patch")}
    unmatched = sorted(patches ^ set(table)) + sorted(set(args.name) - set(table))
    if unmatched:
        parser.error(f"no patch, or no line in canaries.yaml: {', '.join(unmatched)}")
    if args.name and (args.write_page or args.check_page):
        parser.error("the page is that of all canaries; give no names")
    results = {}
    for name in args.name or table:
        results[name] = [check(name, case, args.build) for case in table[name]]
        for found in results[name]:
            how = f" in {len(found.steps)} steps: {found.words}" if found.steps else ""
            print(f"{name}: {found.verdict}{how}")
    if not args.write_page and not args.check_page:
        return
    for page, text in ((PAGE, page_of(results)), (PROOF, proof_of(results))):
        if args.write_page:
            page.write_text(text, encoding="utf-8")
        elif page.read_text(encoding="utf-8") != text:
            raise Wrong(f"{page} is out of date: run_canaries.py --build BUILD --write-page writes it anew")


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(str(wrong))
