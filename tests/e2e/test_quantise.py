"""FP32 over switches that have integers alone: a group with a scale (docs/HOST.md, "FP32 over integers")."""

import json
import time

import pytest

import harness
import modes

QUANTISE_RANK = harness.BUILD / "tests" / "e2e" / "quantise_rank"
RANKS = 4
INTEGERS = ("--types", "int32", "--max-payload", "256")
SWITCHES = ("root", "leaf1", "leaf2")
SCALE = 1e6
MOST = 2147.4836  # the limit, divided
COUNT = 20000     # of elements, more than a slice has of 64 KiB
# Bytes, of sizes from 4 on: to four slices by each way, to sixteen by one, and with --full by all.
LARGE, LARGEST, WITH_LARGEST = ("-f", "256", "-e", "256K"), ("-f", "512", "-e", "1M"), (2, "network")


def capability_of(bed, switch):
    state = {s["name"]: s for s in bed.manager("switches")["switches"]}[switch]
    return state["state"], state["engine"]["capability"]


@pytest.fixture(name="bed")
def fixture_bed(beds):
    """A bed of this file's alone, all of whose switches have INT32 alone, and payloads of 256 bytes."""
    bed = beds.get("tree-3-2", "--hosts", "softnic", "--sram=8388608")
    if capability_of(bed, "root")[1]["max_path_mtu"] == 256:
        return bed
    for switch in SWITCHES:
        bed.revive(f"{switch}.engine", bed.kill(f"{switch}.engine") + list(INTEGERS))
    deadline = time.monotonic() + 20
    for switch in SWITCHES:
        while True:
            state, capability = capability_of(bed, switch)
            if state == "up" and capability["max_path_mtu"] == 256:
                break
            assert time.monotonic() < deadline, f"{switch}: {state}, {capability}"
            time.sleep(0.2)
        assert capability["types"] == ["int32"]
    return bed


def ranks_of(bed, values, group, count=COUNT, before=()):
    """What each rank told of its calls: `values` and `before`, variables of its environment, are of each rank, in order."""
    ranks = [bed.start(host, "env", *(before[rank] if before else ()), QUANTISE_RANK, "--group", group, "--rank", rank,
                       "--size", len(bed.hosts), "--count", count, "--", *own)
             for rank, (host, own) in enumerate(zip(bed.hosts, values))]
    told = []
    for rank in ranks:
        assert rank.wait() == 0, rank.output
        told.append(rank.json_lines())
    return told


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("number, path", [*((number, "network") for number in modes.OWN_LOGIC), (2, "hosts")])
def test_every_collective_is_right(bed, number, path, request):
    """By epic-perf, which knows what becomes of its inputs; products are left out with the reason."""
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", str(RANKS), "--path", path, "--mode", str(number), "--quantise", "1000")
    sizes = LARGEST if (number, path) == WITH_LARGEST or request.config.getoption("--full") else LARGE
    ranks = bed.perf("-b", "4", *sizes, "-n", "1", "-w", "0", "--json", "--collective", "all", "-d", "float",
                     "-o", "all", group=group)
    harness.assert_all_right(ranks)
    told = json.loads(ranks[0].output[ranks[0].output.index("{\n"):ranks[0].output.rindex("}") + 1])
    assert told["quantised"] == {"scale": 1000.0, "saturated_inputs": 0, "saturated_results": 0}
    ways = {(row["collective"], row["redop"], row["path"]) for row in told["results"]}
    for op in ("sum", "avg", "min", "max"):
        assert ("allreduce", op, path) in ways, ways
    assert {(row["redop"], row["reason"].partition(":")[0]) for row in told["left_out"]} == {
        ("prod", "unsupported operation product of type float32")}
    bed.manager("group", "destroy", group)
    bed.assert_clean()


def test_the_group_shows_its_scale_and_what_it_needs(bed):
    group = bed.network_group("--quantise", "1e6", "--types", "float32")
    shown, text = bed.shown_while_held(group, "--counts", "1,5000", "--iterations", "2", "--type", "int32")
    assert shown["quantise"] == SCALE and shown["path_mtu"] == 256 and len(shown["tree"]) == len(SWITCHES)
    assert "quantise    float32 times 1000000, summed as int32" in text, text
    assert "needs       type int32, operation saturating_sum" in text, text
    explained = bed.manager("explain", "--hosts", ",".join(bed.hosts), "--quantise", "1e6")
    assert explained["path"] == "PATH_NETWORK", explained
    explained = bed.manager("explain", "--hosts", ",".join(bed.hosts), "--types", "float32")
    assert explained["path"] == "PATH_HOSTS" and "type float32 is not in" in explained["path_reason"], explained


@pytest.mark.parametrize("path", ("network", "hosts"))
def test_what_saturates_is_counted_on_every_rank(bed, path):
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", str(RANKS), "--path", path, "--quantise", str(SCALE))
    # Right; too much at one rank, and so for all; too much as a sum; far below.
    values = [("0.5", "3000" if rank == 1 else "1", "1000", "-1e30") for rank in range(RANKS)]
    for rank, told in enumerate(ranks_of(bed, values, group)):
        own = COUNT if rank == 1 else 0
        assert [line.get("error") for line in told] == [None] * 6, told
        assert told[0]["scale"] == SCALE and told[0]["path"] == (2 if path == "network" else 3)
        results = [(round(line["first"], 3), round(line["last"], 3)) for line in told[1:5]]
        assert results == [(2, 2)] + [(round(MOST, 3),) * 2] * 2 + [(round(-MOST, 3),) * 2], results
        assert [line["saturated_inputs"] for line in told[1:5]] == [0, own, own, own + COUNT]
        assert [line["saturated_results"] for line in told[1:5]] == [0, COUNT, 2 * COUNT, 3 * COUNT]
    bed.manager("group", "destroy", group)


@pytest.mark.parametrize("path", ("network", "hosts"))
@pytest.mark.parametrize("value", ("nan", "inf", "-inf"))
def test_an_input_that_is_not_finite_ends_the_group_on_every_rank(bed, path, value):
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", str(RANKS), "--path", path, "--quantise", str(SCALE))
    values = [("0.5", value if rank == 2 else "1", "1") for rank in range(RANKS)]
    words = f"rank 2 called AllReduce with {value} as element 0: what is not finite is no whole number (quantise)"
    for told in ranks_of(bed, values, group):
        assert [line.get("error") for line in told] == [None, None] + ["not finite"] * 3, told
        assert {line["message"] for line in told[2:]} == {words}, told
    bed.manager("group", "destroy", group, "--force")
    bed.wait_clean()


def test_ranks_that_make_a_group_have_one_scale(bed):
    """The one with another is told at once, names the field and itself, and may come again."""
    group = bed.new_group()
    mine, other = ("EPIC_QUANTISE=1e6",), ("EPIC_QUANTISE=10",)
    first = [bed.start(host, "env", *mine, QUANTISE_RANK, "--group", group, "--rank", rank, "--size", RANKS, "0.5")
             for rank, host in enumerate(bed.hosts[:3])]
    bed.wait_for_rank(group, 0)
    for scale, has in ((other, "10"), ((), "none")):
        refused = bed.start(bed.hosts[3], "env", *scale, QUANTISE_RANK, "--group", group, "--rank", "3", "--size", RANKS)
        assert refused.wait() == 0, refused.output
        line = refused.json_lines()[0]
        assert line["error"] == "mismatch", line
        assert line["message"] == f"quantise: rank 3 has the scale {has}, the group {group} has 1000000", line
    last = bed.start(bed.hosts[3], "env", *mine, QUANTISE_RANK, "--group", group, "--rank", "3", "--size", RANKS, "0.5")
    for rank in (*first, last):
        assert rank.wait() == 0, rank.output
        assert [line.get("error") for line in rank.json_lines()] == [None] * 3, rank.output
        assert rank.json_lines()[1]["first"] == 2.0
    bed.wait_clean()


def test_a_scale_that_is_none_is_refused(bed):
    for scale in ("0", "-1", "1e30", "some"):
        wrong = bed.manager_cli("group", "create", "no", "--size", RANKS, "--quantise", scale)
        assert wrong.returncode != 0 and "--quantise" in wrong.stderr, wrong
    wrong = bed.manager_cli("group", "create", "no", "--size", RANKS, "--quantise", "nan")
    assert wrong.returncode != 0 and "quantise: nan is not a number from" in wrong.stderr, wrong
