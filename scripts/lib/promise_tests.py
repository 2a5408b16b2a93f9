"""What tests there are in a tree, by the names that tests/promises.json has for them (promises.py):

    Suite.Test                              of a *_test.cc
    tests/FOLDER/test_FILE.py::test_NAME    of pytest
    scenario NAME                           tests/scenarios/NAME.txt
    ctest NAME                              a test of ctest that is none of gtest's
"""
import fnmatch
import functools
import pathlib
import re

import stage_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEVELS = ("unit", "virtual time", "proof", "processes", "namespaces", "softnic", "rdma_rxe guests", "MPI", "softnic bed",
          "rdma_rxe bed", "installed tree")
FOLDERS = {"tests/style": "unit", "tests/epic_run": "processes", "tests/netns": "namespaces", "tests/testbed": "namespaces",
           "tests/wire": "namespaces", "tests/rxe_peer": "rdma_rxe guests", "tests/softnic": "softnic", "tests/mpi": "MPI"}


class Tests:
    """What tests there are in a tree."""

    def __init__(self, root=ROOT):
        self.root = root

    @functools.cached_property
    def of_gtest(self):
        """{"Suite.Test": [its files]}"""
        found = {}
        for file in self._files("*_test.cc"):
            text = (self.root / file).read_text(encoding="utf-8")
            for suite, test in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.M):
                found.setdefault(f"{suite}.{test}", []).append(file)
        return found

    @functools.cached_property
    def programs(self):
        """{source file: (program, whether a default run has it)}, of CMake's epic_test."""
        texts = {file: (self.root / file).read_text(encoding="utf-8")
                 for name in ("CMakeLists.txt", "*.cmake") for file in self._files(name)}
        slow = {name for text in texts.values() for names in re.findall(r"set_tests_properties\(([^)]*)\bslow\b", text)
                for name in names.split()}
        found = {}
        for file, text in texts.items():
            folder = pathlib.PurePath(file).parent
            for name, body in self._targets(text):
                default = not (name in slow or re.search(r"LABELS[^)]*\bslow\b", body))
                for source in re.findall(r"[\w/]+_test\.cc", body):
                    found[str(folder / source)] = (name, default)
        return found

    @staticmethod
    def _targets(text):
        """(name, text) of each epic_test; one of a foreach is as many."""
        for names, body in re.findall(r"foreach\(name ([^)]*)\)\s*epic_test\(\$\{name\}(.*?)endforeach", text, re.S):
            yield from ((name, body.replace("${name}", name)) for name in names.split())
        yield from re.findall(r"epic_test\((\w+)\b(.*?)^(?=\S)", text + "\n#", re.S | re.M)

    def _files(self, name):
        found = []
        for folder in sorted(self.root.iterdir()):
            if folder.is_dir() and folder.name not in ("build", ".git"):
                found += [str(file.relative_to(self.root)) for file in folder.rglob(name)]
        return sorted(found)

    @functools.cache
    def _text(self, file):
        path = self.root / file
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    @functools.cached_property
    def on_softnic(self):
        """The filters by which pytest runs the suites of verbs_test."""
        return [word for file in ("test_verbs.py", "test_many.py")
                for word in re.findall(r'"(?:--gtest_filter=)?([*\w]+\.?\*)"', self._text(f"tests/softnic/{file}"))]

    @functools.cache
    def file_of(self, test):
        """The file that has a test, or None."""
        if test.startswith("scenario "):
            file = f"tests/scenarios/{test.removeprefix('scenario ')}.txt"
            return file if (self.root / file).is_file() else None
        if name := stage_tests.program_of(test):
            return next((file for file in self._files("CMakeLists.txt") if f"add_test(NAME {name} " in self._text(file)), None)
        if "::" in test:
            file, name = test.split("::")
            return file if re.search(rf"^def {re.escape(name)}\(", self._text(file), re.M) else None
        files = self.of_gtest.get(test, ())
        return files[0] if len(files) == 1 else None

    @functools.cache
    def wrong(self, test):
        """What is wrong with a name, or None."""
        files = self.of_gtest.get(test, ())
        if len(files) > 1:
            return f"{test} is in several files: {', '.join(files)}"
        file = self.file_of(test)
        if file is None:
            return f"there is no test {test}"
        if test in self.of_gtest and file not in self.programs and not self._runs_on_softnic(test, file):
            return f"no program has {test} of {file}"
        if "::" in test and not any(stage_tests.may_have(stage, test) for stage in stage_tests.STAGES) and not file.startswith("tests/style/"):
            return f"no stage has {test}"
        return None

    def _runs_on_softnic(self, test, file):
        return file.startswith("tests/softnic/verbs_") and any(fnmatch.fnmatch(test, word) for word in self.on_softnic)

    @functools.cache
    def in_default_run(self, test):
        """Whether a default run has it, of some of its parameters at least."""
        if "::" in test:
            file, name = test.split("::")
            text = self._text(file)
            if re.search(r"^pytestmark = .*\bmark\.slow\b", text, re.M):
                return False
            above = re.search(rf"((?:^[@ )].*\n)*)^def {re.escape(name)}\(", text, re.M)
            return not re.search(r"^@pytest\.mark\.slow\b", above[1] if above else "", re.M)
        return self.programs.get(self.file_of(test), ("", True))[1]

    def levels(self, test, beds):
        """What a test is of; `beds` has the hosts of each file of tests/e2e, and of a test that has not all of its file's."""
        file = self.file_of(test) or ""
        if test.startswith("ctest "):
            return ["installed tree"]
        if file.startswith("tests/e2e/"):
            name = test.removeprefix("tests/e2e/")
            return [f"{hosts} bed" for hosts in beds.get(name, beds.get(name.split("::")[0], ("?",)))]
        if file.startswith("tests/softnic/") and "::" in test:
            with_what = re.search(rf"^def {re.escape(test.split('::')[1])}\(([^)]*)\)", self._text(file), re.M)[1]
            if "guests" in with_what or "on_rxe" in with_what:
                return ["rdma_rxe guests"] if "guests" in with_what else ["softnic", "rdma_rxe guests"]
        if file.startswith("sim/") or re.match(r"tests/softnic/(comm|virtual)_\w+_test\.cc", file):
            return ["virtual time"]
        if file.startswith("check/"):
            return ["proof"]
        return [next((level for folder, level in FOLDERS.items() if file.startswith(folder + "/")), "unit")]
