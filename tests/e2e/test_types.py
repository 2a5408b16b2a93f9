"""A switch that lacks types and operations: what a group through it can do, what is refused, and who is named."""

import contextlib
import json
import time

import pytest

import harness
import host_api

BED = ("tree-3-2", "--hosts", "softnic")
FIRST = ("--types=float32,int32,float16,bfloat16,byte", "--operations=sum,min,max")
LEAF = r"leaf1 (version 0.1.0)"
RANKS = 4


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*BED)


def operations_of(bed, switch):
    states = {s["name"]: s for s in bed.manager("switches")["switches"]}
    return states[switch]["engine"]["capability"].get("operations", []), states[switch]["state"]


@contextlib.contextmanager
def engine_with(bed, switch, *options):
    """The switch's engine runs with these options meanwhile."""
    daemon = f"{switch}.engine"
    argv = bed.kill(daemon)
    before, _ = operations_of(bed, switch)

    def start(more, known):
        bed.revive(daemon, argv + list(more))
        deadline = time.monotonic() + 20
        while operations_of(bed, switch) != (known, "up"):
            assert time.monotonic() < deadline, f"{switch}: {operations_of(bed, switch)}"
            time.sleep(0.2)

    stated = next(option for option in options if option.startswith("--operations="))
    start(options, stated.removeprefix("--operations=").split(","))  # in the order of their numbers
    try:
        yield
    finally:
        bed.kill(daemon)
        start((), before)


def test_a_call_that_a_switch_lacks_is_refused_everywhere_before_anything_is_sent(bed):
    """The group goes on; copies travel as bytes. With all switches as they are, the same calls are right."""
    calls = ["allreduce:1000,float,sum", "allreduce:1000,double,sum", "reduce:10,int32,prod,1", "allreduce:10,uint8,bxor",
             "broadcast:1000,double,sum,2", "allgather:11,int16,sum", "allreduce:40001,half,avg"]
    steps = ["init", *calls, "destroy"]
    lacks = {1: f"type float64 is not in {LEAF}", 2: f"operation product is not in {LEAF}",
             3: f"type uint8 is not in {LEAF}"}
    with engine_with(bed, "leaf1", *FIRST):
        group = bed.network_group()
        for rank in host_api.start(bed, *[steps] * RANKS, group=group):
            told = rank.told()[1:-1]
            assert len(told) == len(calls)
            for number, line in enumerate(told):
                if number in lacks:
                    assert line["error"] == "unsupported" and line["message"].startswith(f"{lacks[number]}; "), line
                    assert "path network was asked for" in line["message"], line
                else:
                    assert "error" not in line and line["wrong"] == 0, line
        bed.manager("group", "destroy", group, "--force")
    for rank in host_api.start(bed, *[steps] * RANKS):
        assert rank.errors() == []
    bed.wait_clean()


def test_epic_perf_measures_what_there_is_and_says_what_is_left_out(bed):
    """A switch with neither INT32 nor sums, and groups that may not go by the hosts."""
    size = ("-b", "64", "-e", "64", "-n", "1", "-w", "0", "--json", "--path", "network")
    with engine_with(bed, "leaf1", "--types=float64,int8", "--operations=max,product"):
        ranks = bed.perf(*size, "--collective", "all", "-d", "all", "-o", "all")
        harness.assert_all_right(ranks)
        told = json.loads(ranks[0].output[ranks[0].output.index("{\n"):ranks[0].output.rindex("}") + 1])
        rows = {(row["collective"], row["type"], row["redop"]) for row in told["results"]}
        reduced = {(t, o) for t in ("double", "int8") for o in ("max", "prod")}
        assert {row[1:] for row in rows if row[0] == "allreduce"} == reduced, rows
        assert {row[1] for row in rows if row[0] == "allgather"} == {"double", "int8"}, rows
        assert ("barrier", "none", "none") in rows and told["out_of_bounds"] == 0
        why = {(row["collective"], row["type"], row["redop"]): row["reason"] for row in told["left_out"]}
        assert not rows & set(why)
        assert why["allreduce", "int32", "max"].startswith(f"type int32 is not in {LEAF}"), why
        assert why["reduce", "int8", "avg"].startswith(f"operation sum is not in {LEAF}"), why
        assert why["broadcast", "half", "none"].startswith(f"type float16 is not in {LEAF}"), why
        nothing = bed.perf(*size, "-d", "int32", "-o", "sum")
        assert harness.finish(nothing, 60) == [1] * RANKS
        for rank in nothing:
            assert f"type int32 is not in {LEAF}" in rank.output, rank.output
    bed.wait_clean()


def test_a_group_that_needs_what_a_switch_lacks_is_refused_with_its_name(bed):
    with engine_with(bed, "leaf1", *FIRST):
        for name, options, why in (("t", ("--types", "float64,int32"), f"type float64 is not in {LEAF}"),
                                   ("o", ("--operations", "product"), f"operation product is not in {LEAF}")):
            group = f"needs-{name}"
            assert bed.manager_cli("group", "create", group, "--size", RANKS, "--path", "network", *options).returncode == 0
            for rank in host_api.start(bed, *[["init"]] * RANKS, group=group):
                line = rank.errors()[0]
                assert line["error"] == "no tree" and why in line["message"], line
            assert bed.manager_cli("group", "destroy", group, "--force").returncode == 0
        assert bed.manager_cli("group", "create", "has", "--size", RANKS, "--types", "float16").returncode == 0
        ranks = host_api.start(bed, *[["init", "pause"]] * RANKS, group="has")
        for rank in ranks:
            rank.wait_until_doing("pause")
        said = bed.manager_cli("group", "show", "has").stdout
        assert "needs       type float16" in said and f"operation saturating_sum: {LEAF}" in said, said
        for rank in ranks:
            rank.program.end()
        bed.manager_cli("group", "destroy", "has", "--force")
    wrong = bed.manager_cli("group", "create", "no", "--size", RANKS, "--types", "float31")
    assert wrong.returncode == 1 and "'float31' is not a type: float32" in wrong.stderr, wrong
    bed.wait_clean()
