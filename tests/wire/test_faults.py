"""Rules and chance of the fault box, and what a line makes of them, without any socket."""

import struct
import zlib

import pytest

import faults
import frames
import lines
import rules
from test_rules import control, roce

DATA = roce(0x04, 1, bytes(256))


def fates(table, raw, count=1, link="link", direction="a>b"):
    return [table.fate(link, direction, frames.parse(raw)) for _ in range(count)]


def ack(qpn, psn=0):
    raw = roce(0x11, psn, extra=bytes([0x1f, 0, 0, 0]))
    return raw[:47] + qpn.to_bytes(3, "big") + raw[50:]


# --- rules


def test_the_third_ack_of_a_qpn():
    table = rules.Rules()
    number = table.handle({"fault": {"action": "drop", "opcode": "ACK", "qpn": 7, "nth": 3}})["rule"]
    sequence = [ack(7), DATA, ack(8), ack(7), ack(9), ack(7), ack(7)]
    assert [fates(table, raw)[0].drop for raw in sequence] == [False] * 5 + [True, False]
    assert table.handle({"rules": True})["rules"] == [
        {"rule": number, "action": "drop", "opcode": "ACK", "qpn": 7, "seen": 4, "hits": 1}]


@pytest.mark.parametrize("criteria", [{"psn": 1}, {"direction": "a>b"}, {"link": "link"}, {"invocation": 4},
                                      {"opcode": "SEND_ONLY", "qpn": 17}])
def test_each_criterion_excludes_other_frames(criteria):
    table = rules.Rules()
    fates(table, control(4))
    table.handle({"fault": {"action": "drop", **criteria}})
    assert fates(table, DATA)[0].drop
    name, value = next(iter(criteria.items()))
    table = rules.Rules()
    fates(table, control(4))
    table.handle({"fault": {"action": "drop", **criteria, name: "ACK" if name == "opcode" else f"{value}x"}})
    assert not fates(table, DATA)[0].drop


def test_every_and_lists():
    table = rules.Rules()
    table.handle({"fault": {"action": "duplicate", "copies": 2, "every": 3}})
    table.handle({"fault": {"action": "delay", "delay_ms": 20, "nth": [1, 3]}})
    seen = fates(table, DATA, 6)
    assert [fate.copies for fate in seen] == [0, 0, 2, 0, 0, 2]
    assert [fate.delay_s for fate in seen] == [0.02, 0, 0.02, 0, 0, 0]
    assert table.handle({"count": True})["faults"] == {"duplicate": 2, "delay": 2}
    log = table.handle({"faults": True})["faults"]
    assert [(entry["number"], entry["fate"]) for entry in log] == [
        (1, "delay 20.0 ms (rule 2)"), (3, "duplicate 2 (rule 1), delay 20.0 ms (rule 2)"),
        (6, "duplicate 2 (rule 1)")]


@pytest.mark.parametrize("bad, message", [
    ({"action": "lose"}, "there are the actions"), ({}, "action"),
    ({"action": "drop", "nth": 0}, "counts from 1"), ({"action": "drop", "color": "red"}, "unknown: color"),
    ({"action": "drop", "opcode": "AKC"}, "the opcodes"), ({"action": "delay"}, "delay_ms"),
    ({"action": "reorder", "depth": 0}, "above 0"), ("drop", "bad fault")])
def test_bad_rules_are_refused(bad, message):
    with pytest.raises(rules.RuleError, match=message):
        rules.Rules().handle({"fault": bad})


@pytest.mark.parametrize("bad", [{"drop_ppm": 1000001}, {"loss_ppm": 1}, {"depth": 0}, {"seed": "x"}, 5])
def test_bad_rates_are_refused(bad):
    with pytest.raises(rules.RuleError, match="bad random"):
        rules.Rules().handle({"random": bad})


# --- chance

RATES = {"drop_ppm": 10000, "duplicate_ppm": 20000, "reorder_ppm": 50000, "depth": 16, "delay_ppm": 5000,
         "delay_ms": 3, "corrupt_ppm": 40000, "cut_ppm": 30000}


def words(table, count, direction="a>b"):
    return [tuple(fate.words) for fate in fates(table, DATA, count, direction=direction)]


def with_chance(seed):
    table = rules.Rules()
    table.handle({"random": {"seed": seed, **RATES}})
    return table


def test_a_seed_decides_the_same_for_the_same_frames():
    assert words(with_chance(1), 3000) == words(with_chance(1), 3000) != words(with_chance(2), 3000)


def test_directions_do_not_disturb_each_other():
    table, alone = with_chance(5), with_chance(5)
    mixed = []
    for _ in range(500):
        mixed += words(table, 1)
        words(table, 3, direction="b>a")
    assert mixed == words(alone, 500)
    assert words(with_chance(5), 500, direction="b>a") != mixed


def test_rates_and_depths_are_about_as_asked():
    seen = fates(with_chance(3), DATA, 20000)
    share = {"drop": sum(f.drop for f in seen), "copies": sum(f.copies for f in seen),
             "depth": sum(f.depth > 0 for f in seen), "delay": sum(f.delay_s > 0 for f in seen),
             "bit": sum(f.bit is not None for f in seen), "keep": sum(f.keep is not None for f in seen)}
    expected = {"drop": 200, "copies": 400, "depth": 1000, "delay": 100, "bit": 800, "keep": 600}
    # A seed decides the same each time (above): these bounds hold in every run or in none.
    for kind, number in expected.items():
        assert 0.7 * number < share[kind] < 1.3 * number, share
    assert {f.depth for f in seen if f.depth} == set(range(1, 17))


# --- corruption


def test_every_bit_that_may_be_flipped_is_covered_by_the_icrc():
    raw = DATA + bytes(9)  # the padding is not the packet's
    end = 14 + int.from_bytes(raw[16:18], "big")

    def check(frame):
        masked = bytearray(frame[14:end - 4])
        masked[1] = masked[8] = masked[32] = 0xff
        masked[10:12] = masked[26:28] = b"\xff\xff"
        return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked)) == frame[end - 4:end]

    masked = bytearray(raw[14:end - 4])
    masked[1] = masked[8] = masked[32] = 0xff
    masked[10:12] = masked[26:28] = b"\xff\xff"
    right = raw[:end - 4] + struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked)) + raw[end:]
    assert check(right)
    bits = frames.parse(right).bits
    changed = {frames.corrupt(right, bit) for bit in range(bits)}
    assert len(changed) == bits == 8 * (end - 43)
    for frame in changed:
        assert len(frame) == len(right) and not check(frame)


# --- super-frames

SEGMENT = 12 + 256 + 4
SUPER = roce(0x00, 5, (bytes(256) + b"icrc" + bytes(12)) * 2 + bytes(100))  # two packets of that length, and a shorter one


def test_a_super_frame_has_packets_and_a_cut_leaves_it_its_headers():
    assert frames.parse(SUPER).psn == 5
    assert [frames.packets(SUPER, SEGMENT), frames.packets(SUPER, 0), frames.packets(DATA, 0)] == [3, 1, 1]
    assert frames.cut(SUPER, 42 + SEGMENT + 7) == SUPER[:42 + SEGMENT + 7]
    assert frames.cut(SUPER, 5) == SUPER[:42] and frames.cut(SUPER, len(SUPER) + 1) == SUPER


def test_a_rule_for_super_frames_spares_other_frames():
    table = rules.Rules()
    table.handle({"fault": {"action": "cut", "super_frame": True, "keep": 400}})
    long = frames.parse(SUPER)
    long.packets = 3
    assert table.fate("link", "a>b", long).keep == 400
    assert fates(table, DATA)[0].keep is None
    assert [(entry["packets"], entry["fate"]) for entry in table.handle({"faults": True})["faults"]] == [
        (3, "cut to 400 (rule 1)")]


# --- lines


def fate(**values):
    made = faults.Fate()
    for name, value in values.items():
        setattr(made, name, value)
    made.words = ["made"]
    return made


def test_a_line_without_faults_keeps_the_order():
    line = lines.Line()
    assert [list(line.push(0, raw, None)) for raw in (b"1", b"2")] == [[b"1"], [b"2"]]
    assert line.deadline() is None and line.due(100) == []


def test_lost_and_repeated():
    line = lines.Line()
    assert not line.push(0, b"1", fate(drop=True, copies=3))
    assert list(line.push(0, b"2", fate(copies=2))) == [b"2"] * 3


def test_a_reordered_frame_is_passed_by_as_many_as_said():
    line = lines.Line()
    out = [list(line.push(0, b"1", fate(depth=2)))]
    out += [list(line.push(0, raw, None)) for raw in (b"2", b"3", b"4")]
    assert out == [[], [b"2"], [b"3", b"1"], [b"4"]]
    assert line.deadline() is None


def test_a_reordered_frame_that_nothing_passes_goes_on_in_time():
    line = lines.Line()
    assert not line.push(10, b"1", fate(depth=2, hold_s=0.5))
    assert list(line.push(10.1, b"2", None)) == [b"2"]
    assert line.deadline() == 10.5 and line.due(10.4) == [] and line.due(10.5) == [b"1"]
    assert list(line.push(11, b"3", None)) == [b"3"]


def test_reordered_frames_pass_each_other_and_copies_leave_at_once():
    line = lines.Line()
    assert not line.push(0, b"1", fate(depth=2))
    assert list(line.push(0, b"2", fate(depth=1, copies=1))) == [b"2"]
    assert list(line.push(0, b"3", None)) == [b"3", b"1", b"2"]


def test_delayed_frames_keep_their_order_and_others_overtake_them():
    line = lines.Line()
    for at, raw in enumerate((b"1", b"2")):
        assert not line.push(at, raw, fate(delay_s=5))
    assert list(line.push(2, b"3", None)) == [b"3"]
    assert line.deadline() == 5 and line.due(4.9) == []
    assert line.due(7) == [b"1", b"2"] and line.deadline() is None


def test_a_corrupted_frame_goes_on():
    raw = control(1)
    sent = list(lines.Line().push(0, raw, fate(bit=200, copies=1)))
    assert len(sent) == 2 and sent[0] == sent[1] == frames.corrupt(raw, 200) != raw


def test_a_frame_that_was_cut_goes_on_shorter():
    assert list(lines.Line().push(0, SUPER, fate(keep=400, copies=1))) == [SUPER[:400]] * 2
