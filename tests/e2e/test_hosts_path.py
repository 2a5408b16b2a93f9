"""Groups whose data go between the hosts, over softnic: right results, what ends them, and which way is said to be taken."""

import json
import os
import signal
import time

import pytest

import host_api
import harness
import test_types
from host_api import AT_ONCE_S, Rank, assert_within

CALLS = ["allreduce:1000", "allreduce:300000,double,prod", "reduce:500,int32,max,2", "broadcast:30000,uint8,sum,1",
         "reducescatter:700,half,avg", "allgather:40001,bfloat16", "barrier", "allreduce:0", "registered:5000"]
HOSTS = ("EPIC_PATH=hosts",)


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*test_types.BED)


def start(bed, *steps, before=HOSTS, hosts=None):
    group, hosts = bed.new_group(), hosts or bed.hosts
    return [Rank(bed, number, own, group, len(steps), hosts[number], before=before) for number, own in enumerate(steps)]


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("algorithm", ["auto", "doubling", "ring"])
@pytest.mark.parametrize("hosts", [("h0", "h1", "h2"), ("h0", "h1", "h2", "h3"), ("h0", "h0", "h1", "h2", "h2")],
                         ids=["3 ranks", "4 ranks", "5 ranks on 3 hosts"])
def test_every_collective_blocking_and_by_a_request(bed, hosts, algorithm):
    by_request = [f"start-{call}" for call in CALLS[:-1]] + ["wait"] * len(CALLS[:-1])
    started = start(bed, *[["init", *CALLS, *by_request, "async", "destroy"]] * len(hosts),
                    before=HOSTS + (f"EPIC_ALGORITHM={algorithm}",), hosts=hosts)
    for rank in started:
        assert rank.errors() == []
        assert sum("wrong" in line for line in rank.told()) == 2 * len(CALLS) - 1
    bed.wait_clean()


def test_calls_that_differ_end_the_group_on_every_rank(bed):
    steps = [["init", "allreduce:100", f"allreduce:{count}", "destroy"] for count in (1000, 1000, 2000, 1000)]
    for rank in start(bed, *steps):
        for line in rank.errors():
            assert line["error"] == "mismatch" and "rank 2 called with another count" in line["message"], line
        assert len(rank.errors()) == 2
    bed.wait_clean()


def test_a_killed_rank_ends_the_calls_of_the_others_at_once(bed):
    steps = ["init", "allreduce:100", "allreduce:1000000"]
    ranks = start(bed, ["init", "allreduce:100", "pause"], *[[*steps, "until-error", "destroy"]] * 3)
    for rank in ranks[1:]:
        rank.wait_until_doing(steps[-1])
    ranks[0].wait_until_doing("pause")
    ranks[0].signal(signal.SIGKILL)
    for rank in ranks[1:]:
        assert rank.did(steps[-1])["error"] == "rank lost", rank.errors()
    bed.wait_clean()


def test_a_late_rank_is_waited_for(bed):
    ranks = start(bed, *[["init", "allreduce:100", "allreduce:200000", "destroy"]] * 3,
                  ["init", "allreduce:100", "pause", "allreduce:200000", "destroy"])
    for rank in ranks[:3]:
        rank.wait_until_doing("allreduce:200000")
    ranks[3].wait_until_doing("pause")
    ranks[3].signal()
    for rank in ranks:
        assert rank.errors() == []
    bed.wait_clean()


def test_an_abort_ends_the_calls_of_all_ranks_at_once(bed):
    ranks = start(bed, ["init", "allreduce:100", "pause", "abort:enough", "destroy"],
                  *[["init", "allreduce:100", "allreduce:1000000", "destroy"]] * 3)
    for rank in ranks[1:]:
        rank.wait_until_doing("allreduce:1000000")
    ranks[0].wait_until_doing("pause")
    ranks[0].signal()
    abort = ranks[0].did("abort:enough")
    for rank in ranks[1:]:
        line = rank.did("allreduce:1000000")
        assert line["error"] == "aborted" and "enough" in line["message"], line
        assert_within(AT_ONCE_S, host_api.seconds_between(abort, line))
    bed.wait_clean()


def results_of(bed, *options, calls=2, timeout_s=harness.END_S):
    """What epic-perf tells of its rows, and what rank 0 wrote beside it."""
    ranks = bed.perf("-n", calls, "-w", "0", "--json", *options, timeout_s=timeout_s)
    harness.assert_all_right(ranks, timeout_s)
    text = ranks[0].output
    return json.loads(text[text.index("{\n"):text.rindex("}") + 1])["results"], text[:text.index("{\n")], ranks[1].output


def test_the_way_is_in_every_row_and_the_reason_in_one_line_of_rank_0(bed):
    """A group with switches, of which one lacks the product: path and reason by row, one line for the reason."""
    with test_types.engine_with(bed, "leaf1", *test_types.FIRST):
        rows, said, other = results_of(bed, "-b", "4K", "-e", "64K", "-f", "16", "-d", "int32", "-o", "all")
        why = f"operation product is not in {test_types.LEAF}"
        for row in rows:
            by_hosts = row["redop"] not in ("sum", "min", "max", "avg")
            assert row["path"] == ("hosts" if by_hosts else "network"), row
            assert row.get("path_reason", "") == (why.replace("product", row["redop"].replace("prod", "product"))
                                                  if by_hosts else ""), row
        assert said.count(f"hosts: {why}") == 1 and "hosts:" not in other, (said, other)
        group = bed.new_group()
        refused = [Rank(bed, r, ["init", "allreduce:10,int32,prod", "destroy"], group, 4, before=("EPIC_PATH=network",))
                   for r in range(4)]
        for rank in refused:
            assert rank.did("allreduce:10,int32,prod")["error"] == "unsupported"
    rows, said, _ = results_of(bed, "-b", "4K", "-e", "4K", "--path", "hosts")
    assert [row["path"] for row in rows] == ["hosts"] and "hosts:" not in said
    bed.wait_clean()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["network", "hosts"])
def test_a_call_longer_than_an_invocation_may_be(bed, path):
    """More than 1 GiB, so that the network makes it in two slices; between the hosts slices are shorter anyway. epic-perf
    looks at every element."""
    rows, _, _ = results_of(bed, "-b", "1100M", "-e", "1100M", "-d", "int32", "--path", path, calls=1, timeout_s=1200)
    print(f"\n{path}: {rows}")
    assert [row["path"] for row in rows] == [path] and rows[0]["size"] > 1 << 30, rows
    assert rows[0]["out_of_place"]["wrong"] == rows[0]["in_place"]["wrong"] == 0, rows


def parallel(bed, hosts, *options):
    """epic-perf --parallel with a rank on each of these hosts, some of which come again; the process numbers are told."""
    group = bed.new_group()
    shell = ["sh", "-c", 'echo "process $$"; exec "$@"', "sh"]
    return [bed.start(host, *shell, harness.PERF_INSIDE, "--parallel", "--group", group, "--rank", rank, "--size", len(hosts),
                      *options) for rank, host in enumerate(hosts)]


def test_several_ranks_on_a_host_by_rings_through_switches(bed):
    """Shares that leave something over, none at all, and a collective that is left out with the reason."""
    ranks = parallel(bed, ["h0", "h2", "h0", "h2"], "--calls", "4:2,20:2,1000000:2", "-d", "int32", "-o", "avg",
                     "--mode", "spliced", "--path", "network", "--collective", "all", "--json")
    harness.assert_all_right(ranks)
    text = ranks[0].output
    told = json.loads(text[text.index("{\n"):text.rindex("}") + 1])
    assert [(row["collective"], row["size"], row["path"]) for row in told["results"]] == [
        ("allreduce", size, "network") for size in (4, 20, 1_000_000)], told
    assert len(told["left_out"]) == 5 and "no call of a ParallelCommunicator" in str(told["left_out"][0]), told
    bed.wait_clean()


def test_hosts_with_other_numbers_of_ranks_are_named_on_all(bed):
    for rank in parallel(bed, ["h0", "h0", "h1"]):
        assert rank.wait() == 1 and ("invalid argument: the host of rank 0 (h0) has 2 ranks, the host of rank 2 (h1) has "
                                     "1 rank") in rank.output, rank.output
    bed.wait_clean()


def test_a_rank_that_dies_is_lost_on_all_rings(bed):
    ranks = parallel(bed, ["h0", "h0", "h1", "h1"], "--calls", "1M:1000000", "-c", "0")
    ranks[0].wait_for("busbw")  # all are in, or about to be
    pid = int(ranks[1].wait_for("process").split()[1])
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    for rank in (ranks[0], *ranks[2:]):
        assert rank.wait() == 1 and "epic-perf: " in rank.output and ": rank lost: " in rank.output, rank.output
    assert_within(AT_ONCE_S, time.monotonic() - killed)
    bed.wait_clean()


def test_without_a_manager_a_group_of_one_copies(bed):
    calls = [call.removesuffix(",1").removesuffix(",2") for call in CALLS]  # rank 0 is the root
    argv = [host_api.API_RANK, "--group", "one", "--rank", "0", "--size", "1", "init", *calls, "destroy"]
    told = [json.loads(line) for line in bed.run(bed.hosts[0], "env", "EPIC_MANAGER=127.0.0.1:9", *argv).splitlines()
            if line.startswith("{")]
    assert [line for line in told if "error" in line or line.get("wrong", 0)] == [], told
    assert len(told) == 1 + 2 * (len(calls) + 2)
