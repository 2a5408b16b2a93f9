"""Random calls of all kinds in one group of each mode, and in one between the hosts, over bad links: loss, duplicates,
reordering, corruption, and where links carry super-frames, some of them cut short. Then calls that differ."""

import json
import time

import pytest

import epic_ranks
import harness
import test_matrix
from test_matrix import MISMATCHES, MODES, RANKS, WAYS, expect_mismatch, mismatched, random_calls

SPECS = {"rxe": ("tree-3-2", "--hosts", "rxe", "--mtu", "1024", "--wire"),
         "super-frames": ("tree-3-2", "--hosts", "softnic", "--mtu", "1024", "--wire", "--super-frames")}
MIXED = "multicast beside switches"
LEFT = ("sum", "min", "max")
RATES = {"drop_ppm": 10000, "duplicate_ppm": 10000, "reorder_ppm": 10000, "depth": 16, "corrupt_ppm": 1000}


def asked_for(way):
    return {"path": "auto", "algorithm": "multicast"} if way == MIXED else test_matrix.asked_for(way)


def run_groups(bed, groups, seconds):
    """What each rank told of the groups, which must end as they should."""
    path = harness.BUILD / f"calls-{harness.NAME}.json"
    path.write_text(json.dumps(groups), encoding="utf-8")
    try:
        ranks = [bed.start(host, harness.CALLS, "--calls", path, "--rank", rank, "--size", RANKS, "--timeout-s",
                           seconds, timeout_s=seconds) for rank, host in enumerate(bed.hosts)]
        harness.assert_all_right(ranks, seconds + 20)
    finally:
        path.unlink()
    return [{line["group"]: line for line in rank.json_lines() if "group" in line} for rank in ranks]


def rates_of(links, way):
    """What a link does. Between hosts nobody repairs on the way: there it is what the up to four links do together. With
    more, calls are right as well, but take a second and a half each, and a thousand half an hour: what is lost at the end
    of a message waits for the NIC's timer."""
    rates = {**RATES, "corrupt_ppm": 10000, "cut_ppm": 20000} if links == "super-frames" else RATES
    if way in MODES:
        return rates
    return {name: rate // 4 if name.endswith("_ppm") else rate for name, rate in rates.items()}


@pytest.mark.in_turn(5)
@pytest.mark.parametrize("seed, calls", [(1, 60), pytest.param(2, 1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", (*WAYS, MIXED))
@pytest.mark.parametrize("links", SPECS)
def test_random_calls_over_bad_links(beds, links, way, seed, calls):
    bed, rates = beds.get(*SPECS[links]), rates_of(links, way)
    bed.wire.random_faults(seed, **rates)
    group = bed.new_group()
    told = run_groups(bed, [{"group": group, **asked_for(way), "outstanding": 6, "calls": random_calls(seed, calls)}],
                      60 + calls)
    for lines in told:
        assert (lines[group]["calls"], lines[group]["path"]) == (calls, "hosts" if way in ("hosts", "multicast") else "network"), lines
    if asked_for(way).get("algorithm"):
        counts = [lines[group]["datagrams"] for lines in told]
        assert all(rank["came"] + rank["read"] == rank["expected"] > 0 for rank in counts), counts
        # Of a few hundred datagrams none may be lost.
        assert calls < 1000 or sum(rank["read"] for rank in counts) > 0, counts
    count = bed.wire.count()
    print(f"\nway {way}: {calls} calls, {count['frames']} frames, {count['faults']}")
    assert set(count["faults"]) == {name.removesuffix("_ppm") for name in rates if name != "depth"}, count
    struck = {entry["super_frame"] for entry in bed.wire.faults()}
    assert struck == ({False, True} if links == "super-frames" else {False})


def ways_of(calls):
    """How calls go in a group of MIXED whose switches reduce by LEFT alone: copies by multicast; what the switches lack by the exchange
    of messages, or the ring if it does not fit into one; large ReduceScatters by the ring; all else through the switches."""
    ways = set()
    for call in calls:
        by_hosts = call["collective"] in test_matrix.REDUCTIONS and call["op"] not in (*LEFT, "avg")
        large, small = call["count"] > 5000 and call["type"] in ("double", "int64", "uint64"), call["count"] < 600
        if call["collective"] in test_matrix.COPIES:
            ways.add("multicast")
        elif by_hosts and (large or small):
            ways.add("ring" if large else "doubling")
        elif call["collective"] == "allreduce" and not by_hosts:
            ways.add("network")
    return ways


@pytest.mark.slow
@pytest.mark.parametrize("bad", [False, True], ids=["good links", "bad links"])
@pytest.mark.parametrize("links", SPECS)
def test_random_calls_of_every_way_in_one_group(beds, links, bad):
    """Where nothing is lost, no chunk is read."""
    bed = beds.get(*SPECS[links], "--engine-arg=--operations=" + ",".join(LEFT))
    calls = random_calls(3, 1000)
    assert ways_of(calls) == {"network", "ring", "doubling", "multicast"}
    if bad:
        bed.wire.random_faults(3, **rates_of(links, MIXED))
    group = bed.new_group()
    told = run_groups(bed, [{"group": group, **asked_for(MIXED), "outstanding": 6, "calls": calls}], 1060)
    for lines in told:
        assert (lines[group]["calls"], lines[group]["path"]) == (1000, "network"), lines
    counts = [lines[group]["datagrams"] for lines in told]
    print(f"\n{counts}\n{bed.wire.count()['frames']} frames, {bed.wire.count()['faults']}")
    assert all(rank["came"] + rank["read"] == rank["expected"] > 0 for rank in counts), counts
    assert (sum(rank["read"] for rank in counts) > 0) == bad, counts
    assert all(epic_ranks.aggregated_packets(bed.name, switch) > 0 for switch in bed.switches)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("times", [6, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", (2, "hosts"))
@pytest.mark.parametrize("links", SPECS)
def test_calls_that_differ_over_bad_links_end_in_the_same_error_everywhere(beds, links, way, times):
    """Also on a rank whose last word is acknowledged by nobody any more, since its peers know and have gone."""
    bed = beds.get(*SPECS[links])
    bed.wire.random_faults(7, **{**rates_of(links, way), "drop_ppm": 50000})
    fields = [list(MISMATCHES)[number % len(MISMATCHES)] for number in range(times)]
    groups = [{**mismatched(field, way), "group": bed.new_group()} for field in fields]
    begin = time.monotonic()
    told = run_groups(bed, groups, 60 + 5 * times)
    print(f"\nway {way}: {times} groups in {time.monotonic() - begin:.1f} s, {bed.wire.count()['faults']}")
    for field, group in zip(fields, groups):
        expect_mismatch(told, group["group"], asked_for(way)["path"], field.partition(",")[0])


def test_nothing_remains(beds):
    beds.get(*SPECS["super-frames"]).wait_clean()
