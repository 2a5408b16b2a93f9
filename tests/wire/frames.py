"""What the fault box sees of a frame: RoCE or not, opcode, PSN, invocation that a control packet opens."""

import struct

ROCE_PORT = 4791
_MAGIC = b"EPIC"
_SEND_FIRST = 0x00
_SEND_ONLY_IMM = 0x05
_BTH = 42            # where the RoCE packet begins, behind Ethernet, IPv4 and UDP
_UNCOVERED = 46      # FECN, BECN and reserved bits of the BTH: the ICRC leaves them out
_OPCODES = {0x00: "SEND_FIRST", 0x01: "SEND_MIDDLE", 0x02: "SEND_LAST", 0x03: "SEND_LAST_IMM",
            0x04: "SEND_ONLY", 0x05: "SEND_ONLY_IMM", 0x06: "WRITE_FIRST", 0x07: "WRITE_MIDDLE",
            0x08: "WRITE_LAST", 0x09: "WRITE_LAST_IMM", 0x0a: "WRITE_ONLY", 0x0b: "WRITE_ONLY_IMM",
            0x0c: "READ_REQUEST",
            0x0d: "READ_FIRST", 0x0e: "READ_MIDDLE", 0x0f: "READ_LAST", 0x10: "READ_ONLY", 0x11: "ACK",
            0x12: "ATOMIC_ACK", 0x13: "COMPARE_SWAP", 0x14: "FETCH_ADD",
            0x16: "SEND_LAST_INV", 0x17: "SEND_ONLY_INV",
            0x64: "UD_SEND_ONLY", 0x65: "UD_SEND_ONLY_IMM", 0x81: "CNP"}
_SYNDROMES = ("ACK", "RNR_NAK", "0x40", "NAK")
NAMES = frozenset(_OPCODES.values()) | frozenset(_SYNDROMES)


class RoceFrame:
    """The fields of one RoCE frame. `invocation` is None unless it is a control packet; `name` names the
    opcode, and of an acknowledgement also its kind (ACK, RNR_NAK, NAK); `bits` is how many corrupt() may
    flip."""

    __slots__ = ("opcode", "psn", "qpn", "invocation", "name", "bits", "packets")

    def __init__(self, opcode, psn, qpn, invocation, name, bits):
        self.opcode, self.psn, self.qpn, self.invocation = opcode, psn, qpn, invocation
        self.name, self.bits = name, bits
        self.packets = 1  # of a super-frame more: then the other fields are those of its first packet


def parse(frame):
    """The RoceFrame in the bytes of an Ethernet frame, or None if it is anything else. Checks no ICRC."""
    if len(frame) < 58 or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        return None
    if (frame[36] << 8 | frame[37]) != ROCE_PORT:
        return None
    opcode = frame[42]
    qpn, psn = (int.from_bytes(frame[at:at + 3], "big") for at in (47, 51))
    invocation = None
    # With immediate data the header comes after them; the first packet of several has none.
    header = {_SEND_ONLY_IMM: 58, _SEND_FIRST: 54}.get(opcode)
    if header is not None and len(frame) >= header + 68 and frame[header:header + 4] == _MAGIC:
        invocation = struct.unpack_from("<Q", frame, header + 8)[0]
    name = _OPCODES.get(opcode, f"0x{opcode:02x}")
    if opcode == 0x11:
        name = _SYNDROMES[frame[54] >> 5 & 3]
    return RoceFrame(opcode, psn, qpn, invocation, name, 8 * (_end(frame) - _BTH - 1))


def _end(frame):
    """Where the RoCE packet ends; Ethernet padding may follow."""
    return min(len(frame), max(58, 14 + (frame[16] << 8 | frame[17])))


def packets(frame, segment_bytes):
    """How many packets a frame has whose packets but the last are so long (0: it is no super-frame)."""
    return -(-(_end(frame) - _BTH) // segment_bytes) if segment_bytes else 1


def cut(frame, keep):
    """The first bytes of a frame whose headers still say that it is longer; at least those headers."""
    return frame[:max(keep, _BTH)]


def corrupt(frame, bit):
    """The frame with one bit flipped: the bit-th that the ICRC covers, or of the ICRC itself."""
    at = _BTH + bit // 8
    if at >= _UNCOVERED:
        at += 1
    return frame[:at] + bytes([frame[at] ^ 1 << bit % 8]) + frame[at + 1:]
