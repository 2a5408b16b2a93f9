"""Reads captures, and checks and writes the ICRC of RoCEv2 frames: independent of our C++."""

import struct
import zlib

ROCE_PORT = 4791


def frames(path):
    """The frames of a pcap file, as bytes; a frame that was cut off by the capture is an error."""
    with open(path, "rb") as file:
        data = file.read()
    endian = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}[data[:4]]
    at, found = 24, []
    while at + 16 <= len(data):
        _, _, stored, length = struct.unpack_from(endian + "IIII", data, at)
        at += 16
        if at + stored > len(data):
            break  # the capture was ended while it wrote this one
        assert stored == length, f"{path}: a frame of {length} bytes was captured with {stored} only"
        found.append(data[at:at + stored])
        at += stored
    return found


def is_roce(frame):
    return (len(frame) >= 58 and frame[12:14] == b"\x08\x00" and frame[14] == 0x45 and frame[23] == 17 and
            struct.unpack_from("!H", frame, 36)[0] == ROCE_PORT)


def _packet(frame):
    """The IP packet without Ethernet padding."""
    return frame[14:14 + struct.unpack_from("!H", frame, 16)[0]]


def icrc(packet):
    """The ICRC of an IPv4 packet whose last four bytes are its place (InfiniBand specification, A17.3.3)."""
    masked = bytearray(packet[:-4])
    masked[1] = masked[8] = 0xff              # type of service, time to live
    masked[10:12] = masked[26:28] = b"\xff\xff"  # checksums of IP and UDP
    masked[32] = 0xff                         # BTH: FECN, BECN, reserved
    return zlib.crc32(b"\xff" * 8 + masked)


def icrc_ok(frame):
    packet = _packet(frame)
    return struct.unpack("<I", packet[-4:])[0] == icrc(packet)


def with_icrc(frame):
    """The frame with IP checksum and ICRC made right."""
    packet = bytearray(_packet(frame))
    packet[10:12] = b"\0\0"
    total = sum(struct.unpack("!10H", packet[:20]))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    packet[10:12] = struct.pack("!H", ~total & 0xffff)
    packet[-4:] = struct.pack("<I", icrc(packet))
    return frame[:14] + bytes(packet)


def opcode(frame):
    return frame[42]


def psn(frame):
    return int.from_bytes(frame[51:54], "big")


def destination_qpn(frame):
    return int.from_bytes(frame[47:50], "big")


def is_data(frame):
    """A Send of any position with payload: control packets have an opcode of their own (with immediate)."""
    return opcode(frame) in (0x00, 0x01, 0x02, 0x04)


def source_ip(frame):
    return ".".join(str(b) for b in frame[26:30])


def source_mac(frame):
    return ":".join(f"{b:02x}" for b in frame[6:12])
