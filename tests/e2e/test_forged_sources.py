"""A host that speaks as another one, from its own port: it changes nothing, and a counter says so."""

import json
import os
import pathlib
import re
import signal
import struct
import time

import pytest

import modes
import pcap
from harness import assert_all_right

COUNT = 3000
CALL_FRAMES = 4  # a control packet and three of data
PCAP_HEADER_BYTES = 24
SEND_WITH_IMMEDIATE = 0x05
SENDS = (0x00, 0x01, 0x02, 0x04, SEND_WITH_IMMEDIATE)
H0, H1, H2 = (f"52:54:00:00:00:{number:02x}" for number in (1, 2, 3))

# Frames of a file, a line of hexadecimal digits each, by the host's port.
SENDER = """
import socket, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("vec0", 0))
for line in open(sys.argv[1]):
    port.send(bytes.fromhex(line))
"""


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "softnic", "--single-frames")  # it captures packets


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def send(bed, host, frames, tmp_path):
    path = tmp_path / "frames"
    path.write_text("".join(frame.hex() + "\n" for frame in frames), encoding="ascii")
    bed.run(host, "/usr/bin/python3", "-c", SENDER, path)


def first_call(path, timeout_s=20):
    """The frames of a host's first call, each once, when the capture has them all: it may be behind."""
    deadline = time.monotonic() + timeout_s
    while True:
        captured = pcap.frames(path) if path.exists() and path.stat().st_size > PCAP_HEADER_BYTES else []
        by_psn = {pcap.psn(frame): frame for frame in captured if pcap.opcode(frame) in SENDS}
        if len(by_psn) == CALL_FRAMES:
            return by_psn.values()
        assert len(by_psn) < CALL_FRAMES and time.monotonic() < deadline, f"{len(by_psn)} frames of the call captured"
        time.sleep(0.05)


def next_call(frames):
    """What the host whose first call these frames are would send in its second one, but with other data."""
    forged = []
    for frame in frames:
        octets = bytearray(frame)
        octets[51:54] = ((pcap.psn(frame) + CALL_FRAMES) & 0xffffff).to_bytes(3, "big")
        if pcap.opcode(frame) == SEND_WITH_IMMEDIATE:
            octets[54:58] = struct.pack("!I", 1)  # the immediate is the number of the call
            octets[66:74] = struct.pack("<Q", 1)  # and so is this field of the control packet
        else:
            octets[54:-4] = bytes(byte ^ 0x5a for byte in octets[54:-4])
        forged.append(pcap.with_icrc(bytes(octets)))
    return forged


def wait_stopped(pid, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, f"process {pid} has not stopped"
        time.sleep(0.05)


def forge_a_call(bed, mode, hosts, tmp_path):
    """While rank 0, which runs on h0, is stopped between its calls, h1 makes its second one for it.

    Returns how many frames h1 has sent: all of them with h0's address, QPN and PSN, half of them also with its MAC.
    """
    path = tmp_path / "h0.pcap"
    capture = bed.start("leaf1", "tcpdump", "-n", "--immediate-mode", "-U", "-Z", "root", "-i", "swp1", "-Q", "in", "-w",
                        path, "udp", "port", "4791")
    capture.wait_for("listening on")
    group = bed.new_group()
    ranks = [bed.loop(rank, "--mode", mode, "--counts", COUNT, "--iterations", 2, *(["--stop"] if rank == 0 else []),
                      group=group, size=len(hosts), host=host) for rank, host in enumerate(hosts)]
    pid = json.loads(ranks[0].wait_for('"pid"'))["pid"]
    wait_stopped(pid)
    try:
        forged = next_call(first_call(path))
        forged += [frame[:6] + mac(H1) + frame[12:] for frame in forged]
        send(bed, "h1", forged, tmp_path)
    finally:
        os.kill(pid, signal.SIGCONT)
        capture.end(signal.SIGINT)
    assert_all_right(ranks)
    bed.assert_clean()
    return len(forged)


def in_another_partition(frame):
    octets = bytearray(frame)
    octets[44:46] = b"\x80\x01"
    return pcap.with_icrc(bytes(octets))


def send_until(bed, group, host, frames, text, tmp_path):
    """Sends the frames again and again, until an event of the group begins so."""
    deadline = time.monotonic() + 60
    while not any(event["text"].startswith(text) for event in bed.manager("events", "--group", group)["events"]):
        assert time.monotonic() < deadline, f"not told: {text}"
        send(bed, host, frames, tmp_path)


def test_what_is_refused_for_good_ends_the_group_unless_it_is_forged(bed, tmp_path):
    """Rank 0 is stopped between its calls. H1 repeats what rank 0 would send: that is told, and ends nothing. Then rank 0's own port does, in
    another partition: that is what its queue pair sends, and nobody else can."""
    path = tmp_path / "h0.pcap"
    capture = bed.start("leaf1", "tcpdump", "-n", "--immediate-mode", "-U", "-Z", "root", "-i", "swp1", "-Q", "in", "-w",
                        path, "udp", "port", "4791")
    capture.wait_for("listening on")
    group = bed.new_group()
    ranks = [bed.loop(rank, "--counts", COUNT, "--iterations", 2, *(["--stop"] if rank == 0 else []), group=group)
             for rank in range(len(bed.hosts))]
    pid = json.loads(ranks[0].wait_for('"pid"'))["pid"]
    wait_stopped(pid)
    try:
        call = first_call(path)
        send_until(bed, group, "h1", next_call(call), "leaf1 refuses all that comes from rank 0 on h0: wrong_port", tmp_path)
        assert bed.manager("group", "show", group)["state"] == "running"
        send_until(bed, group, "h0", [in_another_partition(frame) for frame in next_call(call)],
                   "failed: leaf1 refuses all that comes from rank 0 on h0: bad_pkey", tmp_path)
    finally:
        os.kill(pid, signal.SIGCONT)
        capture.end(signal.SIGINT)
    for rank in ranks[1:]:
        rank.wait()
        assert "leaf1 refuses all that comes from rank 0 on h0: bad_pkey" in rank.output, rank.output


@pytest.mark.parametrize("mode", modes.NUMBERS)
def test_a_neighbour_cannot_make_anothers_call(bed, mode, tmp_path):
    """Both hang on leaf1: the packets are right but for the port that they come by. In mode IV they are to another host, and
    what is not to the switch must bear its host's own addresses."""
    refused = "forward_drop_forged_source" if modes.BY_NUMBER[mode].bears_hosts else "drop_wrong_port"
    before = bed.counters("leaf1")[refused]
    sent = forge_a_call(bed, mode, bed.hosts, tmp_path)
    assert bed.counters("leaf1")[refused] - before == sent


@pytest.mark.parametrize("mode", modes.NUMBERS)
def test_nor_that_of_a_rank_whose_edge_spans_its_own_switch(bed, mode, tmp_path):
    """Leaf1 has one rank and is left out of the tree: root hears both hosts by one port, leaf1 does not."""
    before = bed.counters("leaf1")["forward_drop_forged_source"]
    sent = forge_a_call(bed, mode, ["h0", "h2", "h3"], tmp_path)
    assert bed.counters("leaf1")["forward_drop_forged_source"] - before == sent


def test_nor_answer_arp_for_another(bed, tmp_path):
    ping = ("ping", "-c", "1", "-w", "20", "10.10.0.1")
    bed.run("h2", *ping)
    # Linux believes nothing new of a neighbour for some time after it has heard of it.
    bed.run("h2", "sysctl", "-qw", "net.ipv4.neigh.vec0.locktime=0")
    claim = (struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + mac(H1) + bytes([10, 10, 0, 1]) + mac(H2) + bytes([10, 10, 0, 3]))
    before = bed.counters("leaf1")["forward_drop_forged_source"]
    send(bed, "h1", [mac(H2) + mac(H1) + b"\x08\x06" + claim + bytes(18)] * 5, tmp_path)
    assert bed.counters("leaf1")["forward_drop_forged_source"] - before == 5
    assert re.search(H0, bed.run("h2", "ip", "neigh", "show", "10.10.0.1"))
    bed.run("h2", *ping)
