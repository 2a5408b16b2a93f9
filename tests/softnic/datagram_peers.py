"""Talks with datagram_peer, which has a queue pair for a group's datagrams."""

import re

import pair as pairs

PROGRAM = pairs.BUILD / "tests" / "softnic" / "datagram_peer"
GROUP, KEY = "239.192.7.1", 0x1234567
RECEIVES = 256  # of datagram_peer.cc
AT_ONCE = 100   # datagrams, for which all have receives


class Answers:
    """The lines that a program of pair.Hosts writes, one after the other."""

    def __init__(self, program):
        self._program, self._heard = program, 0

    def next(self):
        def line():
            lines = self._program.output.split("\n")[:-1]
            return lines[self._heard:self._heard + 1]

        answer = self._program.wait_for(line, "answer", timeout_s=30)[0]
        self._heard += 1
        return answer


class Peer:
    """One of them, started on a host."""

    def __init__(self, hosts, host, interface):
        self._program = hosts.start(host, PROGRAM, interface)
        self._answers = Answers(self._program)
        self.ip = self.qpn = None

    def begin(self, *words):
        self._program.write(" ".join(map(str, words)) + "\n")

    def end(self):
        return self._answers.next()

    def ask(self, *words):
        self.begin(*words)
        return self.end()

    def join(self, key=KEY):
        answer = self.ask("join", GROUP, key)
        match = re.fullmatch(r"joined (\S+) (\d+)", answer)
        assert match, answer
        self.ip, self.qpn = match[1], match[2]


def all_get_all(sender, receivers, count, at_once=AT_ONCE):
    """From the one to each of the others, and to itself if it is among them, with so many at a time."""
    for first in range(0, count, at_once):
        for receiver in receivers:
            if receiver is not sender:
                receiver.begin("take", first, at_once, sender.ip, sender.qpn)
        assert sender.ask("send", first, at_once) == "sent"
        if sender in receivers:
            sender.begin("take", first, at_once, sender.ip, sender.qpn)
        assert [receiver.end() for receiver in receivers] == ["took"] * len(receivers)


def another_key_is_another_group(sender, same, other):
    """What has come when the key is as before is the next that `other` gets: nothing came in between."""
    for peer in (sender, same):
        assert peer.ask("key", KEY + 1) == "key"
    assert sender.ask("send", 1000, 20) == "sent"
    assert same.ask("take", 1000, 20, sender.ip, sender.qpn) == "took"
    assert sender.ask("key", KEY) == "key"
    assert sender.ask("send", 2000, 1) == "sent"
    assert other.ask("take", 2000, 1, sender.ip, sender.qpn) == "took"
    assert sender.ask("key", KEY + 1) == "key"
    assert sender.ask("send", 3000, 1) == "sent"
    assert same.ask("take", 3000, 1, sender.ip, sender.qpn) == "took"


def every_receive_is_given_back(peer):
    assert peer.ask("flush") == f"flushed {RECEIVES} of {RECEIVES}"
