"""Runs stages with coverage, in a copy of the tree, for scripts/lib/line_tests.py: which tests execute which lines.

The programs are gcov's. Each unit, a file of pytest's or a program of ctest's, writes its counts to a folder of its own; daemons
write theirs when SIGTERM ends them, ranks when they return from main. What runs in guests writes nothing.
"""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import time

import copies
import judge
import line_tests
import stage_tests
from stage_pool import tasks

PLACE = copies.ROOT / "build/mutants/coverage"
COUNTS = copies.ROOT / "build/mutants/counts"
SECONDS = 1800  # of a unit


def units_of(stage, tree):
    """The tests of a stage, file by file, or program by program."""
    if stage.label:
        # Tests of the tree itself and of models execute nothing that is shipped as it is.
        return [stage_tests.CTEST + test["name"] for test in tasks.ctest_entries(tree)
                if stage.label in test["labels"] and not test["name"].startswith(("canar", "layers"))]
    return sorted(str(file.relative_to(copies.ROOT)) for path in stage.paths for file in (copies.ROOT / path).glob("test_*.py"))


def build(processes, jobs):
    copy = copies.Copy(PLACE, processes, jobs)
    copy.refresh()
    flags = "--coverage -fprofile-update=atomic"
    code, output, _ = processes.run(["cmake", "--preset", "release", f"-DCMAKE_CXX_FLAGS={flags}", f"-DCMAKE_C_FLAGS={flags}"],
                                    cwd=copy.place, env=copy.environment)
    output = output if code else copy.build(["all"])
    if output:
        raise judge.Failure(copies.first_error(output))
    return copy


def executed(counts, tree):
    """{"FILE:LINE", ...} that the counts of one unit say were executed."""
    found = set()
    for data in pathlib.Path(counts).rglob("*.gcda"):
        inner = pathlib.Path("/") / data.relative_to(counts)
        notes = inner.with_suffix(".gcno")
        if not notes.is_file():
            continue
        shutil.copyfile(notes, data.with_suffix(".gcno"))
        said = subprocess.run(["gcov", "--json-format", "--stdout", data], capture_output=True, text=True, check=False, cwd=tree).stdout
        for line in said.splitlines():
            for file in json.loads(line)["files"]:
                path = pathlib.Path(os.path.normpath(pathlib.Path(tree) / file["file"]))
                if path.is_relative_to(PLACE) and not path.is_relative_to(tree):
                    name = path.relative_to(PLACE)
                    found |= {f"{name}:{one['line_number']}" for one in file["lines"] if one["count"] > 0}
    return found


def main(processes, jobs, stages, full):
    """Adds the stages' units to the table; those that have been run are run again."""
    copy = build(processes, jobs)
    runner = judge.Runner(copy)
    seconds, lines = {}, collections.defaultdict(set)
    table = line_tests.load()
    for stage in stages:
        for unit in units_of(stage, copy.build_tree):
            shutil.rmtree(COUNTS, ignore_errors=True)
            os.environ["GCOV_PREFIX"] = str(COUNTS)
            begin = time.monotonic()
            failed = runner.first_failure(stage, [unit], full, SECONDS)
            del os.environ["GCOV_PREFIX"]
            seconds[unit] = time.monotonic() - begin
            there = executed(COUNTS, copy.build_tree)
            for line in there:
                lines[line].add(unit)
            print(f"{unit}: {seconds[unit]:.0f} s, {len(there)} lines{f', FAILED: {failed[1]}' if failed else ''}", flush=True)
    for line, tests in lines.items():
        old = [test for test in table.get(line, []) if test not in seconds]
        table[line] = sorted(tests, key=seconds.get) + old
    line_tests.save(table)
    return 0
