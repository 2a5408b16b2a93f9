"""The covers of tests/covers.py: nothing that can be is missing, nothing that must not be is there, and they are small."""
import itertools
import pathlib
import shutil
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import covers  # noqa: E402

import conftest  # noqa: E402

SEEDS = range(20)
CALLS = {"way": [1, 2, 3, "hosts"], "type": list("abcdefghijkl") + ["byte"], "op": ["sum", "max", "band"], "place": [False, True]}


def bytes_have_no_operation(row):
    return row["type"] == "byte" and row["op"] != "sum" or row["op"] == "band" and row["type"] in "abcd"


def value_pairs(rows):
    return {pair for row in rows for pair in itertools.combinations([(axis, str(value)) for axis, value in row.items()], 2)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("excluded", [lambda row: False, bytes_have_no_operation], ids=["all", "excluded"])
def test_each_pair_that_is_allowed_is_there_and_no_other(excluded, seed):
    rows = covers.cover(CALLS, excluded, seed)
    assert value_pairs(rows) == value_pairs(covers.product(CALLS, excluded))
    assert not [row for row in rows if excluded(row)]
    assert len(rows) == len({str(row) for row in rows})


def test_three_axes_that_exclude_together_leave_the_pairs():
    axes = {name: [0, 1, 2] for name in "abc"}
    rows = covers.cover(axes, lambda row: sum(row.values()) == 6, 1)
    assert {"a": 2, "b": 2, "c": 2} not in rows and len(value_pairs(rows)) == 27


@pytest.mark.parametrize("axes, least", [(CALLS, 13 * 4), ({name: [0, 1] for name in "abcdefghij"}, 6),
                                         ({name: [0, 1, 2] for name in "abcd"}, 9), ({"a": [1, 2, 3]}, 3)])
def test_a_cover_is_near_the_smallest(axes, least):
    """None has fewer rows than the two largest axes have pairs, or than is known for axes of the same size."""
    for seed in SEEDS:
        assert least <= len(covers.cover(axes, seed=seed)) <= 1.6 * least + 2


def test_the_seed_gives_the_rows_and_another_gives_others():
    """Many seeds together have the whole product."""
    assert covers.cover(CALLS, seed=5) == covers.cover(CALLS, seed=5) != covers.cover(CALLS, seed=6)
    seen = {str(row) for seed in range(60) for row in covers.cover(CALLS, seed=seed)}
    assert len(seen) == len(covers.product(CALLS))


def test_values_that_cannot_be_keys_and_nothing_at_all():
    assert len(covers.cover({"a": [{"x": 1}, {"x": 2}], "b": [[1], [2]]}, seed=1)) == 4
    assert covers.cover({"a": [1], "b": [1]}, lambda row: True, 1) == []


def seed_in(folder, **environment):
    code = "import covers; print(covers.seed(), covers.replay())"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(folder), "GIT_CEILING_DIRECTORIES": str(folder.parent), **environment}).stdout


def test_the_seed_follows_from_the_commit_or_is_given(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(ROOT / "tests/covers.py", folder)
    without = seed_in(folder, PATH="/nowhere")
    assert without == seed_in(folder, PATH="/usr/bin:/bin") == "0 EPIC_COVER_SEED=0\n"  # no git, no repository
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    found = set()
    for message in "ab":
        for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", message]):
            subprocess.run([*git, *command], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
        told = subprocess.run([sys.executable, "-c", "import covers; print(covers.seed())"], cwd=folder, check=True, text=True,
                              capture_output=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder)}).stdout
        assert int(told) == int(head[:8], 16)
        found.add(told)
    assert len(found) == 2
    assert seed_in(folder, PATH="/usr/bin:/bin", EPIC_COVER_SEED="17") == "17 EPIC_COVER_SEED=17\n"


def test_pytest_says_what_a_cover_leaves_out_and_how_to_have_it_again(tmp_path):
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    shutil.copy(ROOT / "tests/covers.py", tmp_path)
    (tmp_path / "test_it.py").write_text("import covers\nROWS = covers.cover({'a': [1, 2], 'b': [1, 2], 'c': [1, 2]}, name='bed x')\n"
                                         "def test_it():\n    assert len(ROWS) == 4\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)], capture_output=True, text=True,
                          check=False, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "EPIC_COVER_SEED": "9"})
    assert "EPIC_COVER_SEED=9" in done.stdout.partition("collected")[0], done.stdout
    assert "bed x: " in done.stdout and " of 8; --full runs all" in done.stdout, done.stdout


def test_parameters_take_turns_and_each_has_one(monkeypatch):
    def item(number, marks):
        return types.SimpleNamespace(path=pathlib.Path("tests/e2e/test_a.py"), originalname="test_b", name=f"test_b[{number}]",
                                     get_closest_marker=marks.get)
    three = types.SimpleNamespace(args=(3,))
    items = [item(number, {"in_turn": three}) for number in range(7)] + [item("always", {})]
    runs = []
    for seed in range(3):
        monkeypatch.setattr(covers, "seed", lambda seed=seed: seed)
        left_out = [i.name for i in conftest.out_of_turn(items)]
        runs.append([i.name for i in items if i.name not in left_out])
    assert all("test_b[always]" in run for run in runs)
    assert sorted(name for run in runs for name in run if "always" not in name) == [f"test_b[{number}]" for number in range(7)]
