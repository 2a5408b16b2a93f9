"""Edits of mutants are found where they were meant to be, whatever is around, and refused where that cannot be told."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import mutation  # noqa: E402

CODE = """#include "a.h"

constexpr int kMost = 4;

// Says whether
// there is room.
bool HasRoom(const Slots& slots,
             int more) {
  if (slots.empty()) return true;
#ifdef DEEP
  Check(slots);
#endif

  return slots.size() + more <= kMost;
}

void Take(Slots& slots) {
  if (HasRoom(slots, 1)) {
    slots.push_back(1);
  }
  return Done(slots);
}

struct Pipe {
  bool HasRoom() const {
    return true;
  }
};
"""
PYTHON = """def first(one,
          two):
    return one

class Bed:
    def first(self):
        return self.one

    def second(self):
        return self.one
"""


def edit(lines, within=None, file="a.cc"):
    entry = {"file": file, "lines": lines} | ({"in": within} if within else {})
    return mutation.edits_of("m", {"edits": [entry]})


def mutated(edits, text=CODE):
    return mutation.changed(edits, lambda _: text)["a.cc"]


def test_a_line_becomes_another():
    new = mutated(edit("- return slots.size() + more <= kMost;\n+ return true;\n", "HasRoom"))
    assert new == CODE.replace("  return slots.size() + more <= kMost;\n", "  return true;\n")


def test_what_comes_is_indented_as_what_is_there():
    new = mutated(edit("= slots.push_back(1);\n+ if (slots.empty()) {\n+   return;\n+ }\n+\n", "Take"))
    assert new == CODE.replace("    slots.push_back(1);\n", "    slots.push_back(1);\n    if (slots.empty()) {\n      return;\n    }\n\n")


def test_several_lines_go_with_what_is_indented_more():
    new = mutated(edit("- if (HasRoom(slots, 1)) {\n-   slots.push_back(1);\n- }\n+ slots.push_back(1);\n", "Take"))
    assert new == CODE.replace("  if (HasRoom(slots, 1)) {\n    slots.push_back(1);\n  }\n", "  slots.push_back(1);\n")


@pytest.mark.parametrize("around", [
    lambda text: text.replace("  if (slots.empty()) return true;\n", "  // Why.\n  const int n = 1;\n"),
    lambda text: "namespace {\n  " + text.replace("\n", "\n  ").rstrip(" ") + "}\n",
    lambda text: "int before;\n" * 99 + text,
    lambda text: text[text.index("struct Pipe"):] + text[:text.index("struct Pipe")],
    lambda text: text + "bool Other(int more) {\n  return slots.size() + more <= kMost;\n}\n",
], ids=["other lines", "indented", "moved", "in another order", "the same elsewhere"])
def test_what_is_around_may_change(around):
    text = around(CODE)
    edits = edit("- return slots.size() + more <= kMost;\n+ return true;\n", "HasRoom")
    assert mutated(edits, text) == text.replace("return slots.size() + more <= kMost;", "return true;", 1)


@pytest.mark.parametrize("lines, within, why", [
    ("- return slots.size() <= kMost;\n", "HasRoom", "a.cc, HasRoom has not, in a row"),
    ("- return slots.size() + more <= kMost;\n", "Take", "a.cc, Take has not"),
    ("- return slots.size() + more <= kMost;\n", "NoRoom", "a.cc has no NoRoom"),
    ("- if (slots.empty())\n", None, "a.cc has not"),
    ("- }\n", None, "a.cc has 4 times"),
    ("- if (HasRoom(slots, 1)) {\n- slots.push_back(1);\n", "Take", "a.cc, Take has not"),
    ("= slots.push_back(1);\n- return Done(slots);\n", "Take", "a.cc, Take has not"),
], ids=["another line", "of another function", "no such function", "part of a line", "four times", "indented otherwise", "not in a row"])
def test_refused_is(lines, within, why):
    with pytest.raises(mutation.Wrong, match=why):
        mutated(edit(lines, within))


@pytest.mark.parametrize("lines", ["return true;\n", "+ return true;\n", "= return true;\n", "-return true;\n", "", "-\n"])
def test_an_edit_has_a_line_that_is_there_and_changes_something(lines):
    with pytest.raises(mutation.Wrong):
        edit(lines, "Take")


def test_a_definition_is_what_its_indentation_shows():
    lines = CODE.split("\n")
    ranges = {name: [lines[first].strip() + " … " + lines[end - 1].strip() for first, end in mutation.definitions(lines, name)]
              for name in ("HasRoom", "Pipe", "kMost", "Check")}
    assert ranges == {"HasRoom": ["bool HasRoom(const Slots& slots, … }", "bool HasRoom() const { … }"], "Pipe": ["struct Pipe { … };"],
                      "kMost": ["constexpr int kMost = 4; … constexpr int kMost = 4;"], "Check": []}


def test_of_python_indentation_is_all_there_is():
    new = mutated(edit("- return self.one\n+ return None\n", "first"), PYTHON)
    assert new == PYTHON.replace("self.one", "None", 1)
    assert mutated(edit("- return one\n+ return two\n", "first"), PYTHON) == PYTHON.replace("return one", "return two")


def test_edits_of_a_file_are_made_together_and_not_of_one_line():
    one, two = edit("- slots.push_back(1);\n+ a;\n", "Take"), edit("- constexpr int kMost = 4;\n+ constexpr int kMost = 5;\n")
    assert mutated(one + two) == mutated(two, mutated(one)) == mutated(one, mutated(two))
    with pytest.raises(mutation.Wrong, match="two edits of the same line"):
        mutated(one + one)


def test_what_does_not_fit_is_named_and_changes_nothing(tmp_path):
    (tmp_path / "a.cc").write_text(CODE)
    fits, does_not = edit("- slots.push_back(1);\n", "Take"), edit("- slots.clear();\n", "Take")
    assert "a.cc, Take has not" in mutation.apply(fits + does_not, tmp_path)
    assert (tmp_path / "a.cc").read_text() == CODE
    assert mutation.apply(fits, tmp_path) is None
    assert (tmp_path / "a.cc").read_text() == mutated(fits)


def test_lines_that_change_are_those_of_the_tree(tmp_path):
    (tmp_path / "a.cc").write_text(CODE)
    line = CODE.split("\n").index("    slots.push_back(1);") + 1
    assert mutation.changed_lines(edit("= slots.push_back(1);\n+ a;\n", "Take"), tmp_path) == [f"a.cc:{line}"]
    assert mutation.changed_lines(edit("-   slots.push_back(1);\n- }\n+ a;\n", "Take"), tmp_path) == [f"a.cc:{line}", f"a.cc:{line + 1}"]


def test_no_name_is_given_twice(tmp_path):
    (tmp_path / "edge").mkdir()
    (tmp_path / "edge/a.yaml").write_text("x:\n  mistake: a\n\ny:\n  mistake: a\n")
    (tmp_path / "edge/b.yaml").write_text("z:\n  mistake: a\n")
    assert list(mutation.entries("edge", tmp_path)) == ["x", "y", "z"]
    (tmp_path / "edge/b.yaml").write_text("z:\n  mistake: a\nx:\n  mistake: a\n")
    with pytest.raises(mutation.Wrong, match="two of x"):
        mutation.entries("edge", tmp_path)
    (tmp_path / "edge/b.yaml").write_text("z:\n  mistake: a\nz:\n  mistake: a\n")
    with pytest.raises(mutation.Wrong, match="two of z"):
        mutation.entries("edge", tmp_path)


def test_what_nobody_reads_is_refused():
    with pytest.raises(mutation.Wrong, match="nobody reads wihtin"):
        mutation.edits_of("m", {"edits": [{"file": "a.cc", "wihtin": "Take", "lines": "- a\n"}]})
    with pytest.raises(mutation.Wrong, match="lacks lines"):
        mutation.edits_of("m", {"edits": [{"file": "a.cc"}]})
