"""What the forwarder sees of a frame: RoCE or not, opcode, PSN, invocation that a control packet opens."""

import struct

ROCE_PORT = 4791
_MAGIC = b"EPIC"
_SEND_ONLY_IMM = 0x05
_OPCODES = {0x00: "SEND_FIRST", 0x01: "SEND_MIDDLE", 0x02: "SEND_LAST", 0x04: "SEND_ONLY",
            0x05: "SEND_ONLY_IMM", 0x06: "WRITE_FIRST", 0x07: "WRITE_MIDDLE", 0x08: "WRITE_LAST", 0x0a: "WRITE_ONLY",
            0x11: "ACK"}


class RoceFrame:
    """The fields of one RoCE frame. `invocation` is None unless it is a control packet; `name` names the
    opcode, and of an acknowledgement also its kind (ACK, RNR_NAK, NAK)."""

    __slots__ = ("opcode", "psn", "qpn", "invocation", "name")

    def __init__(self, opcode, psn, qpn, invocation, name):
        self.opcode, self.psn, self.qpn, self.invocation, self.name = opcode, psn, qpn, invocation, name


def parse(frame):
    """The RoceFrame in the bytes of an Ethernet frame, or None if it is anything else. Checks no ICRC."""
    if len(frame) < 58 or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        return None
    if (frame[36] << 8 | frame[37]) != ROCE_PORT:
        return None
    opcode = frame[42]
    qpn, psn = (int.from_bytes(frame[at:at + 3], "big") for at in (47, 51))
    invocation = None
    if opcode == _SEND_ONLY_IMM and len(frame) >= 126 and frame[58:62] == _MAGIC:
        invocation = struct.unpack_from("<Q", frame, 66)[0]
    name = _OPCODES.get(opcode, f"0x{opcode:02x}")
    if opcode == 0x11:
        name = ("ACK", "RNR_NAK", "0x40", "NAK")[frame[54] >> 5 & 3]
    return RoceFrame(opcode, psn, qpn, invocation, name)
