"""Runs Python programs as the ranks of torch.distributed on the hosts of a test bed."""

import pathlib
import re
import time

import harness

MODULE = harness.BUILD / "pytorch" / "lib"
HERE = pathlib.Path(__file__).resolve().parent
# torch's own connections, and Gloo's, have a network of their own: their traffic is not what is tested here.
OUTSIDE = "10.255.2."


class Done:
    """Programs that have ended: by rank, exit status and all that was said; `seconds` of the longest."""

    def __init__(self, programs, statuses, seconds):
        self.statuses, self.seconds = statuses, seconds
        self.outputs = [program.output for program in programs]

    def __str__(self):
        return "\n".join(f"--- rank {r}: status {s}\n{o[-6000:]}"
                         for r, (s, o) in enumerate(zip(self.statuses, self.outputs)))

    def assert_right(self):
        """Every rank has told that it came to the end of its scene."""
        ends = [bool(re.search(r"^all right$", output, re.M)) for output in self.outputs]
        assert self.statuses == [0] * len(ends) and all(ends), str(self)


class Runner:
    def __init__(self, bed):
        self.bed, self._port = bed, 29500

    def start(self, *argv, env=None, of_rank=None):
        """Starts a program on all hosts: torchrun's variables, `env` and those of single ranks ({rank: {...}})."""
        self._port += 1
        size = len(self.bed.hosts)
        programs = []
        for rank, host in enumerate(self.bed.hosts):
            variables = {"MASTER_ADDR": f"{OUTSIDE}1", "MASTER_PORT": self._port, "RANK": rank, "WORLD_SIZE": size,
                         "GLOO_SOCKET_IFNAME": "vec1", "PYTHONPATH": MODULE, "OMP_NUM_THREADS": 1,
                         "PYTHONDONTWRITEBYTECODE": 1, "EPIC_JOIN_TIMEOUT": 60, **(env or {}),
                         **(of_rank or {}).get(rank, {})}
            own = [f"{k}={v}" for k, v in variables.items() if v is not None]
            gone = [word for k, v in variables.items() if v is None for word in ("-u", k)]
            programs.append(self.bed.start(host, "env", *gone, *own, "/usr/bin/python3", "-u", *argv, timeout_s=300))
        return programs

    def finish(self, programs):
        begin = time.monotonic()
        return Done(programs, harness.finish(programs, 320), time.monotonic() - begin)

    def __call__(self, scene, *arguments, **options):
        """Runs a scene of scenes.py to its end."""
        return self.finish(self.start(HERE / "scenes.py", scene, *arguments, **options))
