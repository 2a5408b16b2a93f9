"""Datagrams to a multicast group, from one namespace to the other."""

import subprocess

import pair as pairs

PROGRAM = pairs.BUILD / "tests" / "softnic" / "verbs_multicast"
GROUP = "239.1.2.3"


def members(pair, host):
    """The groups that the host's kernel has told the network of."""
    return subprocess.run(["ip", "-n", pair.namespace(host), "maddr", "show", "dev", "eth0"], capture_output=True,
                          text=True, check=True).stdout


def test_who_is_attached_receives_and_nobody_else(pair):
    receiver = pair.start("b", PROGRAM, "receive", GROUP, 3)
    receiver.wait_for(lambda: "ready" in receiver.output, "ready", 20)
    assert GROUP in members(pair, "b")
    pair.run("a", PROGRAM, "send", "239.1.2.4", 2)  # another group
    pair.run("a", PROGRAM, "send", GROUP, 3)
    receiver.wait_for(lambda: "detached" in receiver.output, "detached", 20)
    assert GROUP not in members(pair, "b")
    pair.run("a", PROGRAM, "send", GROUP, 2)
    assert "got 1\ngot 2\ngot 3\n" in receiver.finish(20)
