"""Groups in every mode, and in trees of modes I and III, as an operator creates them, one host on rdma_rxe."""

import pytest

import modes
from harness import assert_all_right

NAMES = {mode.number: mode.proto for mode in modes.ALL}
COUNTS = "1,1023,25001,7,65537"


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2")


def run_in(bed, mode, switch_modes=(), *options):
    """Creates a group, lets all ranks reduce in it, and returns what `group show --json` said meanwhile."""
    group = bed.new_group()
    own = [argument for name, number in switch_modes for argument in ("--switch-mode", f"{name}={number}")]
    bed.manager("group", "create", group, "--size", str(len(bed.hosts)), "--mode", str(mode), *own, *options)
    ranks = bed.loops("--counts", COUNTS, "--iterations", 5, "--hold", group=group)
    for rank in ranks:
        rank.wait_for("joined")
    shown = bed.manager("group", "show", group)
    text = bed.manager_cli("group", "show", group).stdout
    bed.release(ranks)
    assert_all_right(ranks)
    bed.manager("group", "destroy", group)
    return shown, text


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("mode", modes.NUMBERS)
def test_allreduce_is_right_and_the_group_is_shown(bed, mode, reproducible):
    shown, text = run_in(bed, mode, (), *(["--reproducible"] if reproducible else []))
    assert shown["mode"] == NAMES[mode] and shown["reproducible"] == reproducible
    assert len(shown["tree"]) == 3
    formula = modes.BY_NUMBER[mode].formula[reproducible]
    for node in shown["tree"]:
        assert node["config"]["mode"] == NAMES[mode]
        assert node["config"]["reproducible"] == reproducible
        assert node["paper_formula"] == formula
        assert int(node["arena_bytes"]) > 0 and int(node["paper_bytes"]) > 0
        assert f"arena {node['arena_bytes']} bytes, paper {formula} = {node['paper_bytes']} bytes" in text


@pytest.mark.parametrize("mode, switch_modes", [(3, [("leaf1", 1)]), (3, [("root", 1)]), (1, [("leaf2", 3)])])
def test_modes_i_and_iii_share_a_tree(bed, mode, switch_modes):
    shown, text = run_in(bed, mode, switch_modes)
    for node in shown["tree"]:
        expected = dict(switch_modes).get(node["switch_name"], mode)
        assert node["config"]["mode"] == NAMES[expected], node["switch_name"]
    name, number = switch_modes[0]
    assert f", but {modes.numeral(number)} (" in text and f" on {name}\n" in text


@pytest.mark.parametrize("options, status, words", [
    (["--mode", "99"], 2, "'99' is not a mode: " + modes.CHOICE),
    (["--mode", "3", "--switch-mode", "leaf1"], 2, "is not SWITCH=MODE"),
    (["--mode", "3", "--switch-mode", "leaf1=1", "--switch-mode", "leaf1=3"], 2, "leaf1 is given two modes"),
    (["--mode", "III", "--switch-mode", "leaf1=translated"], 1, "modes II and III cannot share a tree"),
    (["--switch-mode", "leaf1=1"], 1, "modes II and I cannot share a tree"),
    (["--mode", "3", "--switch-mode", "leaf9=1"], 1, "the topology has no switch leaf9"),
])
def test_refusals_say_why(bed, options, status, words):
    group = bed.new_group()
    done = bed.manager_cli("group", "create", group, "--size", "4", *options)
    assert (done.returncode, words in done.stderr) == (status, True), done.stdout + done.stderr
    assert bed.groups() == []


def test_a_rank_that_wants_another_mode_is_refused(bed):
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", "4", "--mode", "3")
    rank = bed.perf("--mode", "1", group=group, timeout_s=30)[0]
    assert rank.wait(30) != 0
    assert "asks for mode I, the group" in rank.output, rank.output
    bed.manager("group", "destroy", group, "--force")


def test_nothing_remains(bed):
    bed.assert_clean()
