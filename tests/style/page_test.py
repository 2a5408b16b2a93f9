"""What programs write into pages takes the place of what they wrote before, and of nothing else."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import page  # noqa: E402

PAGE = """# P

<!-- a: written by x --write-page -->

old

<!-- end of a -->

<!-- b: written by y -->

other

<!-- end of b -->
"""


def test_a_text_takes_the_place_of_the_one_before():
    once = page.put(PAGE, "a", "new \\1\n")
    assert once == PAGE.replace("old", "new \\1")
    assert page.put(once, "a", "new \\1\n") == once
    assert page.put(PAGE, "b", "new") == PAGE.replace("other", "new")


def test_a_page_without_a_place_for_it_is_an_error():
    with pytest.raises(ValueError, match="<!-- c: written by"):
        page.put(PAGE, "c", "new")
    with pytest.raises(ValueError, match="end of a"):
        page.put(PAGE.replace("<!-- end of a -->", ""), "a", "new")
