"""Both ends of the connection by which a guest runs a command: signals reach it and what it says arrives, whenever."""

import importlib.machinery
import importlib.util
import os
import pathlib
import select
import signal
import socket
import struct
import threading

import pytest

from epic_testbed import guest


class Guest(threading.Thread):
    """The other end: a command that says a word and ends when it gets a signal, whose number is its status."""

    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection = connection
        self.start()

    def read(self, size):
        data = b""
        while len(data) < size:
            data += self.connection.recv(size - len(data))
        return data

    def run(self):
        while True:
            kind, length = struct.unpack("!cI", self.read(5))
            payload = self.read(length)
            if kind == b"R":
                self.connection.sendall(struct.pack("!cI", b"O", 6) + b"ready\n")
            if kind == b"S":
                self.connection.sendall(struct.pack("!cI", b"X", len(payload)) + payload)
                return


@pytest.mark.parametrize("signum", (signal.SIGINT, signal.SIGTERM))
def test_a_signal_just_before_select_is_not_kept_waiting(monkeypatch, signum):
    """Python calls a handler between two instructions; a signal after the last one before select does not end select."""
    ours, theirs = socket.socketpair()
    Guest(theirs)
    looks = []

    def look(sources, writing, failing, wait):
        if not looks:
            looks.append(len(sources))
            os.kill(os.getpid(), signum)
            others = [source for source in sources if source is not ours]
            assert select_now(others, [], [], 10)[0], "nothing would have woken it"
        return select_now(sources, writing, failing, wait)

    select_now = select.select
    monkeypatch.setattr(guest.select, "select", look)
    before = signal.getsignal(signum)
    assert guest.execute(ours, ["true"], {}, "/") == signum
    assert signal.getsignal(signum) == before


def server():
    """The program in the guest, as a module."""
    path = pathlib.Path(guest.__file__).resolve().parents[1] / "guest-exec-server"
    spec = importlib.util.spec_from_loader("server", importlib.machinery.SourceFileLoader("server", str(path)))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_last_word_of_a_command_arrives(monkeypatch):
    """It says it and ends between the server's look at its output and the question whether it has ended."""
    module = server()
    said, mouth = os.pipe()
    sent = []

    class Command:
        spoken = False

        def poll(self):
            if not self.spoken:
                self.spoken = True
                os.write(mouth, b"the end")
            return 0

    session = module.Session(None)
    session.process = Command()
    monkeypatch.setattr(session, "send", lambda kind, payload: sent.append((kind, payload)))
    with open(said, "rb", buffering=0) as stream:
        session.pump(b"O", stream)
    os.close(mouth)
    assert sent == [(b"O", b"the end")]
