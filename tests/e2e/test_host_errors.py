"""The rows of docs/HOST.md's table "Errors and deadlines" that something outside of the ranks brings about, with the
times that it promises. What ranks bring about themselves is in test_host_api.py."""

import contextlib
import os
import pathlib
import re
import signal
import time

import pytest
import yaml

from epic_testbed import net
from harness import MANAGER, SOON_S
from host_api import (AT_ONCE_S, BED, RANKS, Rank, anew, assert_ended_everywhere, assert_within, first_error,
                      seconds_between, start)

pytestmark = pytest.mark.endings

NOWHERE, NOBODY = "10.255.0.99:7400", "nobody.example:7400"
HOST_GONE_S, MANAGER_S, DEVICE_S, ARP_S, PORT_S, SWITCH_S, STILL_S = 15, 10, 2, 4, 10, 5, 10


@contextlib.contextmanager
def cut(bed, node, *ports):
    """These ports of bridges carry nothing meanwhile; the carrier stays."""
    def state(word):
        for port in ports:
            net.run(["bridge", "-n", f"epic-{bed.name}-{node}", "link", "set", "dev", port, "state", word])
    state("disabled")
    try:
        yield
    finally:
        state("forwarding")


def port_of(bed, host):
    """The port of the fabric that the host is at: links between switches come first, then those of the hosts."""
    between_switches = len(bed.topology()["links"]) - len(bed.hosts)
    return f"f{between_switches + bed.hosts.index(host) + 1}b"


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*BED)


@pytest.fixture(name="slow", scope="module")
def fixture_slow(all_beds):
    """What takes its time, all at once: h0's port carries nothing, h3 and the manager do not hear each other."""
    bed = all_beds.get(*BED)
    again = [anew(bed) for _ in range(2)]
    pair = ["h0", "h1"]
    calls = ["init", "barrier", "pause:1", "allreduce:100", "barrier", "pause:2", *again[0]]
    idle = ["init", "barrier", "until-error", "barrier", "pause:2", *again[1]]
    told = {"dead port": start(bed, calls, calls, hosts=pair),
            "host gone": start(bed, idle, idle, hosts=["h2", "h3"])}
    for ranks in told.values():
        for rank in ranks:
            rank.program.wait_for('"did":"barrier"')
    with cut(bed, "fabric", port_of(bed, "h0")), cut(bed, "mgmt", "m-h3"):
        told["cut_us"] = time.monotonic() * 1e6
        for rank in told["dead port"]:
            rank.signal()
        # An engine's question has told the host's kernel whose it is; this is about one that nobody has heard of.
        net.run(["ip", "-n", f"epic-{bed.name}-h0", "neigh", "flush", "dev", "vec0"])
        told["no ARP answer"] = start(bed, ["init"], ["init", "until-error"], hosts=pair)
        told["no manager"] = [Rank(bed, 0, ["init"], bed.new_group(), host="h1", options=("--manager", NOWHERE))]
        silent = ("unshare", "-m", "/usr/bin/python3", pathlib.Path(__file__).with_name("silent_resolver.py"))
        told["no resolver"] = [Rank(bed, 0, ["init"], bed.new_group(), host="h1", options=("--manager", NOBODY), before=silent)]
        asks = bed.start("mgmt", *silent, MANAGER, "switches", "--manager", NOBODY)
        told["no device"] = [Rank(bed, 0, ["init"], bed.new_group(), host="h2", **said) for said in
                             ({"options": ("--ifname", "nosuch0")}, {"before": ("EPIC_IFNAME=nosuch0",)})]
        # No port is named: the first one counts, which here is none of the topology's.
        told["first port"] = [Rank(bed, 0, ["init"], bed.new_group(), host="h2", before=("-u", "EPIC_IFNAME", "EPIC_SOFTNIC_DEVICES=vec1,vec0"))]
        told["nobody comes"] = [Rank(bed, 0, ["init"], bed.new_group(), 3, "h1", **said) for said in
                                ({"options": ("--join-timeout-ms", 2000)},
                                 {"options": ("--join-timeout-ms", 0), "before": ("EPIC_JOIN_TIMEOUT=2",)})]
        waiting = told["dead port"] + told["host gone"]
        for rank in waiting:
            rank.wait_until_doing("pause:2")
        told["asks"] = asks.wait(), asks.output
        for case in ("no ARP answer", "no manager", "no resolver", "no device", "first port", "nobody comes"):
            for rank in told[case]:
                rank.told()
    for rank in waiting:
        rank.signal()
    for rank in waiting:
        rank.told()
    yield told
    bed.end_programs()


def test_a_port_that_carries_nothing_is_a_transport_error_there(slow):
    ranks = slow["dead port"]
    assert_ended_everywhere(ranks, ["transport", "aborted"])
    error, told = (first_error(rank) for rank in ranks)
    assert "transport retry counter exceeded" in error["message"], error
    assert "transport retry counter exceeded" in told["message"] and "rank 0" in told["message"], told
    assert_within(PORT_S, error["us"] / 1e6)
    assert_within(AT_ONCE_S, seconds_between(error, told))


def test_a_host_that_is_gone_is_a_lost_rank_and_to_itself_a_lost_manager(slow):
    ranks = slow["host gone"]
    assert_ended_everywhere(ranks, ["rank lost", "manager lost"])
    assert "rank 1 on" in first_error(ranks[0])["message"]
    for rank in ranks:
        assert_within(HOST_GONE_S, (first_error(rank)["at_us"] - slow["cut_us"]) / 1e6)


def test_a_switch_that_does_not_answer_arp(slow):
    error, told = (first_error(rank) for rank in slow["no ARP answer"])
    assert error["error"] == "transport" and "no ARP answer from the switch at 10.10.255.2" in error["message"], error
    assert told["error"] == "aborted" and "no ARP answer" in told["message"], told
    # A group begins to connect when its last rank has come.
    begun_us = max(init["at_us"] - init["us"] for init in (rank.told()[0] for rank in slow["no ARP answer"]))
    assert_within(ARP_S, (error["at_us"] - begun_us) / 1e6)
    assert_within(AT_ONCE_S, seconds_between(error, told))


def test_a_wrong_manager_address(slow):
    error = first_error(slow["no manager"][0])
    assert error["error"] == "manager unreachable" and NOWHERE in error["message"], error
    assert_within(MANAGER_S, error["us"] / 1e6)


def test_a_resolver_that_does_not_answer_takes_no_more_time(slow):
    """It would take minutes of its own. The command line ends without its answer, too."""
    error = first_error(slow["no resolver"][0])
    assert error["error"] == "manager unreachable" and NOBODY in error["message"], error
    assert "the host nobody.example cannot be looked up now: no answer in time" in error["message"], error
    assert_within(MANAGER_S, error["us"] / 1e6)
    status, said = slow["asks"]
    assert status == 3 and f"no manager answers at {NOBODY}" in said, said


def test_no_roce_port(slow):
    """Told by the program which, or by EPIC_IFNAME."""
    for error in map(first_error, slow["no device"]):
        assert error["error"] == "not found" and "no active RoCE port on nosuch0" in error["message"], error
        assert "softnic_vec0" in error["message"], error
        assert_within(DEVICE_S, error["us"] / 1e6)


def test_the_first_port_is_taken_where_none_is_named(slow):
    error = first_error(slow["first port"][0])
    assert error["error"] == "not found" and "has no host with the address 10.255.2.3 (rank 0," in error["message"], error


def test_ranks_that_do_not_come_are_named(slow):
    """Told by the program how long to wait, or by EPIC_JOIN_TIMEOUT."""
    for error in map(first_error, slow["nobody comes"]):
        assert error["error"] == "join timeout" and "2 of 3 ranks did not join in time: 1, 2" in error["message"], error
        assert_within(2, error["us"] / 1e6)


def test_a_rank_or_size_that_does_not_fit_is_refused_at_once(bed):
    """The group goes on waiting, and whoever was refused joins it as he should have."""
    group, rest = bed.new_group(), ["allreduce:100", "destroy"]
    first = Rank(bed, 0, ["init", *rest], group, 3)
    bed.wait_for_rank(group, 0)
    doubled = Rank(bed, 0, ["init", f"init:{group},1,3", *rest], group, 3, "h1")
    differs = Rank(bed, 1, ["init", f"init:{group},2,3", *rest], group, 2, "h2")
    for rank, name, words in ((doubled, "duplicate rank", "rank 0"),
                              (differs, "size mismatch", "rank 1 says 2, the group")):
        error = rank.did("init")
        assert error["error"] == name and words in error["message"], error
        assert_within(AT_ONCE_S, error["us"] / 1e6)
    for rank in (first, doubled, differs):
        assert [line for line in rank.groups()[-1] if "error" in line] == []


def test_calls_that_differ_end_the_group_when_the_last_has_called(bed):
    again, group = anew(bed), bed.new_group()
    rest = ["allreduce:7", "async", *again]
    ranks = start(bed, *[["init", "barrier", "allreduce:100", *rest]] * 3,
                  ["init", "barrier", "pause", "allreduce:101", *rest], group=group)
    for rank in ranks[:3]:
        rank.wait_until_doing("allreduce:100")
    ranks[3].signal()
    assert_ended_everywhere(ranks, ["mismatch"] * 4)
    for rank in ranks:
        assert "called with another count" in first_error(rank)["message"]
        assert_within(AT_ONCE_S, seconds_between(ranks[3].did("pause"), first_error(rank)))
    said = bed.manager_cli("why", group).stdout
    assert said.endswith("ago: failed: rank 3 called with another count than rank 0 (rank 0: 100, rank 3: 101)\n"), said


def test_a_process_that_dies_is_a_lost_rank_at_once(bed):
    left, join, *rest = anew(bed)
    steps = ["init", "barrier", "allreduce:100", left]
    ranks = start(bed, *[[*steps, f"{join},{rank},{RANKS - 1}", *rest] for rank in range(RANKS - 1)],
                  ["init", "barrier", "pause"])
    ranks[3].wait_until_doing("pause")
    for rank in ranks[:3]:
        rank.wait_until_doing("allreduce:100")
    killed_us = time.monotonic() * 1e6
    ranks[3].signal(signal.SIGKILL)
    assert_ended_everywhere(ranks[:3], ["rank lost"] * 3)
    for rank in ranks[:3]:
        assert "rank 3" in first_error(rank)["message"]
        assert_within(AT_ONCE_S, (first_error(rank)["at_us"] - killed_us) / 1e6)


def test_a_port_without_a_link_is_told(bed):
    port = ["ip", "-n", f"epic-{bed.name}-fabric", "link", "set", port_of(bed, "h1")]
    net.run([*port, "down"])
    try:
        error = first_error(Rank(bed, 0, ["init"], bed.new_group(), host="h1"))
    finally:
        net.run([*port, "up"])
    assert error["error"] == "not found" and "vec0 (port 1 has no link)" in error["message"], error


def until_hit(bed, hit):
    """Ranks 0 and 1 in a call, 2 and 3 idle, when hit() is called. Returns the ranks, that wait before they join another group,
    when, and what hit() says."""
    again = ["pause", *anew(bed)]
    ranks = start(bed, *[["init", "barrier", "allreduce:100", "async", *again]] * 2,
                  *[["init", "barrier", "until-error", "barrier", *again]] * 2)
    for rank in ranks[:2]:
        rank.wait_until_doing("allreduce:100")
    for rank in ranks[2:]:
        rank.wait_until_doing("until-error")
    hit_us = time.monotonic() * 1e6
    return ranks, hit_us, hit()


def until_killed(bed, daemon):
    """The same for a daemon that is killed; the last is how to start it again."""
    return until_hit(bed, lambda: bed.kill(daemon))


def go_on(ranks):
    for rank in ranks:
        rank.wait_until_doing("pause")
        rank.signal()


def test_an_engine_that_dies_is_a_lost_switch(bed):
    ranks, killed_us, argv = until_killed(bed, "root.engine")
    for rank in ranks:
        rank.wait_until_doing("pause")
    bed.revive("root.engine", argv)
    bed.wait_for_switch("root")
    go_on(ranks)
    assert_ended_everywhere(ranks, ["switch lost"] * 4)
    for rank in ranks:
        assert "root" in first_error(rank)["message"]
        assert_within(SWITCH_S, (first_error(rank)["at_us"] - killed_us) / 1e6)


@pytest.mark.slow
@pytest.mark.parametrize("topology, switch", [(BED, "root"), (("star-4", "--hosts", "softnic"), "s1")], ids=["above", "at the hosts"])
def test_an_engine_that_stands_still_is_a_lost_switch(beds, topology, switch):
    """Its process is there, and its socket takes connections: it may only be late, so this takes longer. NICs at such a switch give
    up at about the same time, and say less."""
    bed = beds.get(*topology)
    engine = bed.record()["processes"][f"{switch}.engine"]["pid"]
    try:
        ranks, stopped_us, _ = until_hit(bed, lambda: os.kill(engine, signal.SIGSTOP))
        for rank in ranks:
            rank.wait_until_doing("pause")
    finally:
        os.kill(engine, signal.SIGCONT)
    bed.wait_for_switch(switch)
    go_on(ranks)
    assert_ended_everywhere(ranks, ["switch lost"] * 4)
    for rank in ranks:
        assert f"switch {switch} is lost" in first_error(rank)["message"], first_error(rank)
        assert_within(STILL_S, (first_error(rank)["at_us"] - stopped_us) / 1e6)


def test_a_manager_that_dies_is_a_lost_manager_at_once(bed):
    ranks, killed_us, argv = until_killed(bed, "manager")
    for rank in ranks:
        rank.wait_until_doing("pause")
    bed.revive("manager", argv)
    bed.wait_for_manager()
    go_on(ranks)
    assert_ended_everywhere(ranks, ["manager lost"] * 4)
    for rank in ranks:
        assert_within(AT_ONCE_S, (first_error(rank)["at_us"] - killed_us) / 1e6)


def wait_for_warnings(bed):
    """What the manager says of the topology file, when it says something."""
    deadline = time.monotonic() + SOON_S
    while True:
        warnings = bed.manager("switches").get("warnings", [])
        if len(warnings) == 2:
            return warnings
        assert time.monotonic() < deadline, warnings
        time.sleep(0.1)


def test_a_cable_in_another_port_than_the_file_says_is_told_and_refused(bed, tmp_path):
    """In the file of a manager that is started anew the ports of h0 and h2 are swapped, which are at two switches."""
    argv = bed.kill("manager")
    at = argv.index("--topology") + 1
    topology = bed.topology()
    for link in topology["links"]:
        link["b"] = {"h0": "h2", "h2": "h0"}.get(link["b"], link["b"])
    (tmp_path / "swapped.yaml").write_text(yaml.safe_dump(topology), encoding="utf-8")
    bed.revive("manager", [*argv[:at], str(tmp_path / "swapped.yaml"), *argv[at + 1:]])
    try:
        bed.wait_for_manager()
        h0, h2 = sorted(wait_for_warnings(bed), key=lambda warning: "links h2 to" in warning)
        assert re.search(r"swapped.yaml:\d+: links h0 to leaf2:swp\d, but it is heard at leaf1:swp\d, where .*:\d+ has h2$", h0)
        assert re.search(r"swapped.yaml:\d+: links h2 to leaf1:swp\d, but it is heard at leaf2:swp\d, where .*:\d+ has h0$", h2)
        assert f"# {h0}\n" in bed.manager("topology")["yaml"]
        assert f"network: {h0}" in [f"{event['about']}: {event['text']}" for event in bed.manager("events")["events"]]
        assert bed.manager("explain", "--hosts", "h1,h2", check=False)["failure"]["message"] == h2
        for rank in start(bed, ["init"], ["init"], hosts=["h0", "h1"]):
            (refused,) = rank.errors()
            assert (refused["did"], refused["error"]) == ("init", "no tree")
            assert h0 in refused["message"]
    finally:
        bed.kill("manager")
        bed.revive("manager", argv)
        bed.wait_for_manager()


def test_memory_that_may_not_be_locked_is_refused_before_anything_is_sent(beds):
    """Over rdma_rxe, since softnic locks nothing. Rank 0 may lock 6 MB, and root's right to lock more is taken away."""
    bed = beds.get("star-2", "--hosts", "rxe")
    limit = ("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=6000000")
    calls = ["allreduce:100", "allreduce:200000", "destroy"]
    ranks = start(bed, ["init", "allreduce:2000000", "registered:2000000", "async", *calls], ["init", *calls],
                  first={"before": limit})
    refused = ranks[0].errors()
    assert [line["did"] for line in refused] == ["allreduce:2000000", "registered:2000000"], ranks[0].outcome()
    for line in refused:
        assert line["error"] == "no resource" and "ulimit -l" in line["message"], line
    assert ranks[1].errors() == []
