"""A rank on another host: ssh to it, and at its other end the agent (agent.py), which runs the rank's program."""

import json
import os
import shlex
import signal
import subprocess
import threading

from . import agent, together

# It asks for no password, as nobody could answer for many hosts, shares no connection, and notices within a minute that a
# host is gone.
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -S none -T"
# For any login shell: the agent is the first line of standard input, and no byte behind it is taken.
COMMAND = "exec python3 -Ic 'exec(open(0,\"rb\",0,closefd=False).readline())'"
_UNREACHABLE = 255  # as ssh has it
_NO_PYTHON = 127  # as shells have it
_INPUT_PIECE = 1 << 14  # with a signal's frame less than a pipe takes: no write of them waits
_LOCK_S = 1
_PATIENCE_S = 5  # for ssh to end by itself behind the last frame
# sshd refuses some of those who come while ten have yet to show who they are.
_HANDSHAKES = threading.Semaphore(8)


def first_line():
    """The agent, as python3 at the other end reads it."""
    with open(agent.__file__, encoding="utf-8") as file:
        return f"exec({ascii(file.read())})\n".encode()


class Rank:
    """Begins at once. `ssh` is a command and its options, `request` is the agent's, `say` gets messages of ours. `ended` is
    called with the exit status, 128 + n after signal n."""

    def __init__(self, ssh, host, request, prefix, say, ended):
        self._ssh, self._host, self._request, self._prefix, self._say = ssh, host, request, prefix, say
        self._lines = {agent.OUT: together.Lines(1, prefix), agent.ERR: together.Lines(2, prefix)}
        self._process, self._status = None, None
        self._begun = False  # the agent has answered
        self._last = None  # the signal that was sent last
        self._cut = False  # by us
        self._writing = threading.RLock()  # a signal's handler may interrupt another
        self._taken = threading.Semaphore(0)
        threading.Thread(target=lambda: ended(self._run()), daemon=True).start()

    def send(self, signum):
        """Sends a signal to the program. Where the agent has not begun, or takes none, the connection is cut, at whose end
        it ends the program by itself."""
        again = self._last == signum == signal.SIGKILL
        self._last = signum
        if again or not self._begun or not self._write(agent.frame(agent.SIGNAL, bytes([signum]))):
            self._cut = True
            self._kill()

    def _kill(self):
        """Ends ssh, if it has begun, and what it has started."""
        if self._process and self._process.returncode is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _run(self):
        """The whole way, in a thread of its own; returns the exit status."""
        with _HANDSHAKES:
            errors = self._connect()
            if errors is None:
                return self._end_status(None)
            data = self._until_hello()
        if self._begun and self._request["input"]:
            threading.Thread(target=self._feed, daemon=True).start()
        while self._begun and self._status is None:
            for kind, body in agent.take_frames(data):
                self._heard(kind, body)
            more = b"" if self._status is not None else os.read(self._process.stdout.fileno(), agent.PIECE)
            if not more:
                break
            data += more
        for lines in self._lines.values():
            lines.end()
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            code = self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._kill()
            code = self._process.wait()
        errors.join()
        return self._end_status(code)

    def _connect(self):
        """Starts ssh and tells the agent what to run; the thread that passes on what ssh itself says, or None without ssh."""
        try:
            with self._writing:
                if self._cut:
                    return None
                # A session of its own: Ctrl-C at the terminal reaches the program by us alone.
                self._process = subprocess.Popen([*self._ssh, self._host, COMMAND], stdin=subprocess.PIPE, bufsize=0,
                                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            self._say(f"{self._ssh[0]} does not start: {error.strerror}. Install openssh-client, or say another "
                      "command with --ssh")
            return None
        if self._cut:
            self._kill()
        errors = threading.Thread(target=together.pass_on, daemon=True,
                                  args=(self._process, self._process.stderr, together.Lines(2, self._prefix)))
        errors.start()
        self._write(first_line() + agent.frame(agent.RUN, json.dumps(self._request).encode()))
        return errors

    def _write(self, data):
        """False if it cannot be written, or somebody else is at it for long."""
        if not self._writing.acquire(timeout=_LOCK_S):
            return False
        try:
            while data:
                data = data[os.write(self._process.stdin.fileno(), data):]
            return True
        except (OSError, ValueError):
            return False
        finally:
            self._writing.release()

    def _until_hello(self):
        """Waits for the agent; what has come of its frames. What a login shell says before it is nobody's."""
        data = bytearray()
        while agent.HELLO not in data:
            more = os.read(self._process.stdout.fileno(), agent.PIECE)
            if not more:
                return data
            data = data[-len(agent.HELLO):] + more
        self._begun = True
        return data[data.index(agent.HELLO) + len(agent.HELLO):]

    def _heard(self, kind, body):
        if kind in self._lines:
            self._lines[kind].add(body)
        elif kind == agent.TAKEN:
            self._taken.release()
        elif kind == agent.REFUSED:
            self._say(f"{self._host}: {body.decode(errors='replace')}")
        elif kind == agent.ENDED:
            self._status = body[0]

    def _feed(self):
        """Hands standard input on, a piece when the one before has been taken."""
        data = None
        while data != b"":
            try:
                data = os.read(0, _INPUT_PIECE)
            except OSError:
                data = b""  # there is none, or it is a terminal's, and we are in the background
            if not self._write(agent.frame(agent.INPUT, data)):
                break
            self._taken.acquire()

    def _end_status(self, code):
        if self._status is not None:
            return self._status
        if self._cut:
            return 128 + self._last
        if self._begun:
            self._say(f"the connection to {self._host} has ended (status {code}). Its rank ends there by itself, when that "
                      "host notices")
        elif code == _NO_PYTHON:
            self._say(f"{self._host} has no python3, or {self._ssh[0]} starts nothing there: install it there")
        elif code is not None:
            self._say(f"{self._host} cannot be reached, or lets us not in (status {code}): `{shlex.join(self._ssh)} {self._host} true` is to "
                      "work without a password. For another way than ssh there is --ssh")
        return _UNREACHABLE
