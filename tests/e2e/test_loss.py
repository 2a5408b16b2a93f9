"""Lost frames over real rdma_rxe: each of a run in turn, bursts, and at random. Right results each time."""

import time

import pytest

from harness import assert_all_right, describe

BASELINE = 8          # invocations before the first loss, to count their frames
MAX_FRAMES = 64
PAUSE_MS = 150        # longer than the last acknowledgements take, so that invocations do not share a count
# Of rdma_rxe's frames, whichever hosts other tests have: softnic acknowledges otherwise. How to bring the bed up; elements; packets that a run has at least: those of every edge up and down, and the
# acknowledgements of two messages at every host, from it and to it.
SETUPS = {
    "tree-3-2": (("tree-3-2", "--hosts", "rxe", "--mtu", "256", "--wire", "--manager-arg=--inline-bytes=0"), 128,
                 6 * 3 * 2 + 4 * 2 * 2),
    "star-2": (("star-2", "--hosts", "rxe", "--mtu", "256", "--wire", "--manager-arg=--inline-bytes=0"), 384, 2 * 7 * 2 + 2 * 2 * 2),
    "tree-3-2, one message": (("tree-3-2", "--hosts", "rxe", "--mtu", "256", "--wire"), 128, 6 * 3 * 2 + 4 * 2),
}


# In virtual time each packet of a run is lost in turn, in each mode (sim_test); here rdma_rxe repeats, and once will do.
@pytest.mark.parametrize("setup", [setup if setup == "tree-3-2" else pytest.param(setup, marks=pytest.mark.slow) for setup in SETUPS])
def test_each_frame_of_a_run_lost_in_turn(beds, setup):
    spec, count, least = SETUPS[setup]
    bed = beds.get(*spec)
    bed.wire.drop_each(BASELINE)
    ranks = bed.loops("--counts", count, "--iterations", BASELINE + MAX_FRAMES + 6, "--pause-ms", PAUSE_MS,
                      "--each", timeout_s=200)
    assert_all_right(ranks, 200)
    seen = {int(k): n for k, n in bed.wire.count()["invocations"].items()}
    # The smallest: when the machine is busy, a switch repeats packets that were only late.
    run = min(seen[k] for k in range(BASELINE))
    assert least <= run <= MAX_FRAMES, f"a run without loss has {run} frames"
    lost = {frame["number"]: frame for frame in bed.wire.log()}
    missing = set(range(1, run + 1)) - set(lost)
    assert not missing, f"frames {sorted(missing)} of {run} were not lost"
    report(ranks, lost, run, setup)


def report(ranks, lost, run, setup):
    """Prints the slowest recovery and the frame whose loss took it."""
    times = [(line["us"], line["iteration"], rank) for rank, program in enumerate(ranks)
             for line in program.json_lines() if "iteration" in line and "wrong" in line]
    usual = sorted(us for us, iteration, _ in times if iteration < BASELINE)
    by_invocation = {frame["invocation"]: frame for frame in lost.values()}
    slowest = sorted(((us, by_invocation[k], rank) for us, k, rank in times if k in by_invocation),
                     key=lambda entry: -entry[0])
    print(f"\n{setup}: {run} frames in a run, each lost once, all results right; "
          f"median without loss {usual[len(usual) // 2] / 1000:.1f} ms")
    for us, frame, rank in slowest[:5]:
        print(f"  recovered after {us / 1000:.1f} ms at rank {rank}: {describe(frame)}")


def test_bursts(beds):
    """The first 40 frames of an invocation, all its control packets included; frames 10 to 49 of another."""
    spec, count, _ = SETUPS["tree-3-2"]
    bed = beds.get(*spec)
    bed.wire.drop(2, *range(1, 41))
    bed.wire.drop(4, *range(10, 50))
    assert_all_right(bed.loops("--counts", count, "--iterations", 6, "--pause-ms", PAUSE_MS))
    lost = [frame["number"] for frame in bed.wire.log()]
    assert lost == list(range(1, 41)) + list(range(10, 50))
    again = [frame for frame in bed.wire.trace(2) if frame["opcode"] == "SEND_ONLY_IMM" and not frame["lost"]]
    assert len(again) >= 12  # up and down on each of the six edges


@pytest.mark.parametrize("lost", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_loss(beds, lost):
    """Half a percent of all RoCE frames, on every link, in both directions, until so many have been lost."""
    bed = beds.get(*SETUPS["tree-3-2"][0])
    bed.wire.random_loss(5000, seed=lost)
    begin, before = time.monotonic(), bed.wire.count()["dropped"]
    done = 0
    while bed.wire.count()["dropped"] - before < lost:
        assert_all_right(bed.loops("--counts", "1,129,4000,20001", "--iterations", 20, timeout_s=180), 180)
        done += 20
    count = bed.wire.count()
    print(f"\n{done} AllReduces right in {time.monotonic() - begin:.0f} s with {count['dropped']} of "
          f"{count['frames']} frames lost")


def test_nothing_remains(beds):
    beds.get(*SETUPS["tree-3-2"][0]).assert_clean()


def test_rxe_alone_repairs_what_the_forwarder_loses(beds):
    """The forwarder itself, with bridges instead of our switches: what it loses, rdma_rxe sends again."""
    bed = beds.get("star-2", "--hosts", "rxe", "--bridge", "--wire")
    bed.wire.random_loss(20000, seed=3)
    pingpong = "timeout 30 ibv_rc_pingpong -e -g 1 -m 1024 -n 100 -s 4096 -c"
    # An end may be gone when the ACK of the other's last message is lost, which rdma_rxe then repeats without end: that
    # one is ended, and both begin anew.
    server = bed.start("h1", "sh", "-c", f"while :; do {pingpong}; done")
    shown = bed.run("h0", "sh", "-c", f"until {pingpong} h1; do sleep 0.1; done")
    assert "100 iters" in shown
    server.end()
    assert {frame["link"] for frame in bed.wire.log()} <= {"s1-h0", "s1-h1"}
    assert bed.wire.log() and bed.wire.count()["frames"] > 1000
