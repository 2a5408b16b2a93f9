"""One rank's program on its host: started there by epic-run --hosts, which sends this file whole, so that the host needs
no more than python3 and a shell.

Standard input and output are the connection: HELLO from here, then frames both ways, each a kind, a length and so many
bytes. When the connection ends, for whatever reason, everything that the rank has started ends; so it does when its
program ends.
"""

import ctypes
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time

HELLO = b"\0epic-run 1\0"  # what a login shell may say before it is no part of the connection
HEAD = struct.Struct(">cI")
RUN, INPUT, SIGNAL = b"R", b"I", b"S"  # from epic-run: what to run (JSON); standard input, empty at its end; a signal's number
OUT, ERR, TAKEN, REFUSED, ENDED = b"O", b"E", b"T", b"F", b"X"  # the program's output; input is taken; why it does not start; its status
PIECE = 1 << 16
_MOST_UNSENT = 1 << 18
_GRACE_S = 3  # between SIGTERM and SIGKILL when the connection has ended
_KILLING_S = 10  # a process that even SIGKILL does not end is left after so long
_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # prctl's


class Refused(Exception):
    """The program cannot be started: why, and the status that a shell would give."""

    def __init__(self, why, status):
        super().__init__(why)
        self.status = status


def frame(kind, data=b""):
    return HEAD.pack(kind, len(data)) + data


def take_frames(buffer):
    """Takes the whole frames from the front of a bytearray: [(kind, data), ...]."""
    frames = []
    while len(buffer) >= HEAD.size:
        kind, size = HEAD.unpack_from(buffer)
        if len(buffer) < HEAD.size + size:
            break
        frames.append((kind, bytes(buffer[HEAD.size:HEAD.size + size])))
        del buffer[:HEAD.size + size]
    return frames


def start(request):
    """Starts what is to run, as the leader of a session."""
    folder, argv = request["folder"], request["argv"]
    env = {**os.environ, **request["env"]}
    library = request["library"]
    if library:
        if not os.path.exists(os.path.join(library, "libibverbs.so.1")):
            raise Refused(f"softnic is not in {library} there: put the tree at the same place on every host, or say "
                          "--no-softnic where hosts have RDMA devices", 127)
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [library, env.get("LD_LIBRARY_PATH")]))
    if not os.path.isdir(folder):
        raise Refused(f"there is no folder {folder} there: make it, or say another with --wdir", 127)
    prctl = ctypes.CDLL(None).prctl
    try:
        return subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                                stdin=subprocess.PIPE if request["input"] else subprocess.DEVNULL,
                                preexec_fn=lambda: prctl(_SET_DEATH_SIGNAL, signal.SIGKILL))
    except FileNotFoundError as error:
        raise Refused(f"there is no program '{argv[0]}' in {folder} or $PATH there, or not what its first line says runs it: "
                      "copy it there, or say its whole path", 127) from error
    except OSError as error:
        raise Refused(f"{argv[0]} does not start there: {error.strerror}", 126) from error


def descendants():
    """Pids of all processes below this one; orphans come to it."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    children.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(entry))
            except OSError:
                pass  # it has just ended
    found = list(children.get(os.getpid(), []))
    for pid in found:
        found += children.get(pid, [])
    return found


class Agent:
    """The connection and the program, in one loop that never blocks on either."""

    def __init__(self):
        self._received, self._unsent = bytearray(), bytearray(HELLO)
        self._connected = True
        self._process, self._status = None, None
        self._pipes = {}  # of the program's output: by descriptor, the kind of its frames
        self._input, self._input_ends = b"", False  # for the program, not yet written
        self._kill_at = None
        self._woken, wake = os.pipe()
        for descriptor in (self._woken, wake, 0, 1):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # not ignored: the program would inherit that
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, lambda *_: self._disconnect())

    def run(self):
        while self._status is None and (self._connected or self._process):
            self._wait()
            self._reap()
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                break
        self._kill_all()
        self._drain()

    def _wait(self):
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if self._connected:
            poll.register(0, select.POLLIN)
            if self._unsent:
                poll.register(1, select.POLLOUT)
        if len(self._unsent) < _MOST_UNSENT:
            for pipe in self._pipes:
                poll.register(pipe, select.POLLIN)
        if self._input:
            poll.register(self._process.stdin, select.POLLOUT)
        left = None if self._kill_at is None else max(0, self._kill_at - time.monotonic()) * 1000
        for descriptor, _ in poll.poll(left):
            if descriptor == self._woken:
                os.read(self._woken, PIECE)
            elif descriptor == 0:
                self._receive()
            elif descriptor == 1:
                self._send()
            elif descriptor in self._pipes:
                self._forward(descriptor)
            else:
                self._feed()

    def _receive(self):
        try:
            data = os.read(0, PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._disconnect()
            return
        self._received += data
        for kind, body in take_frames(self._received):
            if kind == RUN:
                self._begin(json.loads(body))
            elif kind == SIGNAL and self._process and self._status is None:
                self._signal(body[0])
            elif kind == INPUT and self._process:
                self._input, self._input_ends = body, not body
                self._feed()

    def _begin(self, request):
        try:
            self._process = start(request)
        except Refused as refused:
            self._unsent += frame(REFUSED, str(refused).encode(errors="replace"))
            self._status = refused.status
            return
        self._pipes = {self._process.stdout.fileno(): OUT, self._process.stderr.fileno(): ERR}
        for descriptor in [*self._pipes, *([self._process.stdin.fileno()] if self._process.stdin else [])]:
            os.set_blocking(descriptor, False)

    def _signal(self, signum):
        try:
            os.killpg(self._process.pid, signum)
        except OSError:
            pass  # all of them have just ended, or are somebody else's by now

    def _disconnect(self):
        """Nobody is there any more: the program gets some time to put its things in order."""
        if self._connected:
            self._connected = False
            if self._process and self._status is None:
                self._signal(signal.SIGTERM)
                self._kill_at = time.monotonic() + _GRACE_S

    def _forward(self, pipe):
        """Something of the program's output; False if there is none now."""
        try:
            data = os.read(pipe, PIECE)
        except BlockingIOError:
            return False
        if not data:
            del self._pipes[pipe]
        elif self._connected:
            self._unsent += frame(self._pipes[pipe], data)
        return bool(data)

    def _feed(self):
        pipe = self._process.stdin
        try:
            self._input = self._input[os.write(pipe.fileno(), self._input):] if self._input else b""
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._input = b""  # the program reads no further
        if not self._input:
            if self._input_ends:
                pipe.close()
            else:
                self._unsent += frame(TAKEN)

    def _send(self):
        try:
            del self._unsent[:os.write(1, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._disconnect()

    def _reap(self):
        """Takes note of processes that have ended, the program's and orphans."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if self._process and pid == self._process.pid:
                    self._status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        except ChildProcessError:
            pass

    def _kill_all(self):
        """Ends what there still is of the program and of what it has left."""
        deadline = time.monotonic() + _KILLING_S
        while time.monotonic() < deadline:
            there = descendants()
            if not there:
                break
            for pid in there:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            self._reap()
            time.sleep(0.005)
        self._reap()

    def _drain(self):
        """What the program has said to its end, and that it has ended."""
        for pipe in list(self._pipes):
            while pipe in self._pipes and self._forward(pipe):
                self._flush(_MOST_UNSENT)
        self._unsent += frame(ENDED, bytes([self._status or 0]))
        self._flush(0)

    def _flush(self, most):
        while self._connected and len(self._unsent) > most:
            poll = select.poll()
            poll.register(1, select.POLLOUT)
            poll.register(0, select.POLLIN)
            for descriptor, _ in poll.poll():
                if descriptor == 1:
                    self._send()
                else:
                    self._receive()


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1)
    Agent().run()
    sys.exit(0)
