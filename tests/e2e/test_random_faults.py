"""Random calls of all kinds in one group of each mode over bad links: loss, duplicates, reordering, corruption, and where
links carry super-frames, some of them cut short."""

import json

import pytest

import harness
from test_matrix import MODES, RANKS, random_calls

SPECS = {"rxe": ("tree-3-2", "--mtu", "1024", "--wire"),
         "super-frames": ("tree-3-2", "--hosts", "softnic", "--mtu", "1024", "--wire", "--super-frames")}
RATES = {"drop_ppm": 10000, "duplicate_ppm": 10000, "reorder_ppm": 10000, "depth": 16, "corrupt_ppm": 1000}


@pytest.mark.parametrize("seed, calls", [(1, 60), pytest.param(2, 1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("links", SPECS)
def test_random_calls_over_bad_links(beds, links, mode, seed, calls):
    bed = beds.get(*SPECS[links])
    rates = {**RATES, "corrupt_ppm": 10000, "cut_ppm": 20000} if links == "super-frames" else RATES
    seconds = 60 + calls
    path = harness.BUILD / f"calls-{harness.NAME}.json"
    group = {"group": bed.new_group(), "mode": mode, "outstanding": 6, "calls": random_calls(seed, calls)}
    path.write_text(json.dumps([group]), encoding="utf-8")
    bed.wire.random_faults(seed, **rates)
    try:
        ranks = [bed.start(host, harness.CALLS, "--calls", path, "--rank", rank, "--size", RANKS, "--timeout-s",
                           seconds, timeout_s=seconds) for rank, host in enumerate(bed.hosts)]
        harness.assert_all_right(ranks, seconds + 20)
    finally:
        path.unlink()
    told = [line for rank in ranks for line in rank.json_lines() if "group" in line]
    assert [line["calls"] for line in told] == [calls] * RANKS
    count = bed.wire.count()
    print(f"\nmode {mode}: {calls} calls, {count['frames']} frames, {count['faults']}")
    assert set(count["faults"]) == {name.removesuffix("_ppm") for name in rates if name != "depth"}, count
    struck = {entry["super_frame"] for entry in bed.wire.faults()}
    assert struck == ({False, True} if links == "super-frames" else {False})


def test_nothing_remains(beds):
    beds.get(*SPECS["super-frames"]).assert_clean()
