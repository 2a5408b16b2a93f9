"""AllReduce and Barrier are right, with all switches of the tree taking part, over rdma_rxe and softnic in one group; on a fat
tree, whose hosts are many, over softnic in a default run."""

import pytest

import epic_ranks
from harness import assert_all_right

TOPOLOGIES = {"star-4": ("star-4",), "tree-3-2": ("tree-3-2",),
              "fat-tree-4": ("fat-tree-4", "--hosts-per-edge", "1")}
ODD_COUNTS = "1,3,1023,1025,25001,7,2049,262145"
# In a default run the largest calls are made on one topology; what a type changes is in reduce/, whose tests have all of them.
# With --full everywhere.
LARGEST = {("tree-3-2", "float")}


@pytest.fixture(name="topology", scope="module", params=TOPOLOGIES)
def fixture_topology(request):
    """Of module scope, so that all tests run on one topology before the next is brought up."""
    return request.param


@pytest.fixture(name="bed")
def fixture_bed(beds, topology, request):
    lighter = topology == "fat-tree-4" and not request.config.getoption("--full")
    return beds.get(*TOPOLOGIES[topology], *(("--hosts", "softnic") if lighter else ()))


def tree_of(bed, group):
    """Names of the switches of a group that runs."""
    return [node["switch_name"] for node in bed.manager("group", "show", group)["tree"]]


@pytest.mark.parametrize("datatype", ["float", "int32"])
def test_every_size_from_one_element_to_16_mib_out_of_place_and_in_place(bed, topology, datatype, request):
    """To 256 KiB, but where LARGEST says so and with --full."""
    all_sizes = request.config.getoption("--full") or (topology, datatype) in LARGEST
    end = 16 << 20 if all_sizes else 256 << 10
    ranks = bed.perf("-b", 4, "-e", end, "-f", 4, "-n", 1, "-w", 0, "-d", datatype, timeout_s=150)
    assert_all_right(ranks, 150)
    shown = ranks[0].output
    assert "Out of bounds values : 0" in shown and f" {end} " in shown, shown


def test_every_switch_of_the_tree_sums(bed):
    group = bed.new_group()
    before = {switch: epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches}
    ranks = bed.loops("--counts", 1024, "--iterations", 5, "--hold", group=group)
    ranks[0].wait_for("joined")
    tree = tree_of(bed, group)
    bed.release(ranks)
    assert_all_right(ranks)
    after = {switch: epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches}
    expected = {"star-4": 1, "tree-3-2": 3}
    assert len(tree) == expected.get(bed.spec[0], len(tree)) and len(tree) >= 1
    for switch in bed.switches:
        summed = after[switch] - before[switch]
        assert (summed > 0) == (switch in tree), f"{switch} summed {summed} packets; tree {tree}"


@pytest.mark.parametrize("datatype", ["float32", "int32"])
def test_odd_counts(bed, topology, datatype, request):
    """In place and not: by turns, so that each type and each topology has both; with --full both of each."""
    turn = list(TOPOLOGIES).index(topology) + (datatype == "int32")
    for place in (0, 1) if request.config.getoption("--full") else (turn % 2,):
        options = ["--in-place"] if place else []
        assert_all_right(bed.loops("--counts", ODD_COUNTS, "--iterations", 8, "--type", datatype, *options))


def test_packet_numbers_wrap_around(bed, topology, request):
    """In the first packets of the first calls, and once of a call of 1024 packets."""
    largest = 1048577 if topology == "star-4" or request.config.getoption("--full") else 20001
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", str(len(bed.hosts)), "--start-psn", "16777200")
    assert_all_right(bed.loops("--counts", f"1,100003,5,{largest}", "--iterations", 8, group=group))
    bed.manager("group", "destroy", group)


def test_barrier(bed):
    ranks = bed.loops("--barrier", "--iterations", 50)
    assert_all_right(ranks)


def test_nothing_remains(bed):
    bed.assert_clean()
