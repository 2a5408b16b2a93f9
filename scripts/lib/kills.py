"""tests/kills.json: which test of which stage killed which mutant at the edges, and what that was judged by.

{"MUTANT": {"edits": ..., "files": ..., "stages": {"STAGE": {"test": ..., "how": ..., "by": ...}}}}: hashes of the edits, of the
files that it changes and of the test's own file. A stage without "test" has none that kills it, of those that were "tried".
"""
import ast
import hashlib
import json
import pathlib
import re

import mutation
import stage_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "tests/kills.json"


def hash_of(*files):
    """Of what is in them, short; one that is not there counts as empty."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()[:12]


def sources_of(test, root=ROOT):
    """The files that a test is, as far as they are its alone: of a program the sources that CMake names."""
    program = stage_tests.program_of(test)
    if program is None:
        return [root / stage_tests.file_of(test)]
    folders = ("*/CMakeLists.txt", "*/*.cmake", "tests/*/CMakeLists.txt")
    for lists in sorted(file for folder in folders for file in root.glob(folder) if "build" not in file.relative_to(root).parts):
        text = lists.read_text(encoding="utf-8")
        found = re.search(rf"epic_test\({program}\b(.*?)\)", text, re.S)
        if found:
            return sorted({lists.parent / name for name in re.findall(r"[\w/]+\.cc", found[1])})
        if lists.parent.name == "softnic" and program.startswith("comm_") and program in text:
            return [lists.parent / f"{program}.cc"]
    return []


def load(file=FILE):
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def save(table, file=FILE):
    """Sorted, a stage in a line, so that two runs that find the same write the same."""
    lines = []
    for name, entry in sorted(table.items()):
        stages = ",\n".join(f"   {json.dumps(stage)}: {json.dumps(found, sort_keys=True)}"
                            for stage, found in sorted(entry["stages"].items()))
        head = {key: value for key, value in entry.items() if key != "stages"}
        lines.append(f" {json.dumps(name)}: {json.dumps(head)[:-1]}, \"stages\": {{\n{stages}}}}}")
    new = file.with_suffix(".json.new")
    new.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    new.replace(file)


def entry_of(mutant, table):
    """The mutant's entry, a new one, which is not in the table yet, if it or its file is another than was judged."""
    now = {"edits": mutation.hash_of(mutant.edits), "files": hash_of(*(ROOT / file for file in mutant.files))}
    entry = table.get(mutant.name)
    if entry is None or {key: entry.get(key) for key in now} != now:
        return {**now, "stages": {}}
    return entry


def is_judged(found, candidates):
    """Whether what was found of a stage still holds: by its killer, or by all that were tried in vain."""
    if found is None:
        return False
    if found.get("test"):
        return found["by"] == hash_of(*sources_of(found["test"]))
    return found["by"] == hash_of(*(file for test in candidates for file in sources_of(test))) and \
        set(candidates) <= set(found["tried"])


def killers(entry):
    """[(stage, test), ...] of an entry."""
    return [(stage, found["test"]) for stage, found in entry["stages"].items() if found.get("test")]


def killed_by_alone(table, stage):
    """The mutants that this stage kills and no other that was tried."""
    return sorted(name for name, entry in table.items() if [where for where, _ in killers(entry)] == [stage])


def _is_slow(node):
    return any("mark.slow" in ast.unparse(decorator) for decorator in node.decorator_list)


def in_default_run(stage, test, root=ROOT):
    """Whether the default run has the test, as its file says today."""
    if stage not in stage_tests.BY_NAME:
        return False
    if stage_tests.program_of(test):
        return bool(sources_of(test, root))
    file = root / stage_tests.file_of(test)
    if not file.exists():
        return False
    module = ast.parse(file.read_text(encoding="utf-8"))
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark" and "mark.slow" in ast.unparse(node.value):
            return False
    return any(isinstance(node, ast.FunctionDef) and node.name == stage_tests.function_of(test) and not _is_slow(node)
               for node in module.body)
