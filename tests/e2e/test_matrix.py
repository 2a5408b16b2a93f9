"""Every mode x collective x type x operation over real rdma_rxe, over softnic and over both in one group; random mixes
of them, and mismatched calls.

One process per rank goes through all groups of a topology (calls_rank); the tests look at what it told of each.
"""

import json
import random

import pytest

import harness
import modes

BEDS = {
    "star-4": ("star-4", "--hosts", "rxe"),
    "tree-3-2": ("tree-3-2", "--hosts", "rxe"),
    "star-4-softnic": ("star-4", "--hosts", "softnic"),
    "tree-3-2-softnic": ("tree-3-2", "--hosts", "softnic"),
    "tree-3-2-both": ("tree-3-2", "--hosts", "softnic,h1=rxe,h2=rxe"),
}
RANKS = 4
MODES = modes.NUMBERS
COLLECTIVES = ("allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather")
REDUCTIONS = ("allreduce", "reduce", "reducescatter")
FLOATS = ("float", "double", "half", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TYPES = FLOATS + INTEGERS + ("byte",)
OPS = ("sum", "prod", "min", "max", "avg")
INTEGER_OPS = ("band", "bor", "bxor", "land", "lor")
# Elements of a share: nothing, one, a packet and a bit, and more than a window of packets.
SMALL, LARGE = (0, 1, 1500, 40001), (0, 1, 3, 511, 513, 4097, 100003, 1000001)
RANDOM_CALLS = {False: 200, True: 1000}
SEED = 20240817

MISMATCHES = {
    "collective": {"collective": "reduce"},
    "root": {"root": 1},
    "count": {"count": 101},
    "type": {"type": "int32"},
    "type, of the same bits": {"type": "uint32"},
    "op": {"op": "max"},
    "op, sum and avg": {"op": "avg"},
    "op, sum and prod": {"op": "prod"},
}


def group_name(what, mode):
    return f"{what}-{mode}".replace(",", "").replace(" ", "-")


def ops_of(collective, datatype):
    """The operations that there are; one that is not looked at, where nothing is reduced."""
    if collective not in REDUCTIONS:
        return ("sum",)
    return () if datatype == "byte" else OPS + INTEGER_OPS if datatype in INTEGERS else OPS


def cases_of(collective, full):
    """The calls of a group: every type and operation that the collective has, sizes, roots and places in turn. Each pair
    has all sizes in a full run, else two."""
    if collective == "barrier":
        return [{"collective": "barrier"}] * 20
    calls = []
    pairs = [(datatype, op) for datatype in TYPES for op in ops_of(collective, datatype)]
    for at, (datatype, op) in enumerate(pairs):
        for count in LARGE if full else (SMALL[at % 4], SMALL[(at + 2) % 4]):
            number = len(calls)
            calls.append({"collective": collective, "type": datatype, "op": op, "count": count,
                          "root": number % RANKS, "in_place": number % 3 == 0})
    return calls


def random_calls(seed, number):
    """Random invocations of random collectives, roots, sizes and types; the same on every rank."""
    choose = random.Random(seed)
    calls = []
    for _ in range(number):
        collective = choose.choice(COLLECTIVES)
        datatype = choose.choice([t for t in TYPES if ops_of(collective, t)])
        largest = choose.choice((4, 600, 5000, 30000))
        calls.append({"collective": collective, "type": datatype, "op": choose.choice(ops_of(collective, datatype)),
                      "count": choose.randrange(largest), "root": choose.randrange(RANKS),
                      "in_place": choose.random() < 0.5})
    return calls


def large_calls():
    """Large enough, and enough of them, that ranks try other send windows, to the end of their first round of trials
    (commlib/core/window_trials.h): each is more than four windows of 64 packets of 4096 bytes."""
    calls = []
    for number in range(18):
        collective = ("allreduce", "reducescatter", "broadcast", "reduce", "allgather")[number % 5]
        share = 75_001 if collective in ("reducescatter", "allgather") else 300_001
        calls.append({"collective": collective, "type": "int32", "op": "sum", "count": share, "root": number % RANKS})
    return calls


def mismatched(field, mode):
    """Two good calls, then one that rank 2 makes in another way; the group must end with a mismatch."""
    good = {"collective": "allreduce", "type": "float", "count": 100}
    # Only collectives with a root can differ in it.
    bad = dict(good, collective="broadcast") if field == "root" else dict(good)
    return {"group": group_name("mismatch-" + field, mode), "mode": mode, "error": "mismatch",
            "calls": [good, good, dict(bad, ranks={"2": MISMATCHES[field]})]}


def groups_of(full):
    """All groups that the ranks go through, in order."""
    groups = []
    for mode in MODES:
        for collective in COLLECTIVES:
            groups.append({"group": group_name(collective, mode), "mode": mode, "outstanding": 3,
                           "calls": cases_of(collective, full)})
        groups.append({"group": group_name("random", mode), "mode": mode, "outstanding": 6,
                       "calls": random_calls(SEED + mode, RANDOM_CALLS[full])})
        groups.append({"group": group_name("windows", mode), "mode": mode, "outstanding": 1, "calls": large_calls()})
        groups.extend(mismatched(field, mode) for field in MISMATCHES)
    return groups


@pytest.fixture(name="bed_spec", scope="module", params=BEDS)
def fixture_bed_spec(request):
    return BEDS[request.param]


@pytest.fixture(name="told", scope="module")
def fixture_told(all_beds, bed_spec, request):
    """What each rank told of each group: told[rank][group]."""
    full = request.config.getoption("--full")
    bed = all_beds.get(*bed_spec)
    # Guests see the build directory.
    path = harness.BUILD / f"calls-{harness.NAME}.json"
    path.write_text(json.dumps(groups_of(full)), encoding="utf-8")
    seconds = 3000 if full else 900
    try:
        ranks = [bed.start(host, harness.CALLS, "--calls", path, "--rank", rank, "--size", RANKS,
                           timeout_s=seconds) for rank, host in enumerate(bed.hosts)]
        harness.finish(ranks, seconds + 20)
    finally:
        path.unlink()
    told = [{line["group"]: line for line in rank.json_lines() if "group" in line} for rank in ranks]
    missing = [rank.output[-2000:] for rank, lines in zip(ranks, told) if len(lines) < len(groups_of(full))]
    if missing:
        print("\n".join(missing), bed.diagnosis())
    bed.end_programs()
    return told


def expect_right(told, group, calls):
    for rank, lines in enumerate(told):
        assert group in lines, f"rank {rank} never came to the end of {group}"
        line = lines[group]
        assert "error" not in line, f"rank {rank}: {line}"
        wrong = [calls[number] for number in line["wrong_calls"]]
        assert line["wrong"] == 0, f"rank {rank}: {line['wrong']} wrong elements; first in {wrong}"
        assert line["calls"] == len(calls)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("mode", MODES)
def test_every_type_and_operation(told, mode, collective, request):
    full = request.config.getoption("--full")
    expect_right(told, group_name(collective, mode), cases_of(collective, full))


@pytest.mark.parametrize("mode", MODES)
def test_random_calls_in_one_group(told, mode, request):
    calls = random_calls(SEED + mode, RANDOM_CALLS[request.config.getoption("--full")])
    expect_right(told, group_name("random", mode), calls)


@pytest.mark.parametrize("mode", MODES)
def test_large_calls_while_ranks_try_send_windows(told, mode):
    expect_right(told, group_name("windows", mode), large_calls())


@pytest.mark.parametrize("field", MISMATCHES)
@pytest.mark.parametrize("mode", MODES)
def test_mismatched_calls_end_in_the_same_error_everywhere(told, mode, field):
    group = group_name("mismatch-" + field, mode)
    named = field.partition(",")[0]
    for rank, lines in enumerate(told):
        assert group in lines, f"rank {rank} never came to the end of {group}"
        line = lines[group]
        assert line.get("error") == "mismatch", f"rank {rank}: {line}"
        assert f"another {named}" in line["message"], line
        assert line["calls"] == 2 and line["wrong"] == 0, line
