"""distributed_suite.py BED OUTPUT [TEST...]: torch's own tests of torch.distributed (distributed_test.py, in python3-torch) with the
backend epic, or $BACKEND, and four ranks, each in the namespaces of a host of a test bed that is up.

test_suite.py runs it. Writes {test: "passed", "failed", "skipped: why" or, by suite_list.txt, "left out: why"} to OUTPUT."""

import ctypes
import json
import os
import sys
import traceback
import types
import unittest

BED = sys.argv[1]
# A host's network and its name, by the kinds of their namespaces.
NAMESPACES = ((f"/run/netns/epic-{BED}-h{{}}", 0x40000000), (f"/run/epic/{BED}/uts/h{{}}", 0x04000000))
RANKS = 4
BACKEND = os.environ.get("BACKEND", "epic")
# Tests go by this name in what they skip and how they make models: they do all that they do with Gloo.
os.environ["BACKEND"] = "gloo"
os.environ["WORLD_SIZE"] = str(RANKS)
os.environ.setdefault("TEMP_DIR", "/tmp")

# Not in Debian 12; torch's helpers derive a class from it, of which nothing here uses more.
sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)

# pylint: disable=wrong-import-position
import suite_list  # noqa: E402
import torch  # noqa: E402
import torch_epic  # noqa: E402,F401
from torch.nn.parallel import _replicated_tensor_ddp_utils  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

distributed_test.PROFILING_SUPPORTED_BACKENDS.append("epic")
# The experiment with replicated tensors needs torch.distributed._shard, which Python 3.11 cannot import.
_replicated_tensor_ddp_utils._set_ddp_with_replicated_tensor = lambda value: None


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        # What is imported is imported once.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe):
        for path, kind in NAMESPACES:
            with open(path.format(rank), "rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), kind) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
        init = distributed_test.dist.init_process_group
        distributed_test.dist.init_process_group = lambda **arguments: init(**{**arguments, "backend": BACKEND})
        if test_name == "test_get_backend":
            distributed_test.BACKEND = BACKEND
        super()._run(rank, test_name, file_name, pipe)


class Results(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.results = {}

    def note(self, test, result):
        self.results[test.id().split(".")[-1]] = result
        print(test.id().split(".")[-1], result, flush=True)
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump(self.results, file, indent=1)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, f"skipped: {reason}")

    def addExpectedFailure(self, test, err):
        self.note(test, "passed")

    def _failed(self, test, err):
        traceback.print_exception(*err)
        self.note(test, "failed")

    addError = addFailure = _failed


def main():
    names = sys.argv[3:] or unittest.TestLoader().getTestCaseNames(Suite)
    results, listed = Results(), suite_list.expected(BACKEND)
    for name in names:
        test = Suite(name)
        if listed.get(name, "").startswith(suite_list.LEFT_OUT):
            results.note(test, listed[name])
        else:
            test.run(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
