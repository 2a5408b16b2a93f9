#!/usr/bin/python3
"""since.py REF TREE TARGET...: exit status 0 if one of these targets has an input that differs from REF, 1 if none has.

As a module: which tests a change can matter to: by ninja's log of dependencies for what is compiled, by a table of folders for Python.

Asked of a tree that has been built as it is now. What cannot be told from these runs.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True

from stage_pool import stages  # noqa: E402  pylint: disable=wrong-import-position

# What any test may depend on: how things are built and how tests are run.
OF_ALL = ("CMakeLists.txt", "CMakePresets.json", "cmake/", "scripts/test", "scripts/lib/stage_pool/", "scripts/install-deps")
# Of a stage's tests of pytest: the files and folders that they read, and the targets that they start.
DAEMONS = ("incengine", "incagent", "incmanager", "inchost", "epic_softnic")
BED = ("scripts/lib/epic_testbed/", "scripts/testbed", "scripts/lib/epic_ranks.py", "scripts/lib/guest", "scripts/guest-kernel",
       "scripts/epic-run", "scripts/lib/epic_run/", "topologies/", "tests/conftest.py", "tests/wire/")
READS = {
    "netns": ("tests/netns/", "scripts/lib/epic_testbed/", "tests/conftest.py"),
    "testbed": BED + ("tests/testbed/", "tests/epic_run/", "scripts/lib/stages.sh", "scripts/demo"),
    "rxe-peer": BED + ("tests/rxe_peer/",),
    "softnic": BED + ("tests/softnic/",),
    "mpi": BED + ("tests/mpi/", "tests/e2e/harness.py", "tests/e2e/stalls.py", "examples/mpi/", "mpi/"),
    "end-to-end": BED + ("tests/e2e/", "tests/covers.py", "scripts/lib/", "examples/", "docs/"),
    "endings": BED + ("tests/e2e/", "tests/covers.py"),
    "threaded": ("tests/softnic/",),
}
STARTS = {
    "netns": ("incengine", "switch_call"),
    "testbed": DAEMONS,
    "rxe-peer": ("rxe_end", "rxe_reader", "uc_end", "transport_end", "answering_end", "transport_uc_end"),
    "softnic": ("epic_softnic", "verbs_test", "verbs_peer", "softnic_wakeup", "verbs_multicast"),
    "mpi": DAEMONS + ("mca_coll_epic", "epic_mpi", "manager_asked"),
    "end-to-end": DAEMONS + ("epic_perf", "epic_perf_inside", "loop_rank", "calls_rank", "api_rank", "groups_rank", "quantise_rank",
                             "other_engine", "manager_asked"),
    "endings": DAEMONS + ("epic_perf", "epic_perf_inside", "loop_rank", "calls_rank", "api_rank", "groups_rank", "c_rank",
                          "c_owner", "c_path", "manager_asked", "switch_call"),
    "threaded": ("epic_softnic", "verbs_test", "verbs_peer"),
}


def changed_files(ref):
    """Paths within the tree that differ from REF, new ones included."""
    def git(*argv):
        return subprocess.run(["git", *argv], cwd=stages.ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted({path for path in git("diff", "--name-only", ref) + git("ls-files", "--others", "--exclude-standard") if path})


def begins(path, prefixes):
    return any(path == prefix or path.startswith(prefix) for prefix in prefixes)


def parse_deps(text):
    """{object: its files, as ninja names them} of `ninja -t deps`."""
    found, files = {}, None
    for line in text.splitlines():
        if line.startswith("    ") and files is not None:
            files.append(line.strip())
        elif ": #deps" in line:
            files = found.setdefault(line.split(": #deps")[0], [])
    return found


class Tree:
    """A build tree, and what of it a change touches."""

    def __init__(self, name, changed):
        self.place = stages.ROOT / "build" / name
        paths = {os.path.realpath(stages.ROOT / path) for path in changed}
        self.objects = {obj for obj, files in parse_deps(self.ninja("-t", "deps")).items()
                        if any(os.path.realpath(self.place / file) in paths for file in files)}
        self.paths, self.answers = paths, {}

    def ninja(self, *argv):
        return subprocess.run(["ninja", "-C", str(self.place), *argv], capture_output=True, text=True, check=False).stdout

    def touched(self, target):
        """Whether a target has an input that differs; also if ninja does not know it."""
        if target not in self.answers:
            inputs = [line.strip() for line in self.ninja("-t", "inputs", target).splitlines() if not line.startswith("ninja:")]
            self.answers[target] = not inputs or any(
                name in self.objects or os.path.realpath(self.place / name) in self.paths for name in inputs)
        return self.answers[target]


class Selection:
    """What to run of a change since REF."""

    def __init__(self, ref):
        self.changed = changed_files(ref)
        self.everything = any(begins(path, OF_ALL) for path in self.changed)
        self.trees = {}

    def tree(self, name):
        if name not in self.trees:
            self.trees[name] = Tree(name, self.changed)
        return self.trees[name]

    def wants_program(self, tree, command):
        """Whether a test of ctest is to run: its program, or a script's own file, is touched."""
        if self.everything:
            return True
        place = str(stages.ROOT / "build" / tree) + "/"
        programs = [word[len(place):] for word in command if word.startswith(place)]
        return not programs or any(self.tree(tree).touched(program) for program in programs)

    def wants_file(self, stage, file):
        """Whether a file of pytest is to run."""
        if self.everything or file in self.changed:
            return True
        others = re.compile(r"/test_\w+\.py$")  # another file's tests are no matter
        if any(begins(path, READS[stage.name]) and not others.search(path) for path in self.changed):
            return True
        return any(self.tree(stage.tree).touched(target) for target in STARTS[stage.name])


if __name__ == "__main__":
    chosen = Selection(sys.argv[1])
    sys.exit(0 if chosen.everything or any(chosen.tree(sys.argv[2]).touched(target) for target in sys.argv[3:]) else 1)
