#!/usr/bin/python3
"""ledger.py [--begin | --reference | --report [--told] | --commit]: what each stage, test and compile of scripts/test took.

While scripts/test runs, lines of JSON gather in build/ledger: stages.jsonl (scripts/lib/stages.sh), tasks.jsonl and
tests.jsonl (the pool); compiles in build/TREE/compile-times (scripts/lib/compile-ledger).

  --begin      a new run: what is left of the last one goes
  --reference  measures a fixed compile and fixed seeds of epic-sim, by which machines are compared
  --report     the same once more, the tables, build/test-times.json, and the verdict by tests/budget.json; exit status 1 if
               something is dearer; with --told, of a run that is no default run and has no figures, without the verdict

EPIC_STAGE_GROUPS: the control group of all stages. What else the machine computed meanwhile ran beside.
  --commit     what this run took, and what was known of all that it did not run, into tests/times.json, by which a new clone
               deals its tests and compares them
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from stage_pool import budget, compiles, groups, stages  # noqa: E402

PLACE = stages.ROOT / "build/ledger"
STAGES, TASKS, TESTS = (PLACE / name for name in ("stages.jsonl", "tasks.jsonl", "tests.jsonl"))
REFERENCE, BEGUN = (PLACE / name for name in ("reference.json", "begun.json"))
TIMES = stages.ROOT / "build/test-times.json"
COMMITTED = stages.ROOT / "tests/times.json"
SHOWN = 10
RUNS = 2  # of the reference, of which the least counts


def append(file, line):
    """One line of JSON."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def say(text):
    """How far a pool is, for those who watch scripts/test."""
    PLACE.mkdir(parents=True, exist_ok=True)
    name = os.environ.get("EPIC_STAGE_NAME")
    if name:
        (PLACE / f"{name}.progress").write_text(text + "\n", encoding="utf-8")


def read(file):
    """The lines of a file of this run."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def stored(file):
    """What TIMES or COMMITTED has."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def renewed(old, new):
    """{"STAGE TEST": [wall, cpu]} with newer ones. What is known of a file that they have goes: its tests may be others, as the
    rows of a cover are with each commit."""
    files = {name.partition("::")[0] for name in new}
    return {name: taken for name, taken in old.items() if name.partition("::")[0] not in files} | new


def last_times():
    """{"STAGE TEST": [wall, cpu]}: as committed, and over it what the last run here measured."""
    return renewed(stored(COMMITTED).get("tests", {}), stored(TIMES).get("tests", {}))


def begin():
    PLACE.mkdir(parents=True, exist_ok=True)
    for file in PLACE.iterdir():
        file.unlink()
    compiles.forget()
    BEGUN.write_text(json.dumps(counted()) + "\n", encoding="utf-8")


def counted():
    """Now, and the processor seconds outside of the kernel of this machine, and of them those of the stages. What the kernel does
    for the stages it does in part on threads of its own."""
    own = os.environ.get("EPIC_STAGE_GROUPS")
    return {"at": time.monotonic(), "all": groups.computed_by_machine(), "own": groups.Group(pathlib.Path(own)).computed_by_programs() if own else 0.0}


def beside():
    """The share of the processors' time since begin() that others took."""
    if not BEGUN.exists():
        return 0.0
    begun, now = json.loads(BEGUN.read_text(encoding="utf-8")), counted()
    others = (now["all"] - begun["all"]) - (now["own"] - begun["own"])
    return max(0.0, others) / (os.cpu_count() or 1) / max(1.0, now["at"] - begun["at"])


def computed(argv):
    """Processor seconds of a program: the least of some runs."""
    least = None
    for _ in range(RUNS):
        before = os.times()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=stages.ROOT)
        after = os.times()
        spent = sum(after[2:4]) - sum(before[2:4])
        least = spent if least is None else min(least, spent)
    return least


def reference():
    """Measures what does not change with the project, but for the machine. Of several measurements of a run the slowest counts."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = computed(["g++", "-std=c++20", "-O2", "-c", "tests/reference/reference.cc", "-o", f"{folder}/reference.o"])
    seeds = computed(["build/release/sim/epic-sim", "run", "--seeds", "1:200", "--algorithm", "first", "--jobs", "1"])
    before = stored(REFERENCE)
    measured = {what: round(max(spent, before.get(what, 0.0)), 3) for what, spent in (("compile", compiled), ("seeds", seeds))}
    REFERENCE.write_text(json.dumps(measured) + "\n", encoding="utf-8")
    print(f"reference: a fixed compile takes {compiled:.2f} processor seconds, 200 seeds {seeds:.2f}")


class Run:
    """What was measured."""

    def __init__(self):
        self.stages = {line["stage"]: line for line in read(STAGES)}
        pooled = {}
        for task in read(TASKS):
            row = pooled.setdefault(task["stage"], {"stage": task["stage"], "wall": 0.0, "cpu": 0.0, "in_pool": True})
            row["wall"] += task["wall"]
            row["cpu"] += task["cpu"]
        self.pooled = pooled
        self.tests = {f"{line['stage']} {line['test']}": line for line in read(TESTS)}
        self.trees = compiles.of_trees()
        self.cached = shutil.which("ccache") is not None and "CCACHE_DISABLE" not in os.environ
        self.beside = 0.0
        self.reference = json.loads(REFERENCE.read_text(encoding="utf-8")) if REFERENCE.exists() else None

    def rows(self):
        """Of the table by stages: the pool's are shown under it, with the time of its tasks added up."""
        return list(self.stages.values()) + [self.pooled[name] for name in stages.ALL if name in self.pooled]

    def cost(self):
        """{name: processor seconds} of what the budget has a figure for: stages of the pool by themselves."""
        cost = {name: row["cpu"] for name, row in self.stages.items() if not row.get("pool")}
        cost |= {name: row["cpu"] for name, row in self.pooled.items()}
        return cost

    def write(self):
        """build/test-times.json. What this run did not run keeps its figures."""
        text = {"reference": self.reference, "stages": self.rows(), **self.known(stored(TIMES))}
        TIMES.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")

    def known(self, before, wall=lambda line: line["wall"]):
        """What tests and objects take, by this run, and before it by what is stored. What ccache had took nothing, so that
        objects of a run with it are not known."""
        tests = renewed(before.get("tests", {}), {name: [round(wall(line), 3), line["cpu"]] for name, line in self.tests.items()})
        compiled = {} if self.cached else self.trees
        objects = before.get("objects", {}) | {f"{tree} {name}": cpu for tree, of in compiled.items() for name, cpu in of.items()}
        return {"tests": dict(sorted(tests.items())), "objects": dict(sorted(objects.items()))}


def alone(line):
    """The seconds that a test takes by itself, or about so: without what it waited for a processor that others had."""
    return max(line["wall"] - line["stalled"], line["cpu"])


def commit():
    """tests/times.json, for machines that may be less busy than this one was."""
    COMMITTED.write_text(json.dumps(Run().known(stored(COMMITTED), alone), indent=1) + "\n", encoding="utf-8")


def table(run):
    """Lines about stages, and about the tests and compiles that cost most."""
    yield f"{'stage':16}{'wall s':>9}{'processor s':>13}{'waits':>8}"
    for row in run.rows():
        waits = max(0.0, 1 - row["cpu"] / row["wall"]) if row["wall"] else 0.0
        name = ("  " if row.get("in_pool") else "") + row["stage"]
        yield f"{name:16}{row['wall']:>9.0f}{row['cpu']:>13.1f}{100 * waits:>6.0f} %"
    yield f"{'sum':16}{'':>9}{sum(row['cpu'] for row in run.stages.values()):>13.1f}"
    tests = list(run.tests.items())
    for title, key in ((f"the {SHOWN} tests that computed most", lambda t: t["cpu"]),
                       (f"the {SHOWN} tests that waited longest", lambda t: t["wall"] - t["cpu"] - t["stalled"])):
        dearest = sorted(tests, key=lambda item: -key(item[1]))[:SHOWN]  # pylint: disable=cell-var-from-loop
        if dearest:
            yield f"{title}:"
        for name, line in dearest:
            yield f"  {line['wall']:>7.1f} s {line['cpu']:>7.1f} processor s  {name}"
    for tree, objects in run.trees.items():
        yield (f"compiled in build/{tree}: {len(objects)} objects, {sum(objects.values()):.0f} processor s; the dearest: "
               + ", ".join(f"{name} {cpu:.1f}" for name, cpu in sorted(objects.items(), key=lambda item: -item[1])[:3]))


def report(told):
    others = beside()
    if REFERENCE.exists():
        reference()
    run = Run()
    run.beside = others
    run.write()
    print("\n".join(table(run)))
    if told:
        return 0
    figures = json.loads(budget.FILE.read_text(encoding="utf-8"))
    lines = budget.verdict(run, figures, stored(COMMITTED))
    print("\n".join(lines))
    dearer = [line for line in lines if line.startswith("budget: ")]
    if dearer and not figures["judged"]:
        print("budget: told, not judged: the figures are the aim (tests/budget.json)")
    return 1 if dearer and figures["judged"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group(required=True)
    for option in ("begin", "reference", "report", "commit"):
        group.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--told", action="store_true")
    args = parser.parse_args()
    if args.begin:
        return begin()
    if args.reference:
        return reference()
    if args.commit:
        return commit()
    return report(args.told)


if __name__ == "__main__":
    sys.exit(main())
