"""How long processors were kept from everything that waited for them.

A kernel that preempts no system call (PREEMPT_NONE) leaves what is queued on a processor where it is while something long
goes on there, as the end of a process under a sanitizer, of terabytes of addresses: for seconds, on the machines of CI.
What is promised within a time is promised of a machine that runs. One process per processor tells what it has missed.
"""

import atexit
import os
import subprocess
import sys
import time

LEAST_S = 0.5  # what a busy machine keeps a process waiting anyway
_METER = """
import time
last = time.monotonic()
while True:
    time.sleep(0.05)
    now = time.monotonic()
    if now - last > %f:
        print(last, now, flush=True)
    last = now
"""


class Stalls:
    """Watches from its making on."""

    def __init__(self):
        self.meters = []
        for cpu in sorted(os.sched_getaffinity(0)):
            argv = ["taskset", "-c", str(cpu), sys.executable, "-c", _METER % LEAST_S]
            self.meters.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL))
            os.set_blocking(self.meters[-1].stdout.fileno(), False)
        self._told = [b""] * len(self.meters)
        atexit.register(self.end)

    def since(self, begin):
        """Seconds since then, by time.monotonic(), that the processor which missed most has missed."""
        time.sleep(0.2)  # one that is just ending is told of
        for number, meter in enumerate(self.meters):
            self._told[number] += meter.stdout.read() or b""
        gaps = [[line.split() for line in told.decode().splitlines()] for told in self._told]
        return max(sum(max(0, float(end) - max(begin, float(start))) for start, end in of_one) for of_one in gaps)

    def end(self):
        for meter in self.meters:
            meter.kill()
            meter.wait()
