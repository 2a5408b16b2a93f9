"""What scripts/instructions lets pass, and that every figure committed is of a case that it counts."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import instruction_counts  # noqa: E402

COMMITTED = {"a": 1000, "b": 2000}


def test_three_percent_either_way_are_as_committed():
    assert instruction_counts.wrong({"a": 1030, "b": 1940}, COMMITTED) == []
    assert instruction_counts.wrong({"a": 1031, "b": 2000}, COMMITTED) == ["a"]
    assert instruction_counts.wrong({"a": 1000, "b": 1939}, COMMITTED) == ["b"], "what became faster is committed, too"


def test_a_case_that_only_one_side_knows_is_wrong():
    assert instruction_counts.wrong({"a": 1000}, COMMITTED) == ["b"]
    assert instruction_counts.wrong({"a": 1000, "b": 2000, "c": 1}, COMMITTED) == ["c"]


def test_the_table_says_what_changed():
    lines = instruction_counts.table({"a": 1100, "c": 5}, COMMITTED).splitlines()
    assert lines[1].split() == ["a", "1,100", "1,000", "+10.0", "%"]
    assert lines[2].split() == ["c", "5", "0", "new"]


def test_the_committed_figures_are_those_of_the_cases():
    listed = subprocess.run([ROOT / "scripts/instructions", "--list"], capture_output=True, text=True, check=True).stdout
    committed = json.loads((ROOT / "bench/instructions.json").read_text(encoding="utf-8"))
    assert listed.splitlines() == list(committed)
