"""What a program is told of its device's port without asking: the link, the addresses, the end. Debian's ibv_asyncwatch shows it."""

import re
import signal

import pair as pairs


def watch(pair, device):
    """A process that shows the events of host a's interface, and has opened it."""
    program = pair.start("a", "--devices", device, "ibv_asyncwatch")
    program.wait_for_line("async event FD")
    return program


def assert_told(program, *types, port=1):
    """Waits for as many events, and these are all that there are."""
    def found():
        return re.findall(r"event_type IBV_EVENT_(\w+) \(\d+\), port (\d)", program.output)
    program.wait_for(lambda: len(found()) >= len(types), f"event {len(types)}")
    assert [kind for kind, _ in found()] == list(types), program.output
    assert found()[-1][1] == str(port), program.output


def change(pair, host, *words):
    pairs.net.run(["ip", "-n", pair.namespace(host), *words])


def test_the_link_goes_down_and_comes_up_again(pair):
    program = watch(pair, "eth0")
    change(pair, "b", "link", "set", "eth0", "down")
    assert_told(program, "PORT_ERR")
    assert "PORT_DOWN" in pair.run("a", "ibv_devinfo")
    change(pair, "b", "link", "set", "eth0", "up")
    assert_told(program, "PORT_ERR", "PORT_ACTIVE")
    assert "PORT_ACTIVE" in pair.run("a", "ibv_devinfo")
    # Each turn is told, however soon the next one comes.
    pairs.net.run(["ip", "netns", "exec", pair.namespace("a"), "sh", "-c",
                   "printf 'link set eth0 %s\\n' down up down up | ip -batch -"])
    assert_told(program, *["PORT_ERR", "PORT_ACTIVE"] * 3)


def test_addresses_come_and_go(pair):
    program = watch(pair, "eth0")
    for count, act in enumerate(("add", "del"), start=1):
        change(pair, "a", "addr", act, "10.8.0.99/24", "dev", "eth0")
        assert_told(program, *["GID_CHANGE"] * count)
    change(pair, "a", "addr", "add", "10.8.0.99/24", "dev", "lo")  # another interface's
    change(pair, "a", "addr", "del", "10.8.0.99/24", "dev", "lo")
    pair.run("a", pairs.BUILD / "tests" / "softnic" / "verbs_test", "--gtest_filter=VerbsPort.*")  # takes the first, and gives it back
    assert_told(program, *["GID_CHANGE"] * 4)
    # What hears of it late, when the address is back, is told of it as well.
    program.process.send_signal(signal.SIGSTOP)
    for act in ("del", "add"):
        change(pair, "a", "addr", act, "10.8.0.1/24", "dev", "eth0")
    program.process.send_signal(signal.SIGCONT)
    assert_told(program, *["GID_CHANGE"] * 6)


def test_an_interface_goes_for_ever(pair):
    change(pair, "a", "link", "add", "gone0", "type", "veth", "peer", "name", "gone1")
    change(pair, "a", "addr", "add", "10.8.1.1/24", "dev", "gone0")
    for name in ("gone0", "gone1"):
        change(pair, "a", "link", "set", name, "up")
    program = watch(pair, "gone0")
    change(pair, "a", "link", "set", "gone0", "down")
    change(pair, "a", "link", "set", "gone0", "name", "gone2")  # it stays what it is by another name
    change(pair, "a", "link", "set", "gone2", "up")
    assert_told(program, "PORT_ERR", "PORT_ACTIVE")
    change(pair, "a", "link", "del", "gone2")
    program.wait_for_line("DEVICE_FATAL")
    # Its addresses go before it; whether that is told depends on when the program is given a processor.
    assert_told(program, "PORT_ERR", "PORT_ACTIVE", "PORT_ERR", *["GID_CHANGE"] * ("GID_CHANGE" in program.output), "DEVICE_FATAL",
                port=0)
