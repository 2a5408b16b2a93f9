"""Which tests execute which lines: build/mutants/lines.json, made by `scripts/mutate --coverage`.

{"FILE:LINE": ["TEST", ...]}, the cheapest test first. A unit is a file of pytest's, or a program of ctest's: what its daemons
write when they end is theirs together, and a daemon that a test kills writes nothing.
"""
import json
import pathlib

import mutation

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "build/mutants/lines.json"


def load(file=FILE):
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def save(table, file=FILE):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def of_edits(edits, lines):
    """The tests that execute any line that these change, in the order of the first."""
    return list(dict.fromkeys(test for line in mutation.changed_lines(edits, ROOT) for test in lines.get(line, [])))
