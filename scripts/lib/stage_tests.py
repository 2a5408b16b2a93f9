"""The stages of scripts/test whose tests can be run one by one: what pytest and ctest take for each.

A test is named as its runner names it: tests/e2e/test_loss.py::test_bursts, or "ctest engine_test". What is marked slow runs
with --full only; all else is of the default run.
"""
import re
import typing

from stage_pool import stages


class Stage(typing.NamedTuple):
    name: str
    paths: tuple[str, ...] = ()  # of pytest
    marks: str = ""              # what pytest's -m gets
    label: str = ""              # of ctest
    starts: tuple[str, ...] = ()  # folders of the build tree whose programs and libraries pytest's tests start
    targets: tuple[str, ...] = ()  # and what of that is no program of CMake's


_BED = ("incengine", "incagent", "incmanager", "softnic/lib", "tests/engines")
_RANKS = (*_BED, "inchost", "commlib", "bench", "check/conform", "tests/e2e")
_STARTS = {"netns": ("incengine",), "testbed": _BED, "rxe-peer": ("tests/rxe_peer",), "softnic": ("softnic/lib", "tests/softnic"),
           "mpi": (*_BED, "commlib", "mpi", "tests/mpi", "tests/e2e"), "endings": _RANKS, "end-to-end": _RANKS}
_TARGETS = {"mpi": ("mpi_fortran", "mpich_fortran")}
STAGES = tuple(Stage(stage.name, stage.folders, stage.marks, stage.label, _STARTS.get(stage.name, ()), _TARGETS.get(stage.name, ()))
               for stage in (stages.ALL["unit"], *stages.BEDS))
BY_NAME = {stage.name: stage for stage in STAGES}
CTEST = "ctest "


def program_of(test):
    """The program of ctest's that a test is, or None."""
    return test.removeprefix(CTEST) if test.startswith(CTEST) else None


def file_of(test):
    """The file of pytest's that has a test."""
    return test.split("::")[0]


def function_of(test):
    """The function that a test of pytest's is, without its parameters; None of a whole file."""
    found = re.match(r"[^:]+::(\w+)", test)
    return found[1] if found else None


def may_have(stage, test):
    """Whether a test may be the stage's. Of endings and end-to-end both: pytest picks by the mark."""
    if program_of(test):
        return bool(stage.label)
    return any(file_of(test).startswith(path + "/") for path in stage.paths)


def chosen(words):
    """The stages that "default", "full" or names mean."""
    if "full" in words:
        return list(STAGES)
    wanted = [stage for stage in STAGES if stage.name in words or "default" in words]
    if unknown := set(words) - set(BY_NAME) - {"default", "full"}:
        raise ValueError(f"{', '.join(sorted(unknown))}: the stages are {', '.join(BY_NAME)}, or default, or full")
    return wanted
