"""Ranks that run beside each other: what each says is told apart, and they end together."""

import os
import queue
import secrets
import select
import signal
import subprocess
import sys
import threading

EXIT_TIMEOUT = 124
# What ends ranks that do not heed the signal before it, so many seconds later.
_STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_NEXT_STEP_S = 3
_LONGEST_LINE = 1 << 16


class Lines:
    """Passes on what one rank says: whole lines with the prefix in front of each, or without one as it comes."""

    _writing = threading.Lock()  # one at a time, of all ranks

    def __init__(self, out, prefix):
        self._out, self._prefix, self._line = out, prefix, b""

    def add(self, data):
        if not self._prefix:
            self._write(data)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > _LONGEST_LINE:
            lines, self._line = [*lines, self._line], b""
        self._write(b"".join(self._prefix + whole + b"\n" for whole in lines))

    def end(self):
        """A last line without an end."""
        if self._line:
            self._write(self._prefix + self._line + b"\n")
            self._line = b""

    def _write(self, text):
        try:
            with self._writing:
                while text:
                    text = text[os.write(self._out, text):]
        except OSError:
            pass  # nobody reads on; the rank is to end nevertheless


def pass_on(process, pipe, lines):
    """Passes on what comes from a pipe until its end; or until the process has ended and what it left in the background,
    which holds the pipe too, is silent."""
    while True:
        if not select.select([pipe], [], [], 0.5)[0]:
            if process.poll() is None or select.select([pipe], [], [], 0)[0]:
                continue
            break
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            break
        lines.add(data)
    lines.end()


class Process:
    """A rank that is a process of this machine. `ended` is called with its exit status, 128 + n after signal n."""

    def __init__(self, argv, env, prefix, ended):
        # A session of its own: Ctrl-C at the terminal reaches it by us alone, once.
        self._process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, start_new_session=True)
        pumps = [threading.Thread(target=pass_on, args=(self._process, pipe, Lines(out.fileno(), prefix)), daemon=True)
                 for pipe, out in ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr))]
        for pump in pumps:
            pump.start()

        def wait():
            status = self._process.wait()
            for pump in pumps:
                pump.join()
            ended(status if status >= 0 else 128 - status)

        threading.Thread(target=wait, daemon=True).start()

    def send(self, signum):
        """Sends a signal to all processes that it has become."""
        try:
            os.killpg(self._process.pid, signum)
        except ProcessLookupError:
            pass


class Ending:
    """Ends ranks by signals, each stronger than the one before: at once, and by the clock until they have ended."""

    def __init__(self, running, timeout_s=None, hand_on=()):
        self.reason = None  # the exit status that it gives a run whose ranks say 0
        self._running = running
        self._told = set()
        self._last = None  # the signal that was sent last
        self._steps = list(_STEPS)
        asks = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
            asks.append(signal.SIGHUP)
        self._previous = {signum: signal.signal(signum, self._asked) for signum in asks}
        self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._late)
        for signum in hand_on:
            self._previous[signum] = signal.signal(signum, self._handed_on)
        signal.setitimer(signal.ITIMER_REAL, timeout_s or 0)

    def add(self, rank):
        """One that has begun. A signal that came when it had, and was not here yet, is sent to it now."""
        self._running.add(rank)
        if self._last is not None and rank not in self._told:
            self._told.add(rank)
            rank.send(self._last)

    def begin(self, status):
        """Ends all, as one has failed with this status."""
        if self.reason is None:
            self.reason = status
            self._without_interrupt()
            self._step()

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
        if signum != signal.SIGINT:
            self._without_interrupt()
        self._step()

    def _late(self, _signum, _frame):
        if self.reason is None:
            self.reason = EXIT_TIMEOUT
            self._without_interrupt()
        self._step()

    def _handed_on(self, signum, _frame):
        for rank in list(self._running):
            rank.send(signum)

    def _without_interrupt(self):
        self._steps = [step for step in self._steps if step != signal.SIGINT]

    def _step(self):
        # A signal may come between any two of these, and step as well.
        signum, self._steps = self._steps[0], self._steps[1:] or self._steps
        self._last = signum
        self._told |= self._running
        for rank in list(self._running):
            rank.send(signum)
        signal.setitimer(signal.ITIMER_REAL, _NEXT_STEP_S)


def prefixes(count):
    """What stands in front of the lines of ranks 0, 1, ..."""
    width = len(str(count - 1))
    return [f"[{rank:{width}}] ".encode() for rank in range(count)]


def variables(size, group=None):
    """What tells each rank who it is. The group is the caller's $EPIC_GROUP, else a new one."""
    group = group or os.environ.get("EPIC_GROUP") or f"run-{secrets.token_hex(4)}"
    return [{"EPIC_RANK": str(rank), "EPIC_SIZE": str(size), "EPIC_GROUP": group} for rank in range(size)]


def run(starts, say, timeout_s=None, one_ends_all=False, hand_on=()):
    """Runs ranks 0, 1, ... to their end. `starts` has a name for each and a function that starts it: it gets a function to
    be called with the exit status, once, from any thread, and returns what has send(SIGNUM). Ctrl-C ends all; so does a rank
    that fails if one_ends_all; signals of hand_on are passed on to all. Returns the worst status, and what ended the ranks
    before their time, as an exit status, or None: 128 + n for a signal, 124 for the timeout, a rank's own."""
    ended, running, worst = queue.Queue(), set(), 0
    ending = Ending(running, timeout_s, hand_on)
    ranks = {}
    try:
        for number, (name, start) in enumerate(starts):
            if ending.reason is None:
                ranks[number] = start(lambda status, number=number: ended.put((number, status)))
                ending.add(ranks[number])
        while running:
            number, status = ended.get()
            running.remove(ranks[number])
            worst = max(worst, status)
            if status != 0 and running and ending.reason is None:
                others = "the others are ended" if one_ends_all else "the others go on, Ctrl-C ends them"
                say(f"rank {number} ({starts[number][0]}) ended with status {status}; {others}")
                if one_ends_all:
                    ending.begin(status)
    finally:
        ending.over()
    return worst, ending.reason
