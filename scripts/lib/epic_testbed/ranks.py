"""Runs one program as a rank on each of several hosts: what each says is told apart, and they end together."""

import os
import queue
import secrets
import select
import shutil
import signal
import subprocess
import sys
import threading

from . import guest
from .bed import BedError, say
from .bring_up import REPO

EXIT_TIMEOUT = 124
# What ends ranks that do not heed the signal before it, so many seconds later.
_STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_NEXT_STEP_S = 3
_LONGEST_LINE = 1 << 16


def hosts(bed, count):
    """The records of the first `count` hosts of a bed that is up, all if it is None, in the order of their ranks."""
    bed.require_up()
    there, topology, options = bed.record["hosts"], bed.record["topology"], bed.record["options"]
    if count is not None and not 1 <= count <= len(there):
        raise BedError(f"--hosts {count}: {topology} has {len(there)} hosts. Say 1 to {len(there)}, or bring up a topology "
                       "with more (testbed down; testbed up star-16)")
    if options["daemons"] != "engine":
        raise BedError("no switch of this test bed sums anything: it was brought up with "
                       f"{'--bridge' if options['daemons'] == 'bridge' else '--no-daemons'}. Bring it up without")
    chosen = there[:count]
    without = [host["name"] for host in chosen if host["kind"] == "none"]
    if without:
        raise BedError(f"{', '.join(without)}: no RDMA there. Bring the test bed up with --hosts softnic or rxe")
    return chosen


def check(bed, chosen, program):
    """Raises BedError if the hosts cannot start the program."""
    path = shutil.which(program)
    if path is None:
        there = os.path.isfile(program)
        if there and os.sep not in program:
            raise BedError(f"no program '{program}' in $PATH. Did you mean ./{program}?")
        if there:
            raise BedError(f"{program} may not be executed: chmod +x {program}, or say first what runs it")
        raise BedError(f"there is no program '{program}': build it first, or say its whole path")
    path = os.path.realpath(path)
    shown = guest.hidden_from_guests([REPO, bed.record["build"]]) + [bed.file("share")]
    if any(host["kind"] == "rxe" for host in chosen) and path.startswith(("/tmp/", "/run/")) and \
            not any(path.startswith(folder + os.sep) for folder in shown):
        raise BedError(f"{path}: guests have a /tmp and a /run of their own. Put it elsewhere, or into {bed.file('share')}")


def variables(size, group=None):
    """What tells each rank who it is. The group is the caller's $EPIC_GROUP, else a new one."""
    group = group or os.environ.get("EPIC_GROUP") or f"run-{secrets.token_hex(4)}"
    return [{"EPIC_RANK": str(rank), "EPIC_SIZE": str(size), "EPIC_GROUP": group} for rank in range(size)]


class _Rank:
    """A process and the threads that pass on what it says."""

    _writing = threading.Lock()  # one line at a time, of all ranks

    def __init__(self, name, argv, env, prefix, ended):
        self.name = name
        # A session of its own: Ctrl-C at the terminal reaches it by us alone, once.
        self._process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, start_new_session=True)
        pumps = [threading.Thread(target=self._pump, args=(pipe, out.fileno(), prefix), daemon=True)
                 for pipe, out in ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr))]
        for pump in pumps:
            pump.start()

        def wait():
            status = self._process.wait()
            for pump in pumps:
                pump.join()
            ended.put((self, status if status >= 0 else 128 - status))

        threading.Thread(target=wait, daemon=True).start()

    def send(self, signum):
        """Sends a signal to all processes that it has become."""
        try:
            os.killpg(self._process.pid, signum)
        except ProcessLookupError:
            pass

    def _pump(self, pipe, out, prefix):
        """Passes whole lines on, with the prefix in front of each, until the end; or until the process has ended and what it
        left in the background, which holds the pipe too, is silent."""
        line = b""
        while True:
            if not select.select([pipe], [], [], 0.5)[0]:
                if self._process.poll() is None or select.select([pipe], [], [], 0)[0]:
                    continue
                break
            data = os.read(pipe.fileno(), 1 << 16)
            if not data:
                break
            *lines, line = (line + data).split(b"\n")
            if len(line) > _LONGEST_LINE:
                lines, line = [*lines, line], b""
            self._write(out, b"".join(prefix + whole + b"\n" for whole in lines))
        if line:
            self._write(out, prefix + line + b"\n")

    def _write(self, out, text):
        try:
            with self._writing:
                while text:
                    text = text[os.write(out, text):]
        except OSError:
            pass  # nobody reads on; the process is to end nevertheless


class _Ending:
    """Ends ranks by signals, each stronger than the one before: at once, and by the clock until they have ended."""

    def __init__(self, running, timeout_s):
        self.reason = None  # the exit status that it gives a run whose ranks say 0
        self._running = running
        self._told = set()
        self._last = None  # the signal that was sent last
        self._steps = list(_STEPS)
        self._previous = {signum: signal.signal(signum, self._asked) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, timeout_s or 0)

    def add(self, rank):
        """One that has begun. A signal that came when it had, and was not here yet, is sent to it now."""
        self._running.add(rank)
        if self._last is not None and rank not in self._told:
            self._told.add(rank)
            rank.send(self._last)

    def over(self):
        """After the last has ended, or if not all could be started. What ranks that were told to end have left in the
        background ends, too."""
        for rank in self._told | self._running:
            rank.send(signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def _asked(self, signum, _frame):
        self.reason = self.reason or 128 + signum
        if signum != signal.SIGINT and self._steps[0] == signal.SIGINT:
            self._steps.pop(0)
        self._step()

    def _late(self, _signum, _frame):
        if self.reason is None:
            self.reason = EXIT_TIMEOUT
            self._steps.pop(0)
        self._step()

    def _step(self):
        signum = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        self._last = signum
        self._told |= self._running
        for rank in list(self._running):
            rank.send(signum)
        signal.setitimer(signal.ITIMER_REAL, _NEXT_STEP_S)


def run(commands, timeout_s=None):
    """Runs the commands of ranks 0, 1, ... to their end, each (host, argv, env); returns the worst exit status, 124 if
    timeout_s seconds were not enough. Ctrl-C ends all ranks; the status is then at least 130."""
    ended, running, worst = queue.Queue(), set(), 0
    width = len(str(len(commands) - 1))
    ending = _Ending(running, timeout_s)
    try:
        for number, (host, argv, env) in enumerate(commands):
            if ending.reason is None:
                prefix = f"[{number:{width}}] ".encode()
                ending.add(_Rank(f"rank {number} ({host})", argv, env, prefix, ended))
        while running:
            rank, status = ended.get()
            running.remove(rank)
            worst = max(worst, status)
            if status != 0 and running and ending.reason is None:
                say(f"{rank.name} ended with status {status}; the others go on, Ctrl-C ends them")
    finally:
        ending.over()
    if ending.reason == EXIT_TIMEOUT:
        return EXIT_TIMEOUT
    return max(worst, ending.reason or 0)
