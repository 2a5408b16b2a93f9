"""What bench/compare sets of the machine, and sets again."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import machine

HERE = pathlib.Path(__file__).resolve().parent
# Says that it has set it, and then waits for its end.
MEASURES = """
import pathlib, sys, time
import machine
machine.Autogroups.PATH = pathlib.Path(sys.argv[1])
machine.end_by_signals()
with machine.Autogroups() as autogroups:
    autogroups.set(False)
    print("set", flush=True)
    while True:  # a signal that comes just before one sleep is seen after it
        time.sleep(0.05)
"""


class AutogroupsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "enabled"
        self.path.write_text("1\n", encoding="ascii")
        patch = mock.patch.object(machine.Autogroups, "PATH", self.path)
        patch.start()
        self.addCleanup(patch.stop)

    def setting(self):
        return self.path.read_text(encoding="ascii")

    def test_the_setting_is_as_it_was_whatever_ends_a_measurement(self):
        for end in (KeyboardInterrupt, SystemExit, ValueError):
            with self.subTest(end), self.assertRaises(end):
                with machine.Autogroups() as autogroups:
                    autogroups.set(False)
                    self.assertEqual(self.setting(), "0\n")
                    autogroups.set(True)
                    autogroups.set(False)
                    raise end
            self.assertEqual(self.setting(), "1\n")

    def test_one_group_lasts_as_long_as_the_measurement(self):
        with machine.one_scheduling_group():
            self.assertEqual(self.setting(), "0\n")
        self.assertEqual(self.setting(), "1\n")

    def test_a_kernel_without_autogroups_gets_none(self):
        self.path.unlink()
        with machine.Autogroups() as autogroups:
            autogroups.set(True)
        self.assertFalse(self.path.exists())

    def test_a_process_that_is_ended_leaves_it_as_it_was(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number), subprocess.Popen([sys.executable, "-B", "-c", MEASURES, self.path], cwd=HERE, stdout=subprocess.PIPE,
                                                        stderr=subprocess.DEVNULL, text=True) as process:
                self.assertEqual(process.stdout.readline(), "set\n")
                self.assertEqual(self.setting(), "0\n")
                os.kill(process.pid, number)
                process.wait()
            self.assertEqual(self.setting(), "1\n")


if __name__ == "__main__":
    unittest.main()
