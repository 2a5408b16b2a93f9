"""Tree edges that span a network: Open vSwitch with the userspace datapath, Linux bridges, IP routers."""

import json
import re

import pytest

import epic_ranks
import host_api
from harness import assert_all_right


@pytest.fixture(name="kind", scope="module", params=["routed", "bridge", "ovs"])
def fixture_kind(request):
    """Of module scope, so that all tests run on one fabric before the next is brought up; the last tests go on with the last."""
    return request.param


@pytest.fixture(name="bed")
def fixture_bed(beds, kind):
    return beds.get("tree-3-2", "--fabric", kind)


def frames_in(bed):
    """{device: received frames} of the fabric's ports."""
    shown = json.loads(bed.run("fabric", "ip", "-s", "-j", "link", "show", "type", "veth"))
    return {device["ifname"]: device["stats64"]["rx"]["packets"] for device in shown}


def test_collectives_are_right_over_every_edge(bed):
    summed = {switch: epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches}
    crossed = frames_in(bed)
    assert len(crossed) == (4 if bed.spec[-1] == "routed" else 12)  # hosts' links have no router
    assert_all_right(bed.loops("--counts", "1,1023,4096,100003", "--iterations", 8))
    assert_all_right(bed.loops("--barrier", "--iterations", 10))
    # One rank at each leaf: leaves are left out where frames for hosts cross the edge, but not behind routers. In mode IV what
    # hosts send is to each other's addresses.
    for mode in (2, 4):
        assert_all_right(bed.loops("--path", "network", "--mode", mode, "--counts", "1,40001", "--iterations", 4, hosts=["h0", "h2"]))
    for device, frames in frames_in(bed).items():
        assert frames - crossed[device] > 100, device
    for switch in bed.switches:
        assert epic_ranks.aggregated_packets(bed.name, switch) > summed[switch], switch
    bed.assert_clean()


def test_every_collective_under_hosts_addresses(bed):
    """Each switch sums in mode IV, with hosts' frames to each other and the switches' own over the same edges."""
    summed = {switch: epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches}
    group = bed.network_group("--mode", "spliced")
    ranks = bed.perf("--collective", "all", "-b", "4K", "-e", "64K", "-f", "16", "-n", "1", "-w", "0", group=group)
    for rank in ranks:
        assert rank.wait() == 0, rank.output
    assert "Out of bounds values : 0 OK" in ranks[0].output, ranks[0].output
    bed.manager("group", "destroy", group)
    for switch in bed.switches:
        assert epic_ranks.aggregated_packets(bed.name, switch) > summed[switch], switch
    bed.assert_clean()


def test_by_multicast_between_the_hosts(bed):
    """Over bridges that flood. No chunk is lost, but by Open vSwitch in userspace, which drops bursts. Nothing of hosts passes a
    router: who asks hears where it is, and nobody who does not ask notices."""
    steps = ["init", "allgather:1000", "broadcast:20001,double,sum,2", "destroy"]
    ranks = host_api.start(bed, *[steps] * len(bed.hosts), before=("EPIC_ALGORITHM=multicast",))
    if bed.spec[-1] != "routed":
        assert [rank.errors() for rank in ranks] == [[]] * len(ranks)
        counts = "1000,10000" if bed.spec[-1] == "ovs" else "1000,200000"
        loops = bed.loops("--path", "hosts", "--algorithm", "multicast", "--all-gather", "--counts", counts, "--iterations", 6)
        assert_all_right(loops)
        for counts in (rank.json_lines()[-1]["datagrams"] for rank in loops):
            assert counts["came"] + counts["read"] == counts["expected"] > 0, counts
            assert counts["read"] == 0 or bed.spec[-1] == "ovs" and counts["came"] > counts["read"], counts
        return
    for rank in ranks:
        line = rank.did("init")
        assert line["error"] == "unsupported" and "h0 does not reach h2: a router is between leaf1 and root" in line["message"], line
    assert_all_right(bed.loops("--all-gather", "--counts", "1000", "--iterations", 2))


def test_open_vswitch_that_snoops_needs_a_trunk_that_floods(beds):
    """It sends a group's frames to the ports of its links that have joined, and passes no joins to the other bridge. All chunks are read
    then, and are there."""
    bed = beds.get("tree-3-2", "--fabric", "ovs")

    def set_all(*words):
        bed.run("fabric", "ovs-vsctl", *(word for n, other in ((1, 2), (2, 1)) for word in ("--", "set", *(
            w.format(bridge=f"ovs{n}", trunk=f"to-ovs{other}") for w in words))))

    def datagrams():
        loops = bed.loops("--path", "hosts", "--algorithm", "multicast", "--all-gather", "--counts", "1000,10000", "--iterations", 4)
        assert_all_right(loops)
        return [rank.json_lines()[-1]["datagrams"] for rank in loops]

    set_all("bridge", "{bridge}", "mcast_snooping_enable=true")
    try:
        for counts in datagrams():
            assert (counts["came"], counts["read"]) == (0, counts["expected"]), counts
        set_all("port", "{trunk}", "other_config:mcast-snooping-flood=true")
        for counts in datagrams():
            assert counts["came"] > counts["read"] and counts["came"] + counts["read"] == counts["expected"], counts
    finally:
        set_all("bridge", "{bridge}", "mcast_snooping_enable=false")
        set_all("port", "{trunk}", "other_config:mcast-snooping-flood=false")
    bed.wait_clean()


def address(bed, host):
    """Only guests know the names."""
    return epic_ranks.node_of(bed.name, host)["address"]


def test_hosts_still_reach_each_other(bed):
    # A router passes only what is for the switches; hosts at one leaf are not behind it.
    peer = "h1" if bed.spec[-1] == "routed" else "h3"
    bed.run("h0", "ping", "-c", "2", "-i", "0.2", "-w", "20", "-M", "do", "-s", "4148", address(bed, peer))


def bindings(bed):
    """OpenFlow rules by bridge: each node sends with its own MAC and address only, as port security asks."""
    topology = bed.topology()
    nodes = {node["name"]: node for node in topology["switches"] + topology["hosts"]}
    rules = {"ovs1": [], "ovs2": []}
    shown = bed.run("fabric", "ovs-vsctl", "-f", "csv", "--no-heading", "--columns=name,external_ids",
                    "list", "interface")
    for port, name in re.findall(r"^(f\d+[ab]),.*node=(\w+)", shown, re.MULTILINE):
        own = f"in_port={port},dl_src={nodes[name]['mac']}"
        rules["ovs1" if port.endswith("a") else "ovs2"] += [
            f"priority=20,{own},ip,nw_src={nodes[name]['address']},actions=NORMAL",
            f"priority=20,{own},arp,arp_spa={nodes[name]['address']},actions=NORMAL",
            f"priority=10,in_port={port},actions=drop"]
    assert [len(lines) for lines in rules.values()] == [3 * len(topology["links"])] * 2, shown
    return rules


def test_two_ranks_on_one_host(beds):
    bed = beds.get("tree-3-2", "--fabric", "ovs")
    assert_all_right(bed.loops("--counts", "1,4096,30001", "--iterations", 6, hosts=["h0", "h2", "h0", "h3"]))


def test_port_security_that_binds_each_port_to_its_owner_does_no_harm(beds):
    bed = beds.get("tree-3-2", "--fabric", "ovs")
    for bridge, lines in bindings(bed).items():
        add = f"printf '%s\\n' \"$@\" | ovs-ofctl add-flows {bridge} -"
        bed.run("fabric", "sh", "-c", add, "sh", *lines)
    assert_all_right(bed.loops("--counts", "1,1023,30001", "--iterations", 6))
    # What a switch passes on for its hosts bears their addresses: such ports need to be free of bindings.
    ping = bed.run("h0", "ping", "-c", "1", "-W", "1", address(bed, "h1"), check=False)
    assert "0 received" in ping
    beds.close()
