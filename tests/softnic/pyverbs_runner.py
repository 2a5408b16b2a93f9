#!/usr/bin/python3
"""pyverbs_runner.py DEVICE GID [PART OF]: rdma-core's own tests, as Debian's python3-pyverbs has them, on a device.

The last line is a JSON object: of each test "passed", "failed" or "skipped", with the reason. Exit status 0 also if some
failed. With PART OF only a part of them, 0 of 2 for instance. It needs nothing of the repository, so that it runs in a
guest as well.
"""

import gzip
import importlib.util
import json
import pathlib
import random
import sys
import tempfile
import time
import unittest

TESTS = pathlib.Path("/usr/share/doc/rdma-core/tests")


class Verdicts(unittest.TestResult):
    """What became of each test, by its name without the package's."""

    def __init__(self):
        super().__init__()
        self.of = {}
        self._began = 0.0

    def startTest(self, test):
        super().startTest(test)
        # Many tests choose by chance what they ask for: everywhere the same.
        random.seed(self._name(test))
        self._began = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        seconds = time.monotonic() - self._began
        print(f"{seconds:6.2f} s  {self._name(test)}: {self.of[self._name(test)][0]}", flush=True)

    def addSuccess(self, test):
        self.of.setdefault(self._name(test), ["passed", ""])

    def addSkip(self, test, reason):
        self.of[self._name(test)] = ["skipped", reason]

    def addFailure(self, test, err):
        self.of[self._name(test)] = ["failed", self._exc_info_to_string(err, test)]

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)

    @staticmethod
    def _name(test):
        return test.id().removeprefix("tests.")


def unpack(directory):
    """The tests as a package, which Debian compresses in part."""
    package = pathlib.Path(directory) / "tests"
    package.mkdir()
    for source in TESTS.iterdir():
        if source.suffix == ".gz":
            (package / source.stem).write_bytes(gzip.decompress(source.read_bytes()))
        else:
            (package / source.name).write_bytes(source.read_bytes())
    return package


def load(package):
    """The package as run_tests.py loads it: its modules also find one another by their bare names."""
    sys.path.insert(0, str(package))
    spec = importlib.util.spec_from_file_location("tests", package / "__init__.py", submodule_search_locations=[str(package)])
    module = importlib.util.module_from_spec(spec)
    sys.modules["tests"] = module
    spec.loader.exec_module(module)
    return module


def each(suite):
    """The tests of a suite of suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def main():
    device, gid, *part = sys.argv[1:]
    first, step = map(int, part or (0, 1))
    with tempfile.TemporaryDirectory(prefix="pyverbs-") as directory:
        sys.argv[1:] = ["--dev", device, "--gid", gid]
        tests = load(unpack(directory))
        from args_parser import parser  # pylint: disable=import-error,import-outside-toplevel
        parser.parse_args()
        verdicts = Verdicts()
        chosen = list(each(unittest.defaultTestLoader.loadTestsFromModule(tests)))[first::step]
        unittest.TestSuite(chosen).run(verdicts)
    print(json.dumps(verdicts.of))


if __name__ == "__main__":
    main()
