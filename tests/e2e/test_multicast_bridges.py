"""Multicast through switches of others (docs/DEPLOY.md, "Multicast"): hosts at one bridge of Linux, by which a port of our switch
knows them. The bridge floods a group's frames, or snoops on IGMP and sends them to who has joined."""

import pytest

import harness
import test_hosts_path_ends
from epic_testbed import net

ONE_BRIDGE, COUNT, CALLS = "br1", 200_000, 4
PART = COUNT * 4  # bytes


@pytest.fixture(name="bed", params=["softnic", pytest.param("softnic,h1=rxe,h2=rxe", marks=pytest.mark.slow)])
def fixture_bed(beds, request):
    """The bridges in the links of hosts are joined into the first one's."""
    bed = beds.get("star-4", "--hosts", request.param, "--fabric", "bridge", "--discover")
    for number in range(2, len(bed.hosts) + 1):
        bridge_link(bed, f"f{number}b", "master", ONE_BRIDGE)
    return bed


def bridge_link(bed, device, *words):
    net.run(["ip", "-n", f"epic-{bed.name}-fabric", "link", "set", device, *words])


def bridge_set(bed, *words):
    bridge_link(bed, ONE_BRIDGE, "type", "bridge", *words)


def outsider_hears(bed, learns=False):
    """The bytes that the last host receives while the others make AllGathers in a group without it; of theirs no chunk is read.
    learns: the bridge sends a rank nothing before its report has come, so that chunks of the first call may be read."""
    *members, outsider = bed.hosts
    before = test_hosts_path_ends.received_bytes(bed, outsider)
    ranks = bed.loops("--path", "hosts", "--algorithm", "multicast", "--all-gather", "--counts", COUNT, "--iterations", CALLS, hosts=members)
    harness.assert_all_right(ranks)
    for rank in ranks:
        counts = rank.json_lines()[-1]["datagrams"]
        assert counts["came"] + counts["read"] == counts["expected"] > 0, counts
        assert counts["read"] <= (counts["expected"] / CALLS if learns else 0), counts
    return test_hosts_path_ends.received_bytes(bed, outsider) - before


def test_a_bridge_floods_or_sends_to_who_has_joined(bed):
    """Of Linux one that snoops floods as long as nobody queries: memberships would end unnoticed. With a querier the joins of softnic
    and of the guests' kernels reach it."""
    all_parts = PART * CALLS * (len(bed.hosts) - 1)
    bridge_set(bed, "mcast_snooping", "0")
    assert outsider_hears(bed) > all_parts
    bridge_set(bed, "mcast_snooping", "1")
    assert outsider_hears(bed) > all_parts
    bridge_set(bed, "mcast_query_response_interval", "1")  # after so many hundredths of a second it relies on what it has heard
    bridge_set(bed, "mcast_querier", "1")
    try:
        assert outsider_hears(bed, learns=True) < all_parts / 100
    finally:
        bridge_set(bed, "mcast_querier", "0")
    bed.wait_clean()
