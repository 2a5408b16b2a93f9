"""Talks with datagram_peer, which has a queue pair for a group's datagrams."""

import re

GROUP, KEY = "239.192.7.1", 0x1234567
RECEIVES = 256  # of datagram_peer.cc
AT_ONCE = 100   # datagrams, for which all have receives


class Peer:
    """One of them. `say(line)` writes a line to it, `hear()` is the next line of its answers."""

    def __init__(self, say, hear):
        self._say, self._hear = say, hear
        self.ip = self.qpn = None

    def begin(self, *words):
        self._say(" ".join(map(str, words)))

    def end(self):
        return self._hear()

    def ask(self, *words):
        self.begin(*words)
        return self.end()

    def join(self, key=KEY):
        answer = self.ask("join", GROUP, key)
        match = re.fullmatch(r"joined (\S+) (\d+)", answer)
        assert match, answer
        self.ip, self.qpn = match[1], match[2]


def all_get_all(sender, receivers, count):
    """From the one to each of the others, with as much at a time as they have receives for."""
    for first in range(0, count, AT_ONCE):
        for receiver in receivers:
            if receiver is not sender:
                receiver.begin("take", first, AT_ONCE, sender.ip, sender.qpn)
        assert sender.ask("send", first, AT_ONCE) == "sent"
        if sender in receivers:
            sender.begin("take", first, AT_ONCE, sender.ip, sender.qpn)
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
