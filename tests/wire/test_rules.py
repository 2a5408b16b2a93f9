"""The fault box's rules for losing frames, without any socket."""

import struct

import pytest

import frames
import rules


def roce(opcode, psn, payload=b"", extra=b""):
    """The bytes of a RoCE frame as far as the forwarder reads them."""
    body = bytes([opcode, 0, 0xff, 0xff, 0]) + (17).to_bytes(3, "big") + b"\x80" + psn.to_bytes(3, "big")
    body += extra + payload + b"icrc"
    udp = struct.pack("!HHHH", 50000, 4791, 8 + len(body), 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(body), 0, 0, 64, 17, 0, b"\x0a\x0a\0\1",
                     b"\x0a\x0a\0\2")
    total = sum(struct.unpack("!10H", ip))
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + ip[12:]
    return bytes(12) + b"\x08\x00" + ip + udp + body


def control(invocation, psn=0):
    return roce(0x05, psn, b"EPIC" + bytes(4) + struct.pack("<Q", invocation) + bytes(48), bytes(4))


def lose(table, *raw):
    return [table.fate("link", "a>b", frames.parse(frame)).drop for frame in raw]


def test_parse_reads_opcode_psn_and_invocation():
    frame = frames.parse(control(70000, psn=0xfffff1))
    assert (frame.opcode, frame.psn, frame.qpn, frame.invocation) == (5, 0xfffff1, 17, 70000)
    data = frames.parse(roce(0x04, 9, b"EPIC" + bytes(60)))
    assert data.name == "SEND_ONLY" and data.invocation is None
    first = frames.parse(roce(0x00, 9, b"EPIC" + bytes(4) + struct.pack("<Q", 7) + bytes(240)))
    assert first.name == "SEND_FIRST" and first.invocation == 7


@pytest.mark.parametrize("syndrome, name", [(0x1f, "ACK"), (0x2c, "RNR_NAK"), (0x60, "NAK")])
def test_parse_tells_acknowledgements_apart(syndrome, name):
    assert frames.parse(roce(0x11, 1, extra=bytes([syndrome, 0, 0, 0]))).name == name


def test_parse_leaves_other_frames_alone():
    tcp = bytearray(control(1))
    tcp[23] = 6
    port = bytearray(control(1))
    port[36:38] = b"\x00\x35"
    for frame in (b"", bytes(60), bytes(tcp), bytes(port), control(1)[:57]):
        assert frames.parse(frame) is None


def test_drop_counts_from_the_first_control_packet_of_the_invocation():
    table = rules.Rules()
    table.handle({"drop": {"invocation": 8, "nth": [1, 3]}})
    data = roce(0x04, 1, bytes(256))
    # The control packet comes again and restarts nothing; invocation 7 coming late does not count as new.
    assert lose(table, data, control(7), data, control(8), control(8), control(7), data) == [
        False, False, False, True, False, True, False]
    assert lose(table, control(9), data, data) == [False] * 3
    count = table.handle({"count": True})
    assert count == {"invocations": {"7": 2, "8": 4, "9": 3}, "frames": 10, "dropped": 2,
                     "faults": {"drop": 2}}
    log = table.handle({"log": True})["dropped"]
    assert [(entry["invocation"], entry["number"]) for entry in log] == [(8, 1), (8, 3)]


def test_drop_each_loses_the_next_frame_of_every_invocation():
    table = rules.Rules()
    table.handle({"drop_each": 5})
    data = roce(0x04, 1, bytes(256))
    assert lose(table, control(4), data) == [False, False]
    assert lose(table, control(5), data, data) == [True, False, False]
    assert lose(table, control(6), data, data) == [False, True, False]
    assert lose(table, control(7), data, data) == [False, False, True]


def test_random_loss_is_reproducible_and_about_as_much_as_asked():
    frame = frames.parse(roce(0x04, 1))

    def run(seed):
        table = rules.Rules()
        table.handle({"random_loss_ppm": 100000, "seed": seed})
        return [table.fate("link", "a>b", frame).drop for _ in range(2000)]

    assert run(1) == run(1) != run(2)
    assert 140 < sum(run(1)) < 260  # the same in every run


def test_clear_forgets_rules_and_counts():
    table = rules.Rules()
    table.handle({"drop_each": 1})
    lose(table, control(1))
    table.handle({"clear": True})
    assert lose(table, control(1)) == [False]
    assert table.handle({"count": True})["frames"] == 1


@pytest.mark.parametrize("request_", [{}, {"drop": 5}, {"drop": {"nth": [1]}}, {"random_loss_ppm": "much"}])
def test_bad_requests_are_refused(request_):
    with pytest.raises(rules.RuleError):
        rules.Rules().handle(request_)
