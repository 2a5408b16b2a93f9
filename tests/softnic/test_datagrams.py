"""The host library's queue pairs for datagrams (commlib/verbs/datagram_qp.h) on softnic: two on one host, one on another."""

import subprocess

import pytest

import datagram_peers as peers


@pytest.fixture(name="three")
def fixture_three(pair):
    three = [peers.Peer(pair, host, "eth0") for host in ("a", "a", "b")]
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
    answer = peers.Peer(pair, "a", "eth0").ask("join", "10.8.0.9", 1)
    assert answer.startswith("error: softnic_eth0 port 1 (eth0, 10.8.0.1) cannot ") and "10.8.0.9" in answer, answer
