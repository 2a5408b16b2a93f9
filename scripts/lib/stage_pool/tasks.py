"""What the pool runs: a task is one process, of pytest for a file or a part of it, or one test of ctest."""
import json
import math
import os
import subprocess
import sys
import typing

from stage_pool import since, stages

sys.path.append(str(stages.ROOT / "tests"))
import covers  # noqa: E402  pylint: disable=wrong-import-position

# A file that takes longer is run in parts, unless it says "# pool: whole" (what it has brought up is dear). One that says
# "# pool: alone" compares what it measures, and runs beside no other task of the pool.
PART_S = 90.0
UNKNOWN_S = 10.0
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "stage_pool.pytest_plugin"]
PATIENCE = 5  # times ctest's own time: it ends what hangs, and says nothing of what waits for a processor
NOTHING_COLLECTED = 5  # pytest's status
# Of a test that computes much, one part in so many runs under the sanitizers.
SANITIZED_PARTS = 8


class Task(typing.NamedTuple):
    """`wall` and `cpu`: seconds that it is expected to take by itself, and to compute."""
    stage: str
    name: str
    argv: tuple
    environment: dict
    wall: float
    cpu: float
    timeout_s: float = 0.0  # none
    empty_status: int = -1  # the status of a task that found nothing to do
    file: str = ""  # of pytest, which tells of its tests itself
    alone: bool = False

    @property
    def pytest(self):
        return bool(self.file)

    @property
    def rate(self):
        """Processors that it keeps busy."""
        return min(self.cpu / self.wall, float(os.cpu_count() or 1)) if self.wall else 1.0


class Known:
    """What tests took when they were last measured: {"STAGE TEST": [wall, cpu]}, tests of pytest by their ids."""

    def __init__(self, tests):
        self.files = {}
        for name, (wall, cpu) in tests.items():
            stage, _, test = name.partition(" ")
            of_file = self.files.setdefault((stage, test.partition("::")[0]), [0.0, 0.0])
            of_file[0] += wall
            of_file[1] += cpu

    def of(self, stage, test):
        """(wall, cpu) of a file or test."""
        wall, cpu = self.files.get((stage, test), (UNKNOWN_S, UNKNOWN_S / 2))
        return max(wall, 0.1), max(cpu, 0.05)


def of_pytest(stage, known, full, go_on):
    """Tasks for the files of a stage."""
    options = (["--full"] if full else []) + ([] if go_on else ["-x"])
    # What a task imports is compiled once for all of them. Plugins that are installed here and not named load nothing.
    environment = dict(stage.environment, PYTHONPATH=str(stages.ROOT / "scripts/lib"),
                       PYTHONPYCACHEPREFIX=str(stages.ROOT / "build/pycache"), PYTHONDONTWRITEBYTECODE="",
                       PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    for file in stages.test_files(stage):
        wall, cpu = known.of(stage.name, file)
        text = (stages.ROOT / file).read_text(encoding="utf-8")
        alone = "\n# pool: alone\n" in text
        parts = 1 if alone or "# pool: whole" in text else math.ceil(wall / PART_S)
        for part in range(1, parts + 1):
            argv = PYTEST + options + (["-m", stage.marks] if stage.marks else []) + [file]
            name = file if parts == 1 else f"{file} {part}/{parts}"
            more = {} if parts == 1 else {"EPIC_PART": f"{part}/{parts}"}
            yield Task(stage.name, name, tuple(argv), environment | more, wall / parts, cpu / parts,
                       empty_status=NOTHING_COLLECTED, file=file, alone=alone)


def ctest_entries(tree):
    """What ctest knows of a build tree, a preset's name or a path: [{"name", "command", "labels", ...}]."""
    argv = ["ctest", "--test-dir", str(stages.ROOT / "build" / tree), "--show-only=json-v1"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return [_entry(test) for test in json.loads(done.stdout)["tests"]]


def _entry(test):
    properties = {p["name"]: p["value"] for p in test.get("properties", [])}
    return {"name": test["name"], "command": test.get("command"), "labels": properties.get("LABELS", []),
            "timeout": properties.get("TIMEOUT", 120.0), "folder": properties.get("WORKING_DIRECTORY", "."),
            "environment": dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))}


def chosen(stage, entries, full, quick=False):
    """Those of a stage."""
    without = stage.without if not full and not quick else ("slow", "sanitized-part") if quick else ()
    label = f"{stage.label}-{turn(stage)}" if stage.turns and not full else stage.label
    return [e for e in entries if label in e["labels"] and not set(without) & set(e["labels"])]


def turn(stage):
    """The part of a stage that a default run has."""
    return stage.turns[covers.seed() % len(stage.turns)]


def of_ctest(stage, known, full, quick):
    """Tasks for the tests of a stage; fails if it has none, or one is not built."""
    found = chosen(stage, ctest_entries(stage.tree), full, quick)
    if not found and stage.turns and turn(stage) == stage.folders_of:
        return  # that part is of pytest alone
    if not found:
        sys.exit(f"pool: ctest knows no test of the stage {stage.name} in build/{stage.tree}")
    for entry in found:
        wall, cpu = known.of(stage.name, entry["name"])
        if not entry["command"] or not os.access(entry["command"][0], os.X_OK):
            sys.exit(f"pool: {entry['name']} is not built in build/{stage.tree}")
        environment = dict(stage.environment, **entry["environment"])
        if full and "EPIC_SEEDS" in environment:
            environment["EPIC_SEEDS"] = "/1"
        elif stage.label.startswith("sanitized"):
            environment |= _sanitized(entry)
        yield Task(stage.name, entry["name"], ("env", "-C", entry["folder"], *entry["command"]), environment, wall, cpu,
                   timeout_s=PATIENCE * float(entry["timeout"]))


def _sanitized(entry):
    """What a test's environment has under the sanitizers. Which of its cases run there follows from the commit, as covers do."""
    if "sanitized-part" not in entry["labels"]:
        return {}
    return {"GTEST_TOTAL_SHARDS": str(SANITIZED_PARTS), "GTEST_SHARD_INDEX": str(covers.seed() % SANITIZED_PARTS)}


def of_stages(names, known, args):
    """The tasks of all these stages, and those of them that a change does not touch. `args`: the pool's."""
    found = []
    for name in names:
        stage = stages.ALL[name]
        if stage.folders and (args.full or not stage.turns or stage.folders_of == turn(stage)):
            found += of_pytest(stage, known, args.full, args.keep_going)
        if stage.label:
            found += of_ctest(stage, known, args.full, args.quick)
    if not args.since:
        return found, []
    selection = since.Selection(args.since)
    wanted, others = [], []
    for task in found:
        stage = stages.ALL[task.stage]
        touched = selection.wants_file(stage, task.file) if task.pytest else selection.wants_program(stage.tree, task.argv)
        (wanted if touched else others).append(task)
    return wanted, others
