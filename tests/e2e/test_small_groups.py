"""Memory to fit: groups that say how long their calls are, and of which types, take so much of a switch and no more."""

import json
import os
import pathlib
import signal
import time

import pytest

import harness
import host_api
import modes

GROUPS_RANK = harness.BUILD / "tests" / "e2e" / "groups_rank"
RANKS = 2
MIB = 1 << 20
# Half of the memory that a switch has by default; with two MTUs for each slot they would take all of it.
FULL, FEW = 1000, 62
SMALL = ("--max-bytes", "1K", "--types", "int32,uint32,float32")


def wait_until_free(bed, switch, free):
    """Until the switch has told the manager, with one of its signs of life, that so many bytes of its arena are free."""
    deadline = time.monotonic() + harness.SOON_S
    while True:
        states = {s["name"]: s for s in bed.manager("switches")["switches"]}
        capability = states[switch]["engine"]["capability"]
        if int(capability.get("arena_free_bytes", 0)) == free:
            return
        assert time.monotonic() < deadline, (capability, free)
        time.sleep(0.1)


def taken(bed, group, switch):
    """Arena bytes of a switch that a running group takes."""
    return {node["switch_name"]: int(node["arena_bytes"]) for node in bed.manager("group", "show", group)["tree"]}[switch]


def run_one(bed, *options, iterations=3, counts="1,256,5000", kind="int32"):
    """A group of its own, with such options; what `group show` and `group show --json` say while its ranks hold it."""
    group = bed.network_group(*options)
    return bed.shown_while_held(group, "--counts", counts, "--iterations", iterations, "--type", kind)


@pytest.mark.parametrize("number, sram", [pytest.param(FEW, MIB // 2, id="62 in 0.5 MiB"),
                                          pytest.param(FULL, 8 * MIB, id="1000 in 8 MiB", marks=pytest.mark.slow)])
def test_a_thousand_small_groups_fit_into_a_switch(beds, number, sram):
    """All at once, and every one of them is right. Without saying that they are small, as many would take 127 times as much."""
    bed = beds.get("star-2", "--hosts", "softnic", f"--sram={sram}")
    prefix = bed.new_group() + "-"
    for at in range(number):
        bed.manager("group", "create", f"{prefix}{at}", "--size", str(RANKS), "--path", "network", *SMALL)
    ranks = [bed.start(host, GROUPS_RANK, "--prefix", prefix, "--rank", rank, "--size", RANKS, "--groups", number,
                       timeout_s=600) for rank, host in enumerate(bed.hosts)]
    for rank in ranks:
        said = json.loads(rank.wait_for('"groups"', timeout_s=500))
        assert said == {"groups": number, "by_network": number, "wrong": 0}
    wait_until_free(bed, "s1", sram - number * taken(bed, f"{prefix}0", "s1"))
    for rank in ranks:
        os.kill(json.loads(rank.wait_for('"pid"'))["pid"], signal.SIGUSR1)
    for rank in ranks:
        assert rank.wait() == 0, rank.output
    wait_until_free(bed, "s1", sram)
    for at in range(number):
        bed.manager("group", "destroy", f"{prefix}{at}")


def held_by(bed, daemon):
    """What a daemon has of the system: (descriptors, resident KiB)."""
    pid = bed.record()["processes"][daemon]["pid"]
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]
    return len(os.listdir(f"/proc/{pid}/fd")), int(resident)


@pytest.mark.slow
def test_ten_thousand_groups_leave_nothing_behind(beds):
    """A thousand at a time, made by their ranks, used and left again by them: then all is as after the first thousand."""
    bed = beds.get("star-2", "--hosts", "softnic", f"--sram={8 * MIB}")
    daemons, after = ("manager", "s1.agent", "s1.engine"), []
    for turn in range(10):
        prefix = f"{bed.new_group()}-"
        declared = ("env", "EPIC_MAX_BYTES=1024", "EPIC_TYPES=int32,uint32,float32")
        ranks = [bed.start(host, *declared, GROUPS_RANK, "--prefix", prefix, "--rank", rank, "--size", RANKS, "--groups", FULL,
                           timeout_s=600) for rank, host in enumerate(bed.hosts)]
        for rank in ranks:
            said = json.loads(rank.wait_for('"groups"', timeout_s=500))
            assert said == {"groups": FULL, "by_network": FULL, "wrong": 0}
        listed = [group["name"] for group in bed.manager("group", "list")["groups"]]
        assert listed == sorted(f"{prefix}{at}" for at in range(FULL))
        assert sorted(group["config"]["name"] for group in bed.manager("tables", "s1")["groups"]) == listed
        for rank in ranks:
            os.kill(json.loads(rank.wait_for('"pid"'))["pid"], signal.SIGUSR1)
        for rank in ranks:
            assert rank.wait() == 0, rank.output
        wait_until_free(bed, "s1", 8 * MIB)
        assert not bed.manager("group", "list").get("groups")
        after.append({daemon: held_by(bed, daemon) for daemon in daemons})
        print(f"{FULL * (turn + 1)} groups: {after[-1]}")
    for daemon in daemons:
        assert after[-1][daemon][0] <= after[0][daemon][0], (daemon, after)
        # A heap keeps what a thousand groups at once took of it, and a little more each time that they are others. Of what
        # each group left behind there would be nine times as much.
        assert after[-1][daemon][1] <= after[0][daemon][1] * 1.25, (daemon, after)


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "softnic")


@pytest.mark.parametrize("mode", modes.OWN_LOGIC)
def test_what_a_group_declares_is_what_it_takes(bed, mode):
    """In every mode. Calls that are longer than was said are right all the same."""
    memory, text = {}, {}
    for name, options in {"all": (), "types": ("--types", "int32"), "bytes": ("--max-bytes", "4K"),
                          "both": ("--max-bytes", "4K", "--types", "int32")}.items():
        shown, text[name] = run_one(bed, "--mode", str(mode), *options)
        assert shown["path_taken"] == "PATH_NETWORK"
        memory[name] = sum(int(node["arena_bytes"]) for node in shown["tree"])
    assert memory["both"] < memory["bytes"] < memory["types"] < memory["all"], memory
    assert memory["both"] * 10 < memory["all"], memory
    assert "for         calls of up to 4096 bytes\n" in text["both"] and "calls of up to" in text["bytes"]
    assert "a call of 4096 bytes has 2" in text["both"], text["both"]
    assert "lacks       type float16, type bfloat16: the types that the group was created for\n" in text["types"], text["types"]


@pytest.mark.parametrize("path, way", [("network", "refused"), ("auto", "hosts")])
def test_a_type_that_is_wider_while_it_is_summed_is_not_for_the_switches_of_a_group_without_it(bed, path, way):
    group, why = bed.new_group(), "type float16 is not in the types that the group was created for"
    bed.manager("group", "create", group, "--size", str(len(bed.hosts)), "--path", path, "--types", "float32")
    steps = ["init", "allreduce:1000,float,sum", "path:half,sum", "allreduce:1000,half,sum", "broadcast:1000,half,sum,1",
             "allreduce:1000,int64,sum", "destroy"]
    for rank in host_api.start(bed, *[steps] * len(bed.hosts), group=group):
        told = {line["did"]: line for line in rank.told()}
        assert why in told["path:half,sum"]["reason"], told
        sum_of_halves = told["allreduce:1000,half,sum"]
        if way == "refused":
            assert sum_of_halves["error"] == "unsupported" and why in sum_of_halves["message"], told
        assert [line for did, line in told.items() if "error" in line and line is not sum_of_halves] == [], told
        assert ("error" in sum_of_halves) == (way == "refused"), told
    bed.manager("group", "destroy", group)


def test_ranks_that_make_a_group_declare_what_it_is_for(bed):
    """As an operator would."""
    declared = ("EPIC_MAX_BYTES=4096", "EPIC_TYPES=int32")
    memory = {}
    for name, before in {"any": (), "declared": declared}.items():
        group = bed.new_group()
        ranks = [host_api.Rank(bed, number, ["init", "pause", "allreduce:1000,int32,sum", "destroy"], group, before=before)
                 for number in range(len(bed.hosts))]
        for rank in ranks:
            rank.wait_until_doing("pause")
        memory[name] = sum(int(node["arena_bytes"]) for node in bed.manager("group", "show", group)["tree"])
        for rank in ranks:
            rank.signal()
        assert [rank.errors() for rank in ranks] == [[]] * len(ranks)
    assert memory["declared"] * 10 < memory["any"], memory


def test_a_rank_that_declares_something_else_is_told_so(bed):
    """And may come again; the one that waits knows nothing of it."""
    group, declared, steps = bed.new_group(), ("EPIC_TYPES=int32",), ["init", "allreduce:1000,int32,sum", "destroy"]
    first = host_api.Rank(bed, 0, steps, group, before=declared)
    bed.wait_for_rank(group, 0)
    refused = host_api.Rank(bed, 1, ["init"], group).told()[0]
    assert refused["error"] == "mismatch", refused
    assert refused["message"] == f"types: rank 1 has calls of any type, the group {group} is for type int32", refused
    others = [host_api.Rank(bed, number, steps, group, before=declared) for number in range(1, len(bed.hosts))]
    assert [rank.errors() for rank in (first, *others)] == [[]] * len(bed.hosts)


def test_sizes_are_read_as_people_write_them(bed):
    wrong = bed.manager_cli("group", "create", "no", "--size", 4, "--max-bytes", "some")
    assert wrong.returncode != 0 and "--max-bytes" in wrong.stderr, wrong
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", "4", "--max-bytes", "64KB")
    assert int(bed.manager("group", "show", group)["max_bytes"]) == 65536
    bed.manager("group", "destroy", group)
