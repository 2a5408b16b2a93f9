"""Unreliable connections over softnic: unmodified programs, and one of ours that counts what a lossy network leaves.

Nothing is repeated: perftest waits for ever where a message is lost. What the receiver's ring can take (a thousand
packets) is not lost, and the runs here are no longer; so there is no -a of programs that wait for 8 MiB. What is marked slow as a product is in the default run as a cover
(test_covers.py).

Needs a build of uc_end: cmake --build build/release --target uc_end.
"""

import re

import pytest

import pair as pairs
from perftest import BW, LAT, PERFTEST, result, run_perftest

UC_END = pairs.BUILD / "tests" / "rxe_peer" / "uc_end"
UC_MESSAGES = 200
UNRELIABLE = [program for program in BW + LAT if "read" not in program]


@pytest.mark.slow
@pytest.mark.parametrize("events", [(), ("-e",)], ids=["poll", "events"])
def test_pingpong(pair, events):
    for said in pair.run_both("ibv_uc_pingpong", "-g", "1", "-c", "-n", "200", *events):
        assert "invalid data" not in said
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", said, re.M), said


@pytest.mark.slow
@pytest.mark.parametrize("program", UNRELIABLE)
@pytest.mark.parametrize("size,iterations", [(2, 200), (4096, 200), (65536, 40)])
def test_perftest(pair, program, size, iterations):
    run_perftest(pair, program, size, "-c", "UC", iterations=iterations)


@pytest.mark.slow
def test_several_queue_pairs_and_events(pair):
    run_perftest(pair, "ib_send_bw", 4096, "-c", "UC", "-q", 4, "-e", iterations=50)


@pytest.mark.slow
def test_inline_and_small_packets(pair):
    run_perftest(pair, "ib_write_lat", 64, "-c", "UC", "-I", 64)
    run_perftest(pair, "ib_send_bw", 4096, "-c", "UC", "-m", 256, iterations=30)


@pytest.mark.slow
def test_within_one_namespace(pair):
    run_perftest(pair, "ib_send_lat", 4096, "-c", "UC", server="a", client="a")


def test_a_write_that_the_ring_has_no_room_for(pair):
    """Nobody waits for it to arrive."""
    run_perftest(pair, "ib_write_bw", 8 << 20, "-c", "UC", iterations=5)


@pytest.mark.slow
def test_writes_of_every_size(pair):
    """Nobody waits for them to arrive."""
    client, _ = pair.run_both("ib_write_bw", *PERFTEST, "-c", "UC", "-a", "-n", 5)
    for power in range(1, 24):
        assert result(client, 1 << power)[0] == 5


@pytest.mark.slow
@pytest.mark.parametrize("program", [program for program in UNRELIABLE if program != "ib_write_bw"])
@pytest.mark.parametrize("power", range(1, 20))
def test_every_size_that_the_ring_takes(pair, program, power):
    run_perftest(pair, program, 1 << power, "-c", "UC", iterations=5)


def connected_ends(pair, hosts="ab"):
    """The program on both hosts, joined; they send from now on. The first is side 0."""
    ends = [pair.start(host, UC_END, pair.address[other], side, "wait")
            for side, (host, other) in enumerate((hosts, hosts[::-1]))]
    numbers = [end.wait_for_line(r"^qpn (\d+) rkey (\d+) address (\d+)") for end in ends]
    for end, of_other in zip(ends, reversed(numbers)):
        end.write(" ".join(of_other.groups()) + "\n")
    for end in ends:
        end.wait_for_line("^connected")
    for end in ends:
        end.write("go\n")
    return ends


def arrived(end):
    """What the program says when its input ends; whatever came was whole and in order."""
    end.process.stdin.close()
    return int(re.search(r"^ok arrived (\d+)", end.finish(), re.M)[1])


def test_messages_both_ways(pair):
    ends = connected_ends(pair)
    for end in ends:
        end.wait_for_line("^sent")
        end.wait_for_line("^all")
    assert [arrived(end) for end in ends] == [UC_MESSAGES] * 2


def test_messages_with_loss(lossy_pair):
    """1 % of packets, five in a message: about every twentieth message has a gap. A receiver that waits for a processor loses
    more, which nobody repeats: how many arrive at least is no promise."""
    lossy_pair.wire.random_loss(10_000, seed=3)
    ends = connected_ends(lossy_pair)
    for end in ends:
        end.wait_for_line("^sent", timeout_s=60)
    counts = [arrived(end) for end in ends]
    print(f"of {UC_MESSAGES} messages each way arrived {counts}, lost packets {len(lossy_pair.wire.log())}")
    assert lossy_pair.wire.log(), "nothing was lost"
    assert all(0 < count < UC_MESSAGES for count in counts)
