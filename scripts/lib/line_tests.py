"""Which tests execute which lines: build/mutants/lines.json, made by `scripts/mutate --coverage`.

{"FILE:LINE": ["TEST", ...]}, the cheapest test first. A unit is a file of pytest's, or a program of ctest's: what its daemons
write when they end is theirs together, and a daemon that a test kills writes nothing.
"""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "build/mutants/lines.json"


def load(file=FILE):
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def save(table, file=FILE):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def changed_lines(patch):
    """["FILE:LINE", ...] of a patch, as the unchanged files have them: those that it takes out, and the last before what it adds."""
    found, file, line = [], None, 0
    for text in patch.read_text(encoding="utf-8").splitlines():
        if text.startswith("--- a/"):
            file = text[6:].split("\t")[0]
        elif match := re.match(r"@@ -(\d+)", text):
            line = int(match[1])
        elif file is None or text.startswith("+++"):
            continue
        elif text.startswith("-"):
            found.append(f"{file}:{line}")
            line += 1
        elif text.startswith("+"):
            found.append(f"{file}:{line - 1}")
        elif text.startswith(" "):
            line += 1
    return list(dict.fromkeys(found))


def of_patch(patch, lines):
    """The tests that execute any of the lines, in the order of the first."""
    return list(dict.fromkeys(test for line in changed_lines(patch) for test in lines.get(line, [])))
