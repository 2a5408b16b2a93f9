"""docs/TORCH.md says of torch's own tests what their list says, which scripts/torch-test holds against what they come to."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "torch"))
import suite_list  # noqa: E402

PAGE = (ROOT / "docs" / "TORCH.md").read_text(encoding="utf-8")


def test_the_page_has_the_numbers_of_the_list():
    for backend in ("epic", "gloo"):
        counted = suite_list.counted(suite_list.expected(backend).values())
        assert f": {counted}." in " ".join(PAGE.split()), counted


def test_the_page_has_what_is_left_out_with_its_reason():
    rows = re.findall(r"^\| (`test_.*?) \| (.*) \|$", PAGE, re.M)
    told = {name: why for names, why in rows for name in re.findall(r"`(test_\w+)`", names)}
    left_out = {test: outcome.removeprefix(suite_list.LEFT_OUT) for test, outcome in suite_list.expected("epic").items()
                if outcome.startswith(suite_list.LEFT_OUT)}
    assert told == left_out


def test_epic_comes_to_what_gloo_comes_to_but_for_what_is_left_out():
    by_gloo, by_epic = suite_list.expected("gloo"), suite_list.expected("epic")
    assert "failed" not in by_epic.values()
    assert all(by_epic[test] == outcome or by_epic[test].startswith(suite_list.LEFT_OUT) for test, outcome in by_gloo.items())


def test_a_line_of_the_list():
    assert suite_list.read("# a comment\n\ntest_a: passed\ntest_b: skipped: no: CUDA\ntest_c: passed | left out: why\n") == {
        "test_a": {"gloo": "passed", "epic": "passed"},
        "test_b": {"gloo": "skipped: no: CUDA", "epic": "skipped: no: CUDA"},
        "test_c": {"gloo": "passed", "epic": "left out: why"}}
    assert suite_list.counted(["passed", "skipped: x", "passed"]) == "of 3 tests 2 pass, 1 are skipped by torch itself"
