"""The fault box between real rdma_rxe and the switches: what it does is seen, repaired and counted."""

import pytest

from harness import assert_all_right

SPEC = ("tree-3-2", "--hosts", "rxe", "--mtu", "1024", "--wire")


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*SPEC)


def test_a_corrupted_frame_is_dropped_and_counted_by_the_switch(bed):
    before = bed.counters("leaf1")
    bed.wire.fault("corrupt", direction="h0>leaf1", opcode="SEND_MIDDLE", nth=[2, 5, 9])
    assert_all_right(bed.loops("--counts", "20001", "--iterations", 5))
    after = bed.counters("leaf1")
    assert bed.wire.rules()[0]["hits"] == 3
    assert after["bad_roce_bad_icrc"] - before["bad_roce_bad_icrc"] == 3
    assert bed.counters("leaf2")["bad_roce_bad_icrc"] == 0


def test_a_frame_that_the_switch_corrupts_is_repaired_by_the_host(bed):
    bed.wire.fault("corrupt", direction="leaf2>h3", opcode="SEND_MIDDLE", nth=4, bit=1000)
    assert_all_right(bed.loops("--counts", "20001", "--iterations", 5))
    assert bed.wire.rules()[0]["hits"] == 1


@pytest.mark.parametrize("opcode, direction", [("ACK", "h1>leaf1"), ("ACK", "leaf1>h1"),
                                               ("SEND_LAST", "h1>leaf1"), ("SEND_LAST", "leaf1>h1")])
def test_one_frame_of_a_kind(bed, opcode, direction):
    """Each fault once, in calls of their own; a busy receiver acknowledges several calls at once, so that of ACKs not each call has one."""
    faults = [("drop", {}), ("duplicate", {"copies": 3}), ("reorder", {"depth": 2, "hold_ms": 20}),
              ("delay", {"delay_ms": 300}), ("corrupt", {})]
    for number, (action, options) in enumerate(faults):
        where = {"nth": 1 + 2 * number} if opcode == "ACK" else {"invocation": 1 + number, "nth": 1}
        bed.wire.fault(action, opcode=opcode, direction=direction, **where, **options)
    assert_all_right(bed.loops("--counts", "5000", "--iterations", 20 if opcode == "ACK" else 7, "--pause-ms", 50))
    assert [rule["hits"] for rule in bed.wire.rules()] == [1] * len(faults)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow),
                                  pytest.param(3, marks=pytest.mark.slow)])
def test_everything_at_random(bed, seed):
    bed.wire.random_faults(seed, drop_ppm=10000, duplicate_ppm=10000, reorder_ppm=10000, depth=16,
                           corrupt_ppm=1000)
    assert_all_right(bed.loops("--counts", "1,257,4000,20001", "--iterations", 40, timeout_s=180), 180)
    count = bed.wire.count()
    print(f"\n{count['frames']} frames, {count['faults']}")
    assert set(count["faults"]) == {"drop", "duplicate", "reorder", "corrupt"}, count


def test_nothing_remains(bed):
    bed.assert_clean()
