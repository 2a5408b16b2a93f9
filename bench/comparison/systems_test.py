"""How bench/compare runs what it measures."""
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import systems


class RunTest(unittest.TestCase):
    # pylint: disable=protected-access
    def test_a_command_that_fails_says_what_it_said(self):
        with self.assertRaisesRegex(systems.Failed, "ours: exit status 3\nwhy not"):
            systems._run(["sh", "-c", "echo why not >&2; exit 3"], "ours")

    def test_with_a_launcher_that_is_late_its_ranks_end_too(self):
        with tempfile.TemporaryDirectory() as place:
            fifo = pathlib.Path(place) / "held"
            os.mkfifo(fifo)
            # The rank holds the pipe's writing end open: the end of the file is its own.
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            with mock.patch.object(systems, "TIMEOUT_S", 0.5), self.assertRaisesRegex(systems.Failed, "not done after"):
                systems._run(["sh", "-c", f"sleep 600 >{fifo} 2>&1 & wait"], "ours")
            os.set_blocking(reader, True)
            self.assertEqual(os.read(reader, 1), b"")
            os.close(reader)


if __name__ == "__main__":
    unittest.main()
