"""What programs write into pages takes the place of what they wrote before, and of nothing else; the README's plot is that of today's
tables. docs/PERFORMANCE.md is short, and names each file of bench/results, which begins with its command."""
import importlib.machinery
import importlib.util
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "bench" / "results").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *RESULTS]
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


def test_marks_name_the_command_that_fills_them():
    found = 0
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for name, command in re.findall(r"<!-- ([\w-]+): written by ([^>]*) -->", text):
            found += 1
            page.put(text, name, "")  # its end is there
            assert (ROOT / command.split()[0]).is_file(), f"{path.name}, {name}: no such program"
            into = re.search(r"--write-page ([\w-]+)", command)
            assert into is None or into[1] == name, f"{path.name}, {name}: '{command}' writes to {into[1]}"
            assert path not in RESULTS or path == page.results(name), f"{path.name}, {name}: {page.results(name).name} is its file"
    assert found > 0


def test_the_readmes_plot_is_drawn_from_the_tables():
    path = str(ROOT / "bench" / "allreduce-plot")
    loader = importlib.machinery.SourceFileLoader("allreduce_plot", path)
    plot = importlib.util.module_from_spec(importlib.util.spec_from_loader("allreduce_plot", loader))
    loader.exec_module(plot)
    drawn = plot.svg()
    assert plot.PLOT.read_text(encoding="utf-8") == drawn, "call bench/allreduce-plot"
    assert drawn.count("<rect") > 2 * 5 and "docs/mpi-allreduce.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_results_begin_with_the_command_that_makes_them_again():
    for path in RESULTS:
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        command = re.fullmatch(r"Command: `([^`]+)`(;.*)?", first)
        assert command, f"{path.name}: its first line is no command"
        programs = re.findall(r"(?:bench|scripts|tests|build/release)/\S+", command[1])
        assert programs, f"{path.name}: '{command[1]}' names no program of this tree"
        missing = [program for program in programs if not program.startswith("build/") and not (ROOT / program).is_file()]
        assert missing == [], f"{path.name}: there is no {missing}"
    assert len(RESULTS) > 20


def test_the_page_of_figures_is_short_and_names_all_results():
    text = (ROOT / "docs" / "PERFORMANCE.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 300, "tables belong into bench/results"
    unnamed = [path.name for path in RESULTS if f"(../bench/results/{path.name})" not in text]
    assert unnamed == []
