"""In a network that loses nothing no switch drops, refuses or repeats a packet, in every mode and collective: an
acknowledgement is given only when what it allows has room (docs/PROTOCOL.md, section 4). Over softnic.

A loaded machine's kernels lose frames, which they count: such a run is not judged, and another one follows. A host whose
process waits for its turn has no receive posted and says so (RNR NAK): that excuses what is repeated to it, and asked for above
for that, and nothing else.
Timers of the switches are too long here to run out meanwhile; those of hosts are not, on a machine with much else to do. So what
is sent again is judged with --full, on a quiet machine. sim/backpressure_test.cc judges the same, and more, in virtual time.
"""

import modes
import pytest

MODES = modes.OWN_LOGIC
COLLECTIVES = ("allreduce", "reduce", "broadcast", "reducescatter", "allgather")
# What must not be, and what not unless a host was late or its timer ran out.
TROUBLE = ("uplink_timeouts", "drop_gap", "drop_above_window")
REPEATED = ("asks", "repeats", "drop_duplicate")
RUNS = 10


def counters_of(bed):
    """Sums over all switches, and over their ports what the kernel has dropped there."""
    sums = dict.fromkeys((*TROUBLE, *REPEATED, "rnr_naks_received", "kernel drops", "results"), 0)
    for switch in bed.switches:
        for name, value in bed.counters(switch).items():
            if name in sums:
                sums[name] += value
            elif name.startswith("port.") and "drop" in name:
                sums["kernel drops"] += value
    return sums


ALL_SIZES, SIZES = ("-b", "4K", "-e", "16M", "-f", "64"), ("-b", "4K", "-e", "4M", "-f", "32")


def counts_of_a_run(beds, mode, collective, sizes=ALL_SIZES):
    bed = beds.get("tree-3-2", "--hosts", "softnic", "--manager-arg=--prompt-ms=10000")
    for _ in range(RUNS):
        before = counters_of(bed)
        programs = bed.perf("--path", "network", "--mode", mode, "--collective", collective, *sizes,
                            "-n", "2", "-w", "1")
        for program in programs:
            assert program.wait() == 0, program.output
        after = counters_of(bed)
        counts = {name: after[name] - before[name] for name in after}
        assert counts["results"] > 0
        if counts["kernel drops"] == 0:
            return counts
    pytest.fail(f"{RUNS} runs, in each of which the kernel lost frames: {counts}")


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_refused(beds, mode, collective, request):
    """Also of calls of many windows, which those of 4 MiB are."""
    counts = counts_of_a_run(beds, mode, collective, ALL_SIZES if request.config.getoption("--full") else SIZES)
    assert not any(counts[name] for name in TROUBLE), {name: counts[name] for name in TROUBLE}


@pytest.mark.slow
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_sent_again(beds, mode, collective):
    counts = counts_of_a_run(beds, mode, collective)
    assert counts["rnr_naks_received"] or not any(counts[name] for name in REPEATED), counts
