"""Every row of docs/HOST.md's table of errors has a test, and every end-to-end test that is named there exists."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST = (ROOT / "docs" / "HOST.md").read_text(encoding="utf-8")


def rows(heading):
    """The first cells of the table below a line."""
    table = HOST.partition(heading + "\n")[2].partition("|---")[2]
    return [line.split("|")[1].strip() for line in table.partition("\n\n")[0].splitlines()[1:]]


def test_every_error_has_a_test():
    errors = rows("| what happens | code | when |")
    assert len(errors) > 10
    assert errors == rows("| row | test |")


def test_every_named_test_exists():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", HOST)
    assert len(named) > 15
    files = {name: (ROOT / "tests" / "e2e" / name).read_text(encoding="utf-8") for name in {file for file, _ in named}}
    assert [f"{file}::{test}" for file, test in named if f"def {test}(" not in files[file]] == []
