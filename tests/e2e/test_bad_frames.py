"""Frames that are broken or from strangers are counted drops and disturb nothing."""

import socket
import struct

import pytest

import pcap
from epic_testbed import net

FULL = 1000  # bytes that a frame of the collectives has at least; those by which their ranks agree to go on are short


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "rxe")  # send() is at the guests' ports


def send(bed, host, frames):
    """Puts frames on the wire from a host to its switch."""
    with net.inside(f"epic-{bed.name}-hosts"):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with sock:
        sock.bind((f"d-{host}", 0))
        for frame in frames:
            sock.send(frame)


def host_frames(bed, tmp_path):
    """Some full frames that h0 sent to leaf1 in a run that goes on."""
    path = tmp_path / "h0.pcap"
    bed.run("leaf1", "tcpdump", "-n", "-Z", "root", "-i", "swp1", "-Q", "in", "-c", "40", "-w", path,
            "udp", "port", "4791")
    return [frame for frame in pcap.frames(path) if pcap.is_data(frame) and len(frame) > FULL]


def changed(frame, at, value):
    return frame[:at] + value + frame[at + len(value):]


def make_bad_icrc(frame):
    return changed(frame, len(frame) - 10, bytes([frame[-10] ^ 0x55]))


def make_truncated(frame):
    return frame[:len(frame) - 100]


def make_headless(frame):
    return frame[:45]


def make_stranger(frame):
    return pcap.with_icrc(changed(frame, 26, bytes([10, 10, 0, 77])))


def make_unknown_qpn(frame):
    return pcap.with_icrc(changed(frame, 47, struct.pack("!I", 0xabcdef)[1:]))


def make_bad_opcode(frame):
    return pcap.with_icrc(changed(frame, 42, b"\x1f"))


def make_replayed(frame):
    return frame


BAD = [
    (make_bad_icrc, "bad_roce_bad_icrc"), (make_truncated, "bad_roce_truncated"),
    (make_headless, "bad_roce_truncated"), (make_stranger, "drop_stranger"),
    (make_unknown_qpn, "drop_unknown_qpn"),
    (make_bad_opcode, "bad_roce_unknown_opcode"), (make_replayed, "drop_duplicate")]


def test_bad_frames_are_counted_and_harmless(bed, tmp_path):
    """Each kind by itself, all while the same collectives go on."""
    ranks = bed.loops_until_told("--counts", "3000", "--pause-ms", 10)
    frames = host_frames(bed, tmp_path)
    assert frames
    for make, counter in BAD:
        before = bed.counters("leaf1")[counter]
        send(bed, "h0", [make(frame) for frame in (frames * 10)[:50]])
        counted = bed.counters("leaf1")[counter] - before
        assert counted >= 50, f"{make.__name__}: {counted} more {counter}"
    bed.end_loops(ranks)
    bed.assert_clean()
