"""The host library's queue pairs for datagrams (commlib/verbs/datagram_qp.h) on softnic: two on one host, one on another."""

import subprocess

import pytest

import datagram_peers as peers
import pair as pairs

PROGRAM = pairs.BUILD / "tests" / "softnic" / "datagram_peer"


class Answers:
    """The lines that a program writes, one after the other."""

    def __init__(self, program):
        self._program, self._heard = program, 0

    def next(self):
        def line():
            lines = self._program.output.split("\n")[:-1]
            return lines[self._heard:self._heard + 1]

        answer = self._program.wait_for(line, "answer")[0]
        self._heard += 1
        return answer


def start(pair, host):
    program = pair.start(host, PROGRAM, "eth0")
    return peers.Peer(lambda line: program.write(line + "\n"), Answers(program).next)


@pytest.fixture(name="three")
def fixture_three(pair):
    three = [start(pair, host) for host in ("a", "a", "b")]
    for peer in three:
        peer.join()
    return three


def test_every_member_gets_every_datagram(three):
    for sender in (three[0], three[2]):
        peers.all_get_all(sender, three, 1000)


def test_a_changed_key_drops(three):
    sender, here, there = three
    peers.another_key_is_another_group(sender, here, there)


def test_the_error_state_gives_every_receive_back(three):
    peers.all_get_all(three[0], three, 100)
    peers.every_receive_is_given_back(three[2])
    peers.all_get_all(three[0], three[:2], 100)


def test_who_leaves_is_a_member_no_more(pair, three):
    """The program goes on, and the kernel has left the group with the last queue pair of the host."""
    def members(host):
        return subprocess.run(["ip", "-n", pair.namespace(host), "maddr", "show", "dev", "eth0"], capture_output=True,
                              text=True, check=True).stdout

    assert peers.GROUP in members("a") and peers.GROUP in members("b")
    for leaving in (three[0], three[2]):
        assert leaving.ask("leave") == "left"
    assert peers.GROUP in members("a") and peers.GROUP not in members("b")
    assert three[1].ask("leave") == "left"
    assert peers.GROUP not in members("a")


def test_a_group_that_is_none_is_named(pair):
    answer = start(pair, "a").ask("join", "10.8.0.9", 1)
    assert answer.startswith("error: softnic_eth0 port 1 (eth0, 10.8.0.1) cannot ") and "10.8.0.9" in answer, answer
