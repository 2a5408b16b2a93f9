"""Ranks find their send windows by the time that results take (docs/HOST.md, "The send window"), and `group show` says so. Which ones
they find is the machine's affair."""

import time

import pytest

from harness import assert_all_right

COUNT = 300_000  # INT32 elements: more than four windows of 64 packets of 4096 bytes
ITERATIONS = 20  # the first round of trials is over after 16 calls


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "softnic")


def run_in(bed, *options):
    """Creates a group, lets all ranks make large calls in it, and leaves them in it."""
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", str(len(bed.hosts)), *options)
    ranks = bed.loops("--counts", COUNT, "--iterations", ITERATIONS, "--each", "--hold", group=group)
    for rank in ranks:
        rank.wait_for(f'"iteration": {ITERATIONS - 1},', 60)
    return group, ranks


def end(bed, group, ranks):
    bed.release(ranks)
    assert_all_right(ranks)
    bed.manager("group", "destroy", group)


def test_ranks_try_others_and_tell_the_manager(bed):
    group, ranks = run_in(bed)
    deadline = time.monotonic() + 20
    while len((shown := bed.manager("group", "show", group)).get("windows", {})) < len(ranks):
        assert time.monotonic() < deadline, shown.get("windows")
        time.sleep(0.1)
    text = bed.manager_cli("group", "show", group).stdout
    end(bed, group, ranks)
    start, most = shown["start_messages"], shown["window_messages"]
    assert 1 <= start <= most
    for window in shown["windows"].values():
        assert window["before_messages"] == start
        assert window["messages"] in (start, max(start // 2, min(start, 2)), min(2 * start, most)), window
        assert window["ns_per_packet"] > 0
    assert f"{most} messages at most, {start} to begin with (2*BDP of " in text
    assert f"messages; {len(ranks)} of {len(ranks)} ranks have tried others\n" in text


def test_a_window_that_was_asked_for_stays(bed):
    group, ranks = run_in(bed, "-W", "3")
    shown = bed.manager("group", "show", group)
    text = bed.manager_cli("group", "show", group).stdout
    end(bed, group, ranks)
    assert shown["window_messages"] == 3 and not shown.get("windows")
    assert "window W    3 messages (as requested)\n" in text
    assert "in use      3 messages: ranks try no others\n" in text


def test_nothing_remains(bed):
    bed.assert_clean()
