"""tests/mutants/edge: mistakes at the edges (verbs, ports, daemons, the host library, MPI, the test bed), which slow tests see.

Half of them were once made: the commit that mended them is taken back. The others are made by a rule. The head of each says
the mistake, from which commit or by which rule, where, and the tests that are likely to see it.
"""
import pathlib
import re
import typing

import patches

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/mutants/edge"
_ORIGIN = re.compile(r"commit [0-9a-f]{7,40}, .+|rule, .+")


class Mutant(typing.NamedTuple):
    name: str
    mistake: str
    origin: str                # "commit HASH, its subject" or "rule, which"
    likely: tuple[str, ...]    # tests, as scripts/lib/stage_tests.py names them
    files: tuple[str, ...]
    patch: pathlib.Path


def mutant_of(patch):
    """The patch's head, as a mutant."""
    keys = ("Mistake", "From", "Where", "Likely")
    head = patches.head_of(patch, keys)
    if missing := [key for key in keys if key not in head]:
        raise patches.Wrong(f"{patch.name}: its head lacks {', '.join(missing)}")
    files = tuple(patches.files_of(patch))
    if not _ORIGIN.fullmatch(head["From"][0]):
        raise patches.Wrong(f"{patch.name}: 'From: {head['From'][0]}' is neither a commit and its subject nor a rule")
    if tuple(head["Where"][0].split(", ")) != files:
        raise patches.Wrong(f"{patch.name}: it changes {', '.join(files)}, and says {head['Where'][0]}")
    return Mutant(patch.stem, head["Mistake"][0], head["From"][0], tuple(head["Likely"]), files, patch)


def mutants():
    """All of them, by name."""
    return [mutant_of(patch) for patch in sorted(FOLDER.glob("*.patch"))]
