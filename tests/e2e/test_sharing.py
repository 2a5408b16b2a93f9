"""Groups of policy temporal: a switch with memory for one has two, who take turns and go by the hosts where they cannot."""

import pytest

import harness

MIB = 1 << 20
# Take just above 1 MiB of a switch: results of mode 3 have slots of their own.
SIZES = {2: ("-M", "8", "-W", "8", "--path-mtu", "4096"), 3: ("--mode", "3", "-M", "8", "-W", "4", "--path-mtu", "4096")}
CALLS = 150


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "softnic", f"--sram={MIB * 3 // 2}")


def create(bed, *options, path="network", mode=2):
    group = bed.new_group()
    named = [word for host in bed.hosts for word in ("--host", host)]
    bed.manager("group", "create", group, "--size", str(len(bed.hosts)), "--path", path, *named, *SIZES[mode], *options)
    return group


def requests_of(bed, group):
    """Granted and busy ones, as `group show` has them."""
    placement = bed.manager("group", "show", group)["placement"]
    return int(placement.get("grants", 0)), int(placement.get("busy", 0))


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("mode", [2, 3])
def test_two_groups_take_turns_with_a_block(bed, mode):
    """Each call of each group is right, whichever way it goes; a third group is told that the block has no time left."""
    duty = ("--policy", "temporal", "--duty", "0.5")
    names = [create(bed, *duty, mode=mode) for _ in range(2)]
    groups = [bed.loops("--iterations", CALLS, "--counts", "256,40000", "--each", "--hold", group=name) for name in names]
    for rank in sum(groups, []):
        rank.wait_for(f'"iteration": {CALLS - 1},')
    total = [0, 0]
    for name in names:
        text = bed.manager_cli("group", "show", name).stdout
        print(text)
        assert "block 1 of " in text and "duty 0.5 of 1" in text, text
        granted, busy = requests_of(bed, name)
        assert granted + busy == CALLS
        total = [total[0] + granted, total[1] + busy]
    print(f"mode {mode}: of {2 * CALLS} calls {total[0]} were granted the block, {total[1]} found it busy")
    assert total[0] > 0

    third = create(bed, *duty, path="auto", mode=mode)
    ranks = bed.loops("--iterations", 3, "--hold", group=third)
    for rank in ranks:
        rank.wait_for("joined")
    text = bed.manager_cli("group", "show", third).stdout
    assert "and its block has less than 0.5 of its time left" in text, text
    bed.release(ranks)
    harness.assert_all_right(ranks)
    for ranks in groups:
        bed.release(ranks)
        harness.assert_all_right(ranks)
    for name in (*names, third):
        bed.manager("group", "destroy", name)
    bed.wait_clean()


def test_a_group_alone_is_always_granted_its_block(bed):
    name = create(bed, "--policy", "temporal", "--duty", "0.3", "--job", "train", "--phase", "forward")
    ranks = bed.loops("--iterations", CALLS, "--counts", "256,40000", "--each", "--hold", group=name)
    for rank in ranks:
        rank.wait_for(f'"iteration": {CALLS - 1},')
    assert requests_of(bed, name) == (CALLS, 0)
    bed.release(ranks)
    harness.assert_all_right(ranks)
    bed.manager("group", "destroy", name)
    bed.wait_clean()


def test_a_killed_rank_gives_the_block_back(bed):
    """The other group goes on, and has the block to itself when the first has failed."""
    names = [create(bed, "--policy", "temporal", "--duty", "0.5") for _ in range(2)]
    dying = bed.loops("--iterations", 100000, "--each", group=names[0])
    for rank in dying:
        rank.wait_for('"iteration": 20,')
    bed.run(dying[0].node, "kill", "-KILL", dying[0].json_lines()[0]["pid"])
    for rank in dying[1:]:
        rank.wait()
        assert rank.json_lines()[-1]["error"] == "rank lost", rank.json_lines()[-1]
    ranks = bed.loops("--iterations", CALLS, "--each", "--hold", group=names[1])
    for rank in ranks:
        rank.wait_for(f'"iteration": {CALLS - 1},')
    assert requests_of(bed, names[1]) == (CALLS, 0)
    bed.release(ranks)
    harness.assert_all_right(ranks)
    for name in names:
        bed.manager("group", "destroy", name)
    bed.wait_clean()


def test_what_makes_no_sense_is_refused(bed):
    for options, words in (
            (("--policy", "temporal", "--duty", "1.5"), "duty: 1.5 is not more than 0 and at most 1"),
            (("--policy", "temporal", "--phase", "P"), "phase: P is that of no job"),
            (("--policy", "spatial", "--duty", "0.5"), "duty: policy spatial has no use for it"),
    ):
        done = bed.manager_cli("group", "create", "no", "--size", "2", *options)
        assert done.returncode == 1 and words in done.stderr, done
    name = bed.new_group()
    bed.manager("group", "create", name, "--size", "4", "--mode", "1", "--policy", "temporal", "--path", "network")
    ranks = bed.loops(group=name)
    for rank in ranks:
        rank.wait()
        assert "mode I has no blocks, which policy temporal needs" in rank.output, rank.output
    bed.manager("group", "destroy", name)
