"""A test bed with --wire: ordinary traffic passes, RoCE frames get what was asked for. Needs root."""

import socket
import time

import pytest

import frames
from epic_testbed import net
from test_rules import roce
from wire_client import Wire, WireError


@pytest.fixture(name="wire")
def fixture_wire(testbed):
    """Connects once the bed is up: call it."""
    wires = []

    def connect():
        wires.append(Wire(testbed.path("wire.sock")))
        return wires[0]

    yield connect
    for wire in wires:
        wire.close()


def test_ordinary_traffic_passes_whole(testbed, wire):
    testbed("up", "tree-3-2", "--hosts", "none", "--bridge", "--wire")
    testbed("exec", "h0", "--", "ping", "-c", "3", "-i", "0.2", "-w", "20", "-M", "do", "-s", "4148", "10.10.0.4")
    connection = wire()
    assert connection.count()["frames"] == 0
    with pytest.raises(WireError, match="no command"):
        connection.request(nonsense=1)


def packet_socket(testbed, host):
    with net.inside(testbed.namespace(host)):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.settimeout(10)
    sock.bind(("vec0", 3))
    return sock


def test_roce_frames_are_lost_repeated_reordered_delayed_and_corrupted(testbed, wire):
    testbed("up", "star-2", "--hosts", "none", "--bridge", "--wire")
    connection = wire()
    there = {"direction": "h0>s1"}
    connection.fault("drop", psn=2, **there)
    connection.fault("duplicate", psn=3, **there)
    connection.fault("reorder", psn=4, depth=2, hold_ms=60000, **there)
    connection.fault("corrupt", psn=6, bit=100, **there)
    connection.fault("delay", psn=7, delay_ms=1000, **there)
    connection.fault("reorder", psn=9, depth=5, **there)  # nothing passes it
    macs = bytes.fromhex("525400000002525400000001")
    sent = {psn: macs + roce(0x04, psn, bytes(64))[12:] for psn in range(1, 10)}
    with packet_socket(testbed, "h0") as h0, packet_socket(testbed, "h1") as h1:
        for count, frame in enumerate(sent.values(), 1):
            h0.send(macs + bytes.fromhex("88b5") + bytes(50))  # as hosts do unasked: it counts for nothing
            h0.send(frame)
            while connection.count()["frames"] < count:  # the kernel may reorder what several processors send
                time.sleep(0.01)
        got = []
        while len(got) < 9:
            frame = h1.recv(65536)
            if frames.parse(frame):
                got.append(frame)
    # 7 and 9 come when their times have passed: the order of the two is tested in virtual time (test_faults.py).
    untimed = [frame for frame in got if frames.parse(frame).psn not in (7, 9)]
    assert [frames.parse(frame).psn for frame in untimed] == [1, 3, 3, 5, 6, 4, 8]
    assert sorted(frames.parse(frame).psn for frame in got) == [1, 3, 3, 4, 5, 6, 7, 8, 9]
    assert untimed[4] == frames.corrupt(sent[6], 100)
    assert all(frame == sent[frames.parse(frame).psn] for frame in got if frame != untimed[4])
    assert [entry["fate"] for entry in connection.faults()] == [
        "drop (rule 1)", "duplicate 1 (rule 2)", "reorder 2 (rule 3)", "corrupt bit 100 (rule 4)",
        "delay 1000.0 ms (rule 5)", "reorder 5 (rule 6)"]
    assert {rule["hits"] for rule in connection.rules()} == {1}
    with open(testbed.path("logs", "wire.log"), encoding="utf-8") as log:
        assert [line.rpartition(": ")[2].strip() for line in log] == [e["fate"] for e in connection.faults()]
