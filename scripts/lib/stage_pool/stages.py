"""The stages that run tests, as data: what scripts/test runs of ctest and of pytest, and in which build tree.

Each test of ctest and each file of pytest belongs to one stage of a default run (tests/style/stages_test.py).
"""
import pathlib
import re
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Stage(typing.NamedTuple):
    """`folders` and `marks` are of pytest; `label` and `without`, labels that leave a test out, of ctest."""
    name: str
    folders: tuple = ()
    marks: str = ""
    label: str = ""
    without: tuple = ()  # in a default run; --full has them all
    tree: str = "release"
    environment: dict = {}
    turns: tuple = ()  # parts of which a default run has one, that follows from the commit; of ctest by the label LABEL-PART
    folders_of: str = ""  # the part that `folders` belong to


# Stages on test beds: one pool.
BEDS = (
    Stage("netns", folders=("tests/netns",)),
    Stage("testbed", folders=("tests/testbed", "tests/wire", "tests/epic_run")),
    Stage("rxe-peer", folders=("tests/rxe_peer",)),
    Stage("softnic", folders=("tests/softnic",)),
    Stage("mpi", folders=("tests/mpi",)),
    Stage("end-to-end", folders=("tests/e2e",), marks="not endings"),
    Stage("endings", folders=("tests/e2e",), marks="endings"),
)
# What has both processors busy by itself.
OTHERS = (
    Stage("unit", label="unit", without=("slow", "sanitized-only"), environment={"EPIC_SEEDS": "/2"}),
    Stage("canaries", label="canaries", turns=("first", "second", "third")),
    Stage("install-test", label="install"),
    Stage("sanitized", label="sanitized", tree="asan-ubsan", environment={"EPIC_SEEDS": "/8"}),
    Stage("sanitized-turn", label="sanitized-turn", tree="asan-ubsan", environment={"EPIC_SEEDS": "/8"},
          turns=("collectives", "explorer", "hosts", "peers", "shared", "world")),
    Stage("threaded", label="threaded", folders=("tests/softnic/test_verbs.py",), tree="tsan",
          environment={"EPIC_BUILD": "build/tsan"}, turns=("commlib", "softnic", "engine", "calls", "numbers"), folders_of="softnic"),
)
ALL = {stage.name: stage for stage in BEDS + OTHERS}


def test_files(stage):
    """The files of pytest of a stage, as paths within the tree."""
    found = []
    for folder in stage.folders:
        place = ROOT / folder
        found += [place] if place.is_file() else sorted(place.glob("test_*.py"))
    if stage.marks:
        found = [path for path in found if _may_have(path, stage.marks)]
    return [str(path.relative_to(ROOT)) for path in found]


def _may_have(path, marks):
    """Whether a file may have tests with these marks ("NAME", "not NAME"): told by its text, before pytest reads it."""
    text, name = path.read_text(encoding="utf-8"), marks.removeprefix("not ")
    whole = re.search(rf"^pytestmark = .*\bmark\.{name}\b", text, re.M)
    if marks.startswith("not "):
        return not whole
    return whole or re.search(rf"\bmark\.{name}\b", text)
