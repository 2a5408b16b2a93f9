"""tests/mutants/edge: mistakes at the edges (verbs, ports, daemons, the host library, MPI, the test bed), which slow tests see.

Half of them were once made: the commit that mended them is taken back. The others are made by a rule. The entry of each says the
mistake, from which commit or by which rule (`from`), and the tests that are likely to see it.
"""
import re
import typing

import mutation

_ORIGIN = re.compile(r"commit [0-9a-f]{7,40}, .+|rule, .+")


class Mutant(typing.NamedTuple):
    name: str
    mistake: str
    origin: str                # "commit HASH, its subject" or "rule, which"
    likely: tuple[str, ...]    # tests, as scripts/lib/stage_tests.py names them
    edits: tuple[mutation.Edit, ...]

    @property
    def files(self):
        return mutation.files_of(self.edits)


def mutant_of(name, entry):
    """The entry, as a mutant."""
    mutation.check_keys(name, entry, ("mistake", "from", "likely", "edits"))
    if not _ORIGIN.fullmatch(entry["from"]):
        raise mutation.Wrong(f"{name}: 'from: {entry['from']}' is neither a commit and its subject nor a rule")
    return Mutant(name, entry["mistake"], entry["from"], tuple(entry["likely"]), mutation.edits_of(name, entry))


def mutants():
    """All of them, by name."""
    return sorted(mutant_of(name, entry) for name, entry in mutation.entries("edge").items())
