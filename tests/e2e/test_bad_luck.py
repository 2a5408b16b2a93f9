"""Bad calls and bad luck of ranks end in typed errors within stated times, and nothing else is disturbed."""

import json
import re
import time

import pytest

from epic_testbed import net
from harness import LOOP, MANAGER, assert_all_right, errors, finish
from host_api import AT_ONCE_S, assert_within

LONG = ("--counts", "1000", "--iterations", "2000", "--pause-ms", "20")


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2")


def test_a_duplicate_rank_is_refused_and_the_group_goes_on(bed):
    group = bed.new_group()
    first = bed.loop(0, group=group)
    bed.wait_for_rank(group, 0)
    error = errors([bed.loop(0, group=group, host="h1")])[0]
    assert error["error"] == "duplicate rank" and "rank 0" in error["message"], error
    assert_within(AT_ONCE_S, error["us"] / 1e6)
    assert_all_right([first] + [bed.loop(rank, group=group) for rank in (1, 2, 3)])


def test_a_world_of_one_needs_no_switch_whatever_was_asked_for(bed):
    alone = ["--rank", 0, "--size", 1, "--iterations", 1]
    assert_all_right([bed.start(bed.hosts[0], "env", f"EPIC_PATH={path}", LOOP, "--group", bed.new_group(), *alone)
                      for path in ("auto", "network", "hosts")])


def test_another_world_size_is_refused(bed):
    group = bed.new_group()
    first = bed.loop(0, group=group, size=2)
    bed.wait_for_rank(group, 0)
    error = errors([bed.loop(1, group=group, size=3)])[0]
    assert error["error"] == "size mismatch" and "2" in error["message"] and "3" in error["message"]
    assert_all_right([first, bed.loop(1, group=group, size=2)])


def test_a_rank_that_never_comes_is_named(bed):
    group = bed.new_group()
    ended = errors([bed.loop(rank, "--join-timeout-s", 3, group=group) for rank in (0, 1, 3)])
    for error in ended:
        assert error["error"] == "join timeout" and "2" in error["message"], error
        assert_within(3, error["us"] / 1e6)
    # The time is the group's, from the first rank's coming: who came later waits for what is left of it.
    assert max(error["us"] for error in ended) >= 3e6, ended
    assert bed.groups() == []


@pytest.mark.parametrize("field, options", [("count", ["--counts", "512"]), ("type", ["--type", "float32"]),
                                            ("collective", ["--barrier"])])
def test_calls_that_differ_end_in_the_same_error_everywhere(bed, field, options):
    group = bed.new_group()
    ranks = [bed.loop(rank, *(options if rank == 3 else []), group=group) for rank in range(4)]
    ended = errors(ranks)
    for error in ended:
        assert error["error"] == "mismatch" and field in error["message"], error
    # Each rank also tells its own value; who differs and in what is the same everywhere.
    said = {re.match(r"rank \d+ called with another \w+", error["message"]).group(0) for error in ended}
    assert len(said) == 1, said
    bed.assert_clean()


def test_a_wrong_manager_address_is_said(bed):
    """To ranks in the time that they have said; that of those which say none is in test_host_errors."""
    rank = bed.start(bed.hosts[0], "env", "EPIC_MANAGER_TIMEOUT=1", LOOP, "--manager", "10.255.0.99:7400", "--group", bed.new_group(),
                     "--rank", 0, "--size", 2)
    error = errors([rank])[0]
    assert error["error"] == "manager unreachable" and "10.255.0.99:7400 within 1 s" in error["message"], error
    # Nobody is at that address; at this one nobody listens.
    assert "is not reached (No route to host)" in error["message"] or "nobody answers there" in error["message"], error
    rank = bed.start(bed.hosts[0], "env", "EPIC_MANAGER_TIMEOUT=2", LOOP, "--manager", "10.255.0.1:7999", "--group", bed.new_group(),
                     "--rank", 0, "--size", 2)
    error = errors([rank])[0]
    assert "nothing listens there (connection refused): is incmanager running there?" in error["message"], error
    rank.wait_for("warn: waits for the manager at 10.255.0.1:7999 (Options::manager, EPIC_MANAGER): nothing listens there")
    done = bed.run("mgmt", "sh", "-c", f"'{MANAGER}' switches --manager 10.255.0.1:7999; echo status $?")
    assert "status 3" in done and "10.255.0.1:7999" in done


def test_a_killed_rank_is_named_to_the_others(bed):
    group = bed.new_group()
    ranks = bed.loops(*LONG, group=group)
    pid = json.loads(ranks[2].wait_for("pid"))["pid"]
    for rank in ranks:
        rank.wait_for("joined")
    begin = time.monotonic()
    bed.run("h2", "kill", "-9", pid)
    ended = errors([ranks[0], ranks[1], ranks[3]])
    seconds = time.monotonic() - begin
    for error in ended:
        assert error["error"] == "rank lost" and "2" in error["message"], error
    assert_within(AT_ONCE_S, seconds)
    finish(ranks)
    bed.wait_clean()


@pytest.mark.slow  # it is gone to the manager alone: no kind of host comes in, and test_host_errors has softnic's
def test_a_host_that_is_gone_is_named_to_the_others(bed):
    """As the manager sees it: nothing comes from h2 any more. It takes 15 s at most, when nothing else runs."""
    ranks = bed.loops(*LONG)
    for rank in ranks:
        rank.wait_for("joined")
    begin = time.monotonic()
    port = ["bridge", "-n", f"epic-{bed.name}-mgmt", "link", "set", "dev", "m-h2", "state"]
    net.run(port + ["disabled"])
    try:
        ended = errors([ranks[0], ranks[1], ranks[3]])
        seconds = time.monotonic() - begin
    finally:
        net.run(port + ["forwarding"])
    for error in ended:
        assert error["error"] == "rank lost" and "rank 2" in error["message"], error
    assert seconds > 4, "a host that is silent for a moment is waited for"
    assert_within(15, seconds)
    finish(ranks)
    bed.wait_clean()


def test_two_groups_do_not_disturb_each_other(bed):
    ranks = [rank for _ in range(2) for rank in bed.loops("--counts", "1,3000,70001", "--iterations", 12)]
    assert_all_right(ranks)
    bed.assert_clean()


def test_a_failing_group_does_not_disturb_another(bed):
    good = bed.loops_until_told("--counts", "3000", "--pause-ms", 20)
    group = bed.new_group()
    for error in errors([bed.loop(rank, "--counts", 100 + rank, group=group) for rank in range(4)]):
        assert error["error"] == "mismatch"
    bed.end_loops(good)
    bed.wait_clean()


def test_a_group_in_use_is_destroyed_only_by_force(bed):
    group = bed.new_group()
    ranks = bed.loops(*LONG, group=group)
    for rank in ranks:
        rank.wait_for("joined")
    refused = bed.manager_cli("group", "destroy", group)
    assert refused.returncode == 1 and group in refused.stderr
    assert bed.manager_cli("group", "destroy", group, "--force").returncode == 0
    assert {error["error"] for error in errors(ranks)} == {"aborted"}
    bed.wait_clean()


def test_a_path_mtu_above_the_link_is_refused(beds):
    bed = beds.get("star-2", "--mtu", "1024")
    group = bed.new_group()
    done = bed.manager_cli("group", "create", group, "--size", "2", "--path-mtu", "4096", "--path", "network")
    if done.returncode == 0:  # hosts and so the path are known only when the ranks join
        for error in errors(bed.loops(group=group)):
            assert error["error"] == "path MTU" and "1024" in error["message"], error
        bed.manager("group", "destroy", group)
    else:
        assert "1024" in done.stderr, done.stderr


def test_an_arena_that_is_too_small_names_switch_and_bytes(beds):
    bed = beds.get("star-2", "--sram", "64K")
    group = bed.network_group()
    for error in errors(bed.loops(group=group)):
        assert error["error"] == "no resource", error
        assert "s1" in error["message"] and "65536" in error["message"], error
    bed.manager("group", "destroy", group, "--force")
    bed.assert_clean()
