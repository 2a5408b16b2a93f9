"""Tree edges that span a network: Open vSwitch with the userspace datapath, Linux bridges, IP routers."""

import json

import pytest

import epic_ranks
from harness import assert_all_right


@pytest.fixture(name="kind", scope="module", params=["ovs", "bridge", "routed"])
def fixture_kind(request):
    """Of module scope, so that all tests run on one fabric before the next is brought up."""
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
    for device, frames in frames_in(bed).items():
        assert frames - crossed[device] > 100, device
    for switch in bed.switches:
        assert epic_ranks.aggregated_packets(bed.name, switch) > summed[switch], switch
    bed.assert_clean()


def test_two_ranks_on_one_host(bed):
    assert_all_right(bed.loops("--counts", "1,4096,30001", "--iterations", 6, hosts=["h0", "h2", "h0", "h3"]))


def test_hosts_still_reach_each_other(bed):
    # A router passes only what is for the switches; hosts at one leaf are not behind it.
    peer = "h1" if bed.spec[-1] == "routed" else "h3"
    ping = bed.run("h0", "ping", "-c", "2", "-i", "0.2", "-W", "2", "-M", "do", "-s", "4148", peer)
    assert "2 received" in ping
