"""Every way (mode of the network, or between the hosts) x collective x type x operation over real rdma_rxe, over softnic
and over both in one group; random mixes of them, and mismatched calls. Groups of other sizes: test_matrix_sizes.py.

All of it on one bed, WHOLE; on each other one a part of a pairwise cover that they have together (covers.py), by turns with the
commit, and all of it with --full. One process per rank goes through all groups of a topology (calls_rank); the tests look at what it told of each.
"""

import functools
import json
import random

import pytest

import covers
import harness
import modes

# pool: whole

BEDS = {
    "star-4": ("star-4", "--hosts", "rxe"),
    "tree-3-2": ("tree-3-2", "--hosts", "rxe"),
    "star-4-softnic": ("star-4", "--hosts", "softnic"),
    "tree-3-2-softnic": ("tree-3-2", "--hosts", "softnic"),
    "tree-3-2-both": ("tree-3-2", "--hosts", "softnic,h1=rxe,h2=rxe"),
}
# With --full also where links are memifs, if ports by DPDK are built.
if (harness.BUILD / "incengine" / "epic_io_dpdk.so").exists():
    BEDS["star-4-memif"] = ("star-4", "--hosts", "softnic", "--ports", "memif")
    BEDS["tree-3-2-memif"] = ("tree-3-2", "--hosts", "softnic", "--ports", "memif")
WHOLE = "tree-3-2-softnic"
# The others by what they are: (hosts, topology).
OTHERS = {("rxe", "star-4"): "star-4", ("rxe", "tree-3-2"): "tree-3-2", ("softnic", "star-4"): "star-4-softnic",
          ("both", "tree-3-2"): "tree-3-2-both"}
# A default run has one of these, which has guests in any case.
TURNS = (("star-4",), ("tree-3-2",), ("tree-3-2-both", "star-4-softnic"))
KINDS, TOPOLOGIES = ("rxe", "softnic", "both"), ("star-4", "tree-3-2")
RANKS = 4
MODES = modes.NUMBERS
WAYS = (*MODES, "hosts", "multicast")
COLLECTIVES = ("allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather")
REDUCTIONS = ("allreduce", "reduce", "reducescatter")
COPIES = ("broadcast", "allgather")
FLOATS = ("float", "double", "half", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TYPES = FLOATS + INTEGERS + ("byte",)
OPS = ("sum", "prod", "min", "max", "avg")
INTEGER_OPS = ("band", "bor", "bxor", "land", "lor")
# Elements of a share: nothing, one, a packet and a bit, and many packets; more than a window of them are large_calls, of each
# collective, and with --full.
SMALL, LARGE = (0, 1, 1500, 12001), (0, 1, 3, 511, 513, 4097, 100003, 1000001)
RANDOM_CALLS = {False: 200, True: 1000}
RANDOM_CALLS_OF_A_COVER = 40
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


def group_name(what, way):
    return f"{what}-{way}".replace(",", "").replace(" ", "-")


def asked_for(way):
    """What a group's entry in the list says, so that it goes this way and no other."""
    if way == "multicast":
        return {"path": "hosts", "algorithm": "multicast"}
    return {"path": "hosts"} if way == "hosts" else {"path": "network", "mode": way}


def collectives_of(way):
    """What is tried of a way by itself: by multicast all others go as between the hosts ever."""
    return COPIES if way == "multicast" else COLLECTIVES


def seed_of(way):
    return SEED + 1 + WAYS.index(way)


def ops_of(collective, datatype):
    """The operations that there are; one that is not looked at, where nothing is reduced."""
    if collective not in REDUCTIONS:
        return ("sum",)
    return () if datatype == "byte" else OPS + INTEGER_OPS if datatype in INTEGERS else OPS


def cases_of(collective, full, ranks=RANKS):
    """The calls of a group: every type and operation that the collective has, sizes, roots and places in turn. Each pair
    has all sizes in a full run, else one, and another with the next commit."""
    if collective == "barrier":
        return [{"collective": "barrier"}] * 20
    calls = []
    pairs = [(datatype, op) for datatype in TYPES for op in ops_of(collective, datatype)]
    turn = covers.turn("sizes of the matrix's calls", len(SMALL))
    for at, (datatype, op) in enumerate(pairs, turn):
        for count in LARGE if full else (SMALL[at % len(SMALL)],):
            number = len(calls)
            calls.append({"collective": collective, "type": datatype, "op": op, "count": count,
                          "root": number % ranks, "in_place": number % 3 == 0})
    return calls


def random_calls(seed, number, ranks=RANKS):
    """Random invocations of random collectives, roots, sizes and types; the same on every rank."""
    choose = random.Random(seed)
    calls = []
    for _ in range(number):
        collective = choose.choice(COLLECTIVES)
        datatype = choose.choice([t for t in TYPES if ops_of(collective, t)])
        largest = choose.choice((4, 600, 5000, 30000))
        calls.append({"collective": collective, "type": datatype, "op": choose.choice(ops_of(collective, datatype)),
                      "count": choose.randrange(largest), "root": choose.randrange(ranks),
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


def mismatched(field, way):
    """Two good calls, then one that rank 2 makes in another way; the group must end with a mismatch."""
    good = {"collective": "allreduce", "type": "float", "count": 100}
    # Only collectives with a root can differ in it.
    bad = dict(good, collective="broadcast") if field == "root" else dict(good)
    return {"group": group_name("mismatch-" + field, way), **asked_for(way), "error": "mismatch",
            "calls": [good, good, dict(bad, ranks={"2": MISMATCHES[field]})]}


def no_call(row):
    """Whether a row of the cover's axes is none: no such bed, or an operation that the collective or the type has not."""
    if row["collective"] not in collectives_of(row["way"]):
        return True
    if row["collective"] == "barrier":
        return (row["type"], row["op"], row["in_place"]) != (TYPES[0], "sum", False) or no_bed(row)
    return row["op"] not in ops_of(row["collective"], row["type"]) or no_bed(row)


def no_bed(row):
    return (row["kind"], row["topology"]) not in OTHERS


@functools.cache
def call_rows():
    """What the beds but WHOLE call in a default run."""
    return covers.cover({"way": WAYS, "collective": COLLECTIVES, "type": TYPES, "op": OPS + INTEGER_OPS, "in_place": (False, True),
                         "kind": KINDS, "topology": TOPOLOGIES}, no_call, name="calls of the matrix, on other beds than the whole one")


@functools.cache
def window_rows():
    return covers.cover({"way": WAYS, "kind": KINDS, "topology": TOPOLOGIES}, no_bed, name="large calls, likewise")


@functools.cache
def mismatch_rows():
    return covers.cover({"way": WAYS, "field": tuple(MISMATCHES), "kind": KINDS, "topology": TOPOLOGIES}, no_bed, name="mismatches, likewise")


def of_bed(rows, bed):
    return [row for row in rows if OTHERS[row["kind"], row["topology"]] == bed]


def calls_of_cover(bed, way):
    """The calls of one group: the cover's rows of a bed and a way, sizes and roots in turn."""
    rows = [row for row in of_bed(call_rows(), bed) if row["way"] == way]
    return [{"collective": row["collective"], "type": row["type"], "op": row["op"], "in_place": row["in_place"],
             "count": SMALL[number % len(SMALL)], "root": number // len(SMALL) % RANKS} if row["collective"] != "barrier" else
            {"collective": "barrier"} for number, row in enumerate(rows)]


def groups_of_cover(bed):
    """The groups that the ranks go through on a bed that has a part of the cover."""
    groups = []
    for way in WAYS:
        calls = calls_of_cover(bed, way)
        if calls:
            groups.append({"group": group_name("cover", way), **asked_for(way), "outstanding": 3, "calls": calls})
        groups.append({"group": group_name("random", way), **asked_for(way), "outstanding": 6,
                       "calls": random_calls(seed_of(way), RANDOM_CALLS_OF_A_COVER)})
    groups.extend({"group": group_name("windows", row["way"]), **asked_for(row["way"]), "outstanding": 1, "calls": large_calls()}
                  for row in of_bed(window_rows(), bed))
    return groups + [mismatched(row["field"], row["way"]) for row in of_bed(mismatch_rows(), bed)]


def window_ways(full):
    """The ways in which WHOLE has large calls, which are half of its data: in a default run a third of them, others with the next
    commit. The cover has them on other beds, in turn, and commlib/core tests the trials by themselves."""
    return WAYS if full else WAYS[covers.turn("large calls of the matrix", 3)::3]


def groups_of(full):
    """All groups that the ranks go through, in order."""
    groups = []
    for way in WAYS:
        for collective in collectives_of(way):
            groups.append({"group": group_name(collective, way), **asked_for(way), "outstanding": 3,
                           "calls": cases_of(collective, full)})
        groups.append({"group": group_name("random", way), **asked_for(way), "outstanding": 6,
                       "calls": random_calls(seed_of(way), RANDOM_CALLS[full])})
        if way in window_ways(full):
            groups.append({"group": group_name("windows", way), **asked_for(way), "outstanding": 1, "calls": large_calls()})
        groups.extend(mismatched(field, way) for field in MISMATCHES)
    return groups


def pytest_generate_tests(metafunc):
    """Beds: the whole one, or all with --full; those that have a part of the cover in turn, none with --full. Under two names: pytest
    runs those together that have values of one place in a list of one name, and would change the bed with every few tests."""
    if "window_way" in metafunc.fixturenames:
        metafunc.parametrize("window_way", window_ways(metafunc.config.getoption("--full")))
    if "told" in metafunc.fixturenames:
        metafunc.parametrize("bed_name", list(BEDS) if metafunc.config.getoption("--full") else [WHOLE], scope="module")
    elif "told_of_cover" in metafunc.fixturenames:
        in_turn = TURNS[covers.turn("beds of the matrix", len(TURNS))]
        metafunc.parametrize("cover_bed", [] if metafunc.config.getoption("--full") else in_turn, scope="module")


started = set()  # (beds, what was run there)


def bed_of(all_beds, name, what):
    """The bed of that name, for what takes long: once."""
    assert (name, what) not in started, f"the ranks on {name} have gone through {what} already: see the order of the tests"
    started.add((name, what))
    return all_beds.get(*BEDS[name])


@pytest.fixture(name="told", scope="module")
def fixture_told(all_beds, bed_name, request):
    """What each rank told of each group: told[rank][group]."""
    full = request.config.getoption("--full")
    return run_all(bed_of(all_beds, bed_name, "all groups"), RANKS, groups_of(full), 3000 if full else 900)


@pytest.fixture(name="told_of_cover", scope="module")
def fixture_told_of_cover(all_beds, cover_bed):
    return run_all(bed_of(all_beds, cover_bed, "the cover"), RANKS, groups_of_cover(cover_bed), 900)


def run_all(bed, ranks, groups, seconds):
    """Ranks, by turns on the bed's hosts, go through the groups; what each told of each: told[rank][group]. Those that are
    not in one are at the next before the others, and wait there."""
    # Guests see the build directory.
    path = harness.BUILD / f"calls-{harness.NAME}.json"
    path.write_text(json.dumps(groups), encoding="utf-8")
    try:
        programs = [bed.start(bed.hosts[rank % len(bed.hosts)], harness.CALLS, "--calls", path, "--rank", rank,
                              "--size", ranks, "--timeout-s", seconds, timeout_s=seconds) for rank in range(ranks)]
        harness.finish(programs, seconds + 20)
    finally:
        path.unlink()
    told = [{line["group"]: line for line in program.json_lines() if "group" in line} for program in programs]
    expected = [sum(rank < group.get("size", ranks) for group in groups) for rank in range(ranks)]
    missing = [program.output[-2000:] for program, lines, groups_of_rank in zip(programs, told, expected)
               if len(lines) < groups_of_rank]
    if missing:
        print("\n".join(missing), bed.diagnosis())
    bed.end_programs()
    return told


def expect_right(told, group, path, calls, ranks=RANKS, may_read=False):
    """`may_read`: chunks that have not come yet, by multicast; none is lost here."""
    for rank, lines in enumerate(told[:ranks]):
        assert group in lines, f"rank {rank} never came to the end of {group}"
        line = lines[group]
        assert "error" not in line, f"rank {rank}: {line}"
        wrong = [calls[number] for number in line["wrong_calls"]]
        assert line["wrong"] == 0, f"rank {rank}: {line['wrong']} wrong elements; first in {wrong}"
        assert line["calls"] == len(calls)
        assert line["path"] == path, line
        assert may_read or line.get("datagrams", {}).get("read", 0) == 0, f"rank {rank}: datagrams were lost where no packet is: {line}"


def expect_mismatch(told, group, path, field, ranks=RANKS):
    """After two right calls all ranks have the same error, with the field and who differs from rank 0."""
    culprits = set()
    for rank, lines in enumerate(told[:ranks]):
        assert group in lines, f"rank {rank} never came to the end of {group}"
        line = lines[group]
        assert line.get("error") == "mismatch", f"rank {rank}: {line}"
        culprit, says, _ = line["message"].partition(f" called with another {field} than rank 0")
        assert says, line
        culprits.add(culprit)
        assert line["calls"] == 2 and line["wrong"] == 0 and line["path"] == path, line
    assert culprits == {"rank 2"}, culprits


@pytest.mark.parametrize("way, collective", [(way, collective) for way in WAYS for collective in collectives_of(way)])
def test_every_type_and_operation(told, way, collective, request):
    full = request.config.getoption("--full")
    expect_right(told, group_name(collective, way), asked_for(way)["path"], cases_of(collective, full))


@pytest.mark.parametrize("way", WAYS)
def test_random_calls_in_one_group(told, way, request):
    calls = random_calls(seed_of(way), RANDOM_CALLS[request.config.getoption("--full")])
    expect_right(told, group_name("random", way), asked_for(way)["path"], calls)


def test_large_calls_while_ranks_try_send_windows(told, window_way):
    expect_right(told, group_name("windows", window_way), asked_for(window_way)["path"], large_calls())


@pytest.mark.parametrize("field", MISMATCHES)
@pytest.mark.parametrize("way", WAYS)
def test_mismatched_calls_end_in_the_same_error_everywhere(told, way, field):
    expect_mismatch(told, group_name("mismatch-" + field, way), asked_for(way)["path"], field.partition(",")[0])


def test_cover_of_types_and_operations(told_of_cover, cover_bed):
    calls_by_way = {way: calls_of_cover(cover_bed, way) for way in WAYS}
    assert any(calls_by_way.values()), f"no row of the cover is on {cover_bed}"
    for way, calls in calls_by_way.items():
        if calls:
            expect_right(told_of_cover, group_name("cover", way), asked_for(way)["path"], calls)


def test_random_calls_beside_the_cover(told_of_cover):
    for way in WAYS:
        calls = random_calls(seed_of(way), RANDOM_CALLS_OF_A_COVER)
        expect_right(told_of_cover, group_name("random", way), asked_for(way)["path"], calls)


def test_cover_of_large_calls_while_ranks_try_send_windows(told_of_cover, cover_bed):
    for row in of_bed(window_rows(), cover_bed):
        expect_right(told_of_cover, group_name("windows", row["way"]), asked_for(row["way"])["path"], large_calls())


def test_cover_of_mismatched_calls(told_of_cover, cover_bed):
    for row in of_bed(mismatch_rows(), cover_bed):
        way, field = row["way"], row["field"]
        expect_mismatch(told_of_cover, group_name("mismatch-" + field, way), asked_for(way)["path"], field.partition(",")[0])
