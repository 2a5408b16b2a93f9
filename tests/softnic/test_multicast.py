"""Datagrams to a multicast group, from one namespace to the other and within one."""

import pathlib
import subprocess
import sys

import pair as pairs

PROGRAM = pairs.BUILD / "tests" / "softnic" / "verbs_multicast"
GROUP = "239.1.2.3"


def members(pair, host):
    """The groups that the host's kernel has told the network of."""
    return subprocess.run(["ip", "-n", pair.namespace(host), "maddr", "show", "dev", "eth0"], capture_output=True,
                          text=True, check=True).stdout


def receivers(pair, *hosts):
    """A process on each of the hosts, attached to the group, that expects three datagrams."""
    started = [pair.start(host, PROGRAM, "receive", GROUP, 3) for host in hosts]
    for receiver in started:
        receiver.wait_for_line("^ready$")
    return started


def test_who_is_attached_receives_and_nobody_else(pair):
    receiver, = receivers(pair, "b")
    assert GROUP in members(pair, "b")
    pair.run("a", PROGRAM, "send", "239.1.2.4", 2)  # another group
    pair.run("a", PROGRAM, "send", GROUP, 3)
    receiver.wait_for_line("^detached$")
    assert GROUP not in members(pair, "b")
    pair.run("a", PROGRAM, "send", GROUP, 2)
    assert "got 1\ngot 2\ngot 3\n" in receiver.finish(20)


def test_members_on_the_senders_machine_receive_too(pair):
    started = receivers(pair, "a", "a", "b")
    pair.run("a", PROGRAM, "send", GROUP, 3)
    for receiver in started:
        assert "got 1\ngot 2\ngot 3\n" in receiver.finish(20)


def test_a_network_that_gives_frames_back_makes_no_duplicates(pair):
    reflector = pair.start("b", sys.executable, pathlib.Path(__file__).with_name("reflector.py"), "eth0")
    reflector.wait_for_line("^ready$")
    started = receivers(pair, "a", "a")
    pair.run("a", PROGRAM, "send", GROUP, 3)
    for receiver in started:
        assert "got 1\ngot 2\ngot 3\n" in receiver.finish(20)
    assert reflector.output.count("reflected") >= 3


def test_a_member_hears_an_address_that_came_later(pair):
    """The sender opens its device when the interface has another address than when the member did."""
    receiver, = receivers(pair, "a")
    change = ["ip", "-n", pair.namespace("a"), "addr"]
    old, new = f"{pair.address['a']}/24", "10.8.0.7/24"
    try:
        pairs.net.run(change + ["del", old, "dev", "eth0"])
        pairs.net.run(change + ["add", new, "dev", "eth0"])
        pair.run("a", PROGRAM, "send", GROUP, 3)
        assert "got 1\ngot 2\ngot 3\n" in receiver.finish(20)
    finally:
        pairs.net.run(change + ["flush", "dev", "eth0", "scope", "global"])
        pairs.net.run(change + ["add", old, "dev", "eth0"])
