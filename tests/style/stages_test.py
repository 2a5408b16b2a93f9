"""Each test belongs to one stage: what ctest knows of the release tree, and every file of pytest."""
import pathlib
import re
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/lib"))
from stage_pool import pool, since, stages, tasks  # noqa: E402  pylint: disable=wrong-import-position

# What ctest runs itself, as parts of its tests `layers_test` and `comparison_test`; and what no default run installs.
NOT_OF_THE_POOL = ("tests/style", "tests/torch")


def stages_of_entry(entry):
    """The stages of a default run that run a test of ctest, by its labels, and those of --full."""
    of_ctest = [stage for stage in stages.ALL.values() if stage.label]
    return ([stage.name for stage in of_ctest if stage.label in entry["labels"] and not set(stage.without) & set(entry["labels"])],
            [stage.name for stage in of_ctest if stage.label in entry["labels"]])


def wrong_entries(found):
    """Names of tests that no stage runs, and of those that two stages run."""
    none = [entry["name"] for entry in found if not stages_of_entry(entry)[1]]
    # Under a sanitizer a test shows something else than without it: of those that share memory between threads, and of those
    # that compute so much that they have only some of their seeds there (CMake's OPTIMISED) or are there in turn. The others are
    # `sanitized-only`.
    twice = [entry["name"] for entry in found
             if len(set(stages_of_entry(entry)[0]) - {"threaded", "sanitized", "sanitized-turn"}) > 1]
    return none, twice


def entries():
    """Of a tree without sanitizers; any preset has the same tests."""
    for tree in ("release", "dev"):
        if (ROOT / "build" / tree / "CTestTestfile.cmake").exists():
            return tasks.ctest_entries(tree)
    return pytest.fail("no tree is configured: cmake --preset release")


def test_every_test_of_ctest_is_run_by_one_stage():
    none, twice = wrong_entries(entries())
    assert not [f"no stage runs {name}" for name in none] + [f"two stages run {name}" for name in twice]


def test_a_test_that_no_stage_runs_or_two_run_is_named():
    entry = {"name": "a_test", "labels": ["integration"]}
    assert wrong_entries([entry]) == (["a_test"], [])
    assert wrong_entries([entry | {"labels": ["unit", "install"]}]) == ([], ["a_test"])
    assert wrong_entries([entry | {"labels": ["unit", "threaded"]}]) == ([], [])
    assert wrong_entries([entry | {"labels": ["unit", "sanitized"]}]) == ([], [])
    assert stages_of_entry(entry | {"labels": ["unit", "sanitized", "sanitized-only"]})[0] == ["sanitized"]


@pytest.mark.parametrize("name", ("threaded", "sanitized-turn", "canaries"))
def test_of_a_stage_with_turns_each_commit_has_one_and_all_of_them_have_everything(monkeypatch, name):
    stage = stages.ALL[name]
    everything = {entry["name"] for entry in tasks.chosen(stage, entries(), full=True) if "slow" not in entry["labels"]}
    seen = []
    for seed in range(len(stage.turns)):
        monkeypatch.setattr(tasks.covers, "seed", lambda seed=seed: seed)
        seen += [entry["name"] for entry in tasks.chosen(stage, entries(), full=False)]
    assert sorted(seen) == sorted(everything) and seen, "a test is in no turn, or in two"
    if not stage.folders:
        return
    assert stage.folders_of in stage.turns
    monkeypatch.setattr(tasks.covers, "seed", lambda: stage.turns.index(stage.folders_of))
    known = entries()
    monkeypatch.setattr(tasks, "ctest_entries", lambda tree: known)
    assert list(tasks.of_ctest(stage, tasks.Known({}), full=False, quick=False)) == [], "its tests are of pytest alone"


def test_every_file_of_pytest_is_of_one_stage():
    known = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "tests/**/test_*.py", "tests/test_*.py"],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    of_stages = [file for stage in stages.BEDS for file in stages.test_files(stage)]
    for file in known:
        if file.startswith(NOT_OF_THE_POOL):
            continue
        # A file has tests of two stages where these have marks that exclude each other.
        run_by = [stage for stage in stages.BEDS if file in stages.test_files(stage)]
        assert run_by, f"no stage runs {file}"
        folders = {stage.folders for stage in run_by}
        assert len(folders) == 1 and len({stage.marks for stage in run_by}) == len(run_by), f"two stages run {file}"
    assert set(of_stages) <= set(known)


def test_what_looks_like_a_test_is_one():
    """A function of a file that pytest does not read, or a source that no program has, would never run."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*_test.cc", "*CMakeLists.txt", "*.cmake"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in listed if (ROOT / name).exists()}
    of_stages = {file for stage in stages.BEDS for file in stages.test_files(stage)}
    assert not unread_tests(texts, of_stages), "no stage runs these"
    assert not uncompiled_tests(texts), "no stage runs these"


def test_a_file_with_tests_that_nobody_reads_or_compiles_is_named():
    texts = {"tests/e2e/test_a.py": "def test_a():\n", "tests/e2e/a_test.py": "def test_a():\n", "tests/e2e/help.py": "def tested():\n",
             "tests/style/a_test.py": "def test_a():\n", "tests/style/a.py": "def test_a():\n",
             "io/CMakeLists.txt": "epic_test(a SOURCES a_test.cc deep/b_test.cc)", "io/a_test.cc": "", "io/deep/b_test.cc": "", "io/c_test.cc": ""}
    assert unread_tests(texts, {"tests/e2e/test_a.py"}) == ["tests/e2e/a_test.py", "tests/style/a.py"]
    assert uncompiled_tests(texts) == ["io/c_test.cc"]


def unread_tests(texts, of_stages):
    """Files of Python with tests that no stage has, nor ctest, which runs tests/style/*_test.py."""
    return [name for name, text in texts.items() if name.endswith(".py") and re.search(r"^def test_|^class Test", text, re.M)
            and name not in of_stages and not name.startswith(("tests/torch/", "scripts/", "bench/", "examples/"))
            and not name.endswith("conftest.py") and not (name.startswith("tests/style/") and name.endswith("_test.py"))]


def uncompiled_tests(texts):
    """Sources that are named as tests and that no CMakeLists.txt names."""
    named = set()
    for name, text in texts.items():
        if not name.endswith((".py", ".cc")):
            folder = pathlib.PurePath(name).parent
            named |= {str(folder / word) for word in re.findall(r"[\w./-]+_test\.cc", text)}
    return [name for name in texts if name.endswith("_test.cc") and name not in named]


def test_no_file_of_pytest_is_a_test_of_ctest_too():
    commands = [" ".join(entry["command"] or []) for entry in entries()]
    for folder in {folder for stage in stages.BEDS for folder in stage.folders}:
        twice = [command for command in commands if f"{ROOT / folder}" in command]
        assert not twice, f"ctest runs what is of a stage's folder {folder}: {twice[0]}"


def test_marks_decide_between_the_stages_of_a_folder(tmp_path):
    file = tmp_path / "test_x.py"
    for text, of_endings, of_others in (("pytestmark = pytest.mark.endings\n", True, False), ("def test_a(): pass\n", False, True),
                                        ("@pytest.mark.endings\ndef test_a(): pass\n", True, True)):
        file.write_text(text)
        may_have = stages._may_have  # pylint: disable=protected-access
        assert (bool(may_have(file, "endings")), bool(may_have(file, "not endings"))) == (of_endings, of_others), text


def test_what_ninja_tells_of_dependencies_is_read():
    text = "a.o: #deps 2, deps mtime 1 (VALID)\n    ../../a.cc\n    ../../a.h\n\nb.o: #deps 1, deps mtime 1 (VALID)\n    ../../b.cc\n\n"
    assert since.parse_deps(text) == {"a.o": ["../../a.cc", "../../a.h"], "b.o": ["../../b.cc"]}


def a_selection(changed, touched=()):
    """Of a change of these files, where these targets are touched."""
    selection = since.Selection.__new__(since.Selection)
    selection.changed, selection.everything = changed, any(since.begins(path, since.OF_ALL) for path in changed)
    selection.tree = lambda _: types.SimpleNamespace(touched=lambda target: target in touched)
    return selection


def test_a_file_runs_by_what_it_reads_and_starts():
    softnic, mpi = stages.ALL["softnic"], stages.ALL["mpi"]
    assert a_selection(["tests/softnic/pair.py"]).wants_file(softnic, "tests/softnic/test_uc.py")
    assert a_selection(["tests/softnic/test_uc.py"]).wants_file(softnic, "tests/softnic/test_uc.py")
    assert not a_selection(["tests/softnic/test_uc.py"]).wants_file(softnic, "tests/softnic/test_abi.py")
    assert not a_selection(["tests/softnic/pair.py"]).wants_file(mpi, "tests/mpi/test_ends.py")
    assert a_selection(["incengine/x.cc"], ["incengine"]).wants_file(mpi, "tests/mpi/test_ends.py")
    assert a_selection(["scripts/test"]).wants_file(mpi, "tests/mpi/test_ends.py")


def test_a_program_runs_when_its_inputs_differ():
    program = str(ROOT / "build/release/base/base_test")
    assert a_selection(["base/x.h"], ["base/base_test"]).wants_program("release", [program])
    assert not a_selection(["base/x.h"]).wants_program("release", [program])
    assert a_selection(["README.md"]).wants_program("release", ["python3", "x"]), "what cannot be told runs"


def test_every_stage_with_files_says_what_they_read_and_start():
    of_pytest = {stage.name for stage in stages.ALL.values() if stage.folders}
    assert set(since.READS) == set(since.STARTS) == of_pytest


def test_what_runs_alone_runs_first_and_beside_nothing():
    def task(name, wall, alone=False):
        return tasks.Task("end-to-end", name, (), {}, wall, wall / 10, alone=alone)

    beds = pool.Pool([task("long", 40.0), task("short", 2.0), task("measured", 20.0, alone=True)], 4, False)
    first = beds.next()
    assert first.name == "measured"
    beds.waiting.remove(first)
    beds.running.append(types.SimpleNamespace(task=first))
    assert beds.next() is None
    beds.running.clear()
    assert beds.next().name == "long"
