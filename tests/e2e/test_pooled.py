"""Mode V on real daemons: sums in a pool that groups of a switch share, and a host that lends memory for what loses its place."""

import time

import pytest

import harness
import test_host_daemon
from test_random_faults import random_calls, run_groups

POOLED = 5
BUFFER = 8192
LENDS = "64M"
# Of 16 places, and 4 buffers more: a window of a group has 64.
SMALL = ("star-4", "--hosts", "softnic", f"--engine-arg=--pool={20 * BUFFER}", "--wire")
TREE = ("tree-3-2", "--hosts", "softnic,h1=rxe", f"--engine-arg=--pool={20 * BUFFER}", "--wire")


class Lender:
    """inchost on the last host of a bed, which lends memory."""

    def __init__(self, bed, folder):
        self.host = bed.hosts[-1]
        self.daemon = test_host_daemon.Daemon(bed, self.host, folder, "--fallback", LENDS)
        self.daemon.program.wait_for("registered at the manager")

    def end(self):
        self.daemon.program.end()


@pytest.fixture(name="lend")
def fixture_lend(tmp_path):
    """Called with a bed: its last host lends. Ended with the test."""
    lenders = []

    def lend(bed):
        lenders.append(Lender(bed, tmp_path))
        return lenders[-1]

    yield lend
    for lender in lenders:
        lender.end()


def counters_of(bed, switch, group):
    """What a switch has counted for a group that it has."""
    dump = next(dump for dump in bed.tables(switch)["groups"] if dump["config"]["name"] == group)
    return {counter["name"]: int(counter["value"]) for counter in dump["counters"]}


def pool_of(bed, switch):
    return bed.tables(switch)["info"]["capability"]["pool"]


def test_groups_share_a_pool_of_16_places_and_are_right(beds, lend):
    bed = beds.get(*SMALL)
    lender = lend(bed)
    assert pool_of(bed, "s1")["places"] == 16
    names = [bed.network_group("--mode", "pooled") for _ in range(2)]
    groups = [bed.loops("--counts", "1,1000,100000", "--until-signal", "--iterations", 1_000_000, group=name) for name in names]
    for ranks in groups:
        for rank in ranks:
            rank.wait_for("joined")
    deadline = time.monotonic() + harness.END_S
    while not all(counters_of(bed, "s1", name)["server_bytes_back"] > 0 for name in names):
        assert time.monotonic() < deadline, [counters_of(bed, "s1", name) for name in names]
        time.sleep(0.1)
    told = [counters_of(bed, "s1", name) for name in names]
    shown, text = bed.manager("group", "show", names[0]), bed.manager_cli("group", "show", names[0]).stdout
    for ranks in groups:
        bed.end_loops(ranks)
    for name in names:
        bed.manager("group", "destroy", name)
    assert all(counters["splits"] > 0 for counters in told), told
    assert shown["server"]["host"] == lender.host
    assert f"server      {lender.host}, which lends " in text and "splits" in text
    bed.wait_clean()
    pool = pool_of(bed, "s1")
    assert (pool["spare_buffers"], pool["places_in_use"]) == (pool["buffers"], 0)


def test_the_group_of_higher_priority_keeps_its_places(beds, lend, monkeypatch):
    """Of two groups that say the same, one has a limit: its sums go to the server, the other's hardly ever."""
    bed = beds.get(*SMALL)
    lend(bed)
    names = [bed.network_group("--mode", "pooled", *limit) for limit in ((), ("--priority-limit", "0.5"))]
    monkeypatch.setenv("EPIC_PRIORITY", "60000")
    groups = [bed.loops("--counts", "100000", "--until-signal", "--iterations", 1_000_000, group=name) for name in names]
    for ranks in groups:
        for rank in ranks:
            rank.wait_for("joined")
    deadline = time.monotonic() + harness.END_S
    while counters_of(bed, "s1", names[1])["evictions"] < 100:
        assert time.monotonic() < deadline, [counters_of(bed, "s1", name) for name in names]
        time.sleep(0.1)
    high, low = (counters_of(bed, "s1", name) for name in names)
    text = bed.manager_cli("group", "show", names[1]).stdout
    for ranks in groups:
        bed.end_loops(ranks)
    for name in names:
        bed.manager("group", "destroy", name)
    assert high["evictions"] < low["evictions"] / 2, (high, low)
    assert "priority    at most 0.5" in text


def test_all_collectives_are_right_with_losses_on_all_links(beds, lend):
    """One switch sums, whose hosts hang on others, and one of them is on rdma_rxe."""
    bed = beds.get(*TREE)
    lend(bed)
    bed.wire.random_faults(5, drop_ppm=5000)
    group = bed.new_group()
    calls = 40
    told = run_groups(bed, [{"group": group, "path": "network", "mode": POOLED, "outstanding": 6,
                             "calls": random_calls(5, calls)}], 120)
    assert [(lines[group]["calls"], lines[group]["wrong"], lines[group]["path"]) for lines in told] == [(calls, 0, "network")] * 4
    assert bed.wire.count()["faults"]["drop"] > 0
    assert bed.counters("root")["aggregated_packets"] > 0


def test_a_killed_lender_ends_its_groups_with_its_name(beds, lend):
    bed = beds.get(*SMALL)
    lender = lend(bed)
    group = bed.network_group("--mode", "pooled")
    ranks = bed.loops("--counts", "100000", "--iterations", 1_000_000, group=group)
    for rank in ranks:
        rank.wait_for("joined")
    lender.daemon.signal(9)
    for rank in ranks:
        assert rank.wait() != 0
        assert '"fallback lost"' in rank.output and lender.host in rank.output, rank.output
    bed.manager("group", "destroy", group)


def test_without_a_lender_a_group_goes_by_the_hosts_and_says_why(beds):
    bed = beds.get(*SMALL)
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", len(bed.hosts), "--mode", "pooled")
    shown, _ = bed.shown_while_held(group, "--iterations", 2)
    assert shown["path_taken"] == "PATH_HOSTS"
    assert shown["path_reason"] == "no host lends memory to mode pooled (inchost --fallback)"
