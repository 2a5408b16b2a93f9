"""Every test that docs/RULES.md names exists, in the file and the program that its head says."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import rules  # noqa: E402

TEXT = rules.PAGE.read_text(encoding="utf-8")


def names_in(file):
    """The tests of a file, as SUITE.TEST."""
    return {".".join(m) for m in re.findall(r"TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", file.read_text(encoding="utf-8"))}


def named():
    """The tests that the page names: suite and test."""
    return [(suite, test) for suite, test in re.findall(r"`(\w+)\.(\w+)`", TEXT) if test not in ("cc", "py", "md")]


def test_every_named_test_exists_where_the_table_says():
    assert len(named()) > 40
    assert {suite for suite, _ in named()} == set(rules.suites())
    for suite, (files, _) in rules.suites().items():
        in_files = [{t for t in names_in(ROOT / f) if t.startswith(f"{suite}.")} for f in files]
        assert all(in_files), f"{suite}: a file has none of it"
        tests = set().union(*in_files)
        assert [t for s, t in named() if s == suite and f"{s}.{t}" not in tests] == [], suite


def test_every_file_is_of_its_program():
    for suite, (files, program) in rules.suites().items():
        folder, name = program.rsplit("/", 1)
        cmake = "".join(f.read_text(encoding="utf-8")
                        for f in (ROOT / folder).iterdir() if f.name == "CMakeLists.txt" or f.suffix == ".cmake")
        sources = re.search(rf"epic_test\({name}\s([^)]*)\)", cmake)
        assert sources, f"{suite}: no program {program}"
        for file in files:
            assert file.removeprefix(f"{folder}/") in sources[1].split(), f"{suite}: {file} is not of {program}"
