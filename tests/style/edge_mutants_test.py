"""Mutants at the edges are of what is shipped; and what any stage kills of them the default run kills."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import edge  # noqa: E402
import kills  # noqa: E402
import mutation  # noqa: E402
import stage_tests  # noqa: E402

MUTANTS = edge.mutants()
SHIPPED = {"base", "io", "softnic", "commlib", "mpi", "incengine", "incagent", "incmanager", "inchost", "roce", "scripts"}


@pytest.fixture(name="cases", scope="module")
def fixture_cases():
    return kills.load()


def test_there_are_enough_and_half_of_them_were_once_made():
    real = [mutant for mutant in MUTANTS if mutant.origin.startswith("commit ")]
    assert len(MUTANTS) >= 60 and len(real) >= 30


def test_every_mutant_is_of_what_is_shipped():
    for mutant in MUTANTS:
        for file in mutant.files:
            assert file.split("/")[0] in SHIPPED and not re.search(r"_test\.|_fuzz|_testing\.", file), f"{mutant.name}: {file}"


def test_every_commit_is_one():
    hashes = sorted({re.match(r"commit (\w+)", mutant.origin)[1] for mutant in MUTANTS if mutant.origin.startswith("commit ")})
    if not (ROOT / ".git").exists():
        pytest.skip("a tree without its history")
    kinds = subprocess.run(["git", "-C", ROOT, "cat-file", "--batch-check=%(objecttype)"], input="\n".join(hashes) + "\n",
                           capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(hashes, kinds)) == dict.fromkeys(hashes, "commit")


def test_every_likely_test_is_there():
    for mutant in MUTANTS:
        for test in mutant.likely:
            assert any(stage_tests.may_have(stage, test) for stage in stage_tests.STAGES), f"{mutant.name}: {test}"
            sources = kills.sources_of(test)
            assert sources and all(file.is_file() for file in sources), f"{mutant.name}: {test}"
            function = None if stage_tests.program_of(test) else stage_tests.function_of(test)
            assert function is None or f"def {function}(" in sources[0].read_text(encoding="utf-8"), f"{mutant.name}: {test}"


def test_what_a_stages_tests_start_is_built_where_they_judge():
    """Else nothing of the stage runs there, and no mutant is judged by it."""
    seen = 0
    for stage in stage_tests.STAGES:
        for file in {ROOT / path / "conftest.py" for path in stage.paths}:
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            wanted = re.findall(r'"\w+": "([\w-]+/[\w./-]+)"', text)
            seen += len(wanted)
            assert set(re.findall(r'"(\w+_fortran)": ', text)) <= set(stage.targets), "CMake compiles Fortran by commands of its own"
            missing = [target for target in wanted if not target.startswith(tuple(f"{start}/" for start in stage.starts))]
            assert not missing, f"{stage.name}: {missing}"
    assert seen > 20


def test_what_anything_kills_the_default_run_kills(cases):
    """Else: a test that does, or the test that does out of --full; then `scripts/mutate --stages default --only NAME`."""
    missed = {name: [f"{stage}: {test}" for stage, test in kills.killers(entry)] for name, entry in cases.items()
              if kills.killers(entry) and not any(kills.in_default_run(stage, test) for stage, test in kills.killers(entry))}
    assert missed == {}


def test_the_table_is_of_the_mutants_that_there_are(cases):
    """Else: `scripts/mutate --stages default`."""
    assert set(cases) <= {mutant.name for mutant in MUTANTS}
    changed = [mutant.name for mutant in MUTANTS if mutant.name in cases and cases[mutant.name]["edits"] != mutation.hash_of(mutant.edits)]
    assert changed == []
