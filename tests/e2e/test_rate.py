"""Links with a rate (`testbed up --rate`), under our own switches and softnic."""

import json

import pytest

import harness
from harness import assert_all_right


def queues(bed):
    """{(node, device): its queue, with what it has counted} of all devices that have one."""
    found = {}
    for node in bed.switches + bed.hosts:
        shown = json.loads(bed.run(node, "tc", "-s", "-j", "qdisc", "show"))
        found |= {(node, queue["dev"]): queue for queue in shown if queue["kind"] != "noqueue"}
    return found


def test_super_frames_pass_links_with_a_rate_whole(beds):
    bed = beds.get("tree-3-2", "--hosts", "softnic", "--rate", "100mbit")
    topology = bed.topology()
    ends = {(switch["name"], port) for switch in topology["switches"] for port in switch["ports"]}
    ends |= {(host, "vec0") for host in bed.hosts}
    before = queues(bed)
    assert set(before) == ends
    assert all(queue["kind"] == "tbf" and queue["options"]["rate"] == 12_500_000 for queue in before.values()), before
    assert_all_right(bed.perf("--path", "network", "-b", "1M", "-e", "1M", "-n", "2", "-w", "1"))
    after = queues(bed)
    for end, queue in after.items():
        # A call of 1 MB crosses each link once each way; the third was to warm up.
        assert queue["bytes"] - before[end]["bytes"] > 3 << 20, (end, queue)
        assert queue["drops"] == before[end]["drops"], (end, queue)
    # A bucket that a super-frame does not fit into passes its packets one by one.
    for switch, port in sorted(ends - {(host, "vec0") for host in bed.hosts}):
        assert bed.counters(switch)[f"port.{port}.rx_super_frames"] > 0, (switch, port)


# Two ranks on each of four hosts, in their order.
HOSTS = [f"h{number // 2}" for number in range(8)]
SIZE = 16 << 20


def measured(bed, *options):
    """(bytes that each host has sent in a call, seconds) of AllReduces by eight ranks."""
    group = bed.new_group()
    ranks = [bed.start(host, harness.PERF, "--group", group, "--rank", rank, "--size", len(HOSTS), "--calls", f"{SIZE}:3",
                       "-c", "1", "--count-bytes", "vec0", "--json", *options) for rank, host in enumerate(HOSTS)]
    assert_all_right(ranks)
    text = ranks[0].output
    half = json.loads(text[text.index("{\n"):text.rindex("}") + 1])["results"][0]["in_place"]
    return [half["sent_bytes"][rank] / 3 for rank in range(0, len(HOSTS), 2)], half["time_us"] / 1e6


@pytest.mark.slow
def test_parallel_ranks_share_their_hosts_link(beds):
    """Against all ranks as children of the switch, and against their ring between the hosts, on the same links."""
    bed = beds.get("star-4", "--hosts", "softnic", "--rate", "1gbit")
    parallel, parallel_s = measured(bed, "--parallel", "--path", "network")
    children, children_s = measured(bed, "--path", "network")
    ring, ring_s = measured(bed, "--path", "hosts")
    print(f"seconds: parallel {parallel_s:.3f}, all ranks under the switch {children_s:.3f}, ring {ring_s:.3f}")
    for host, sent in enumerate(parallel):
        assert sent == pytest.approx(children[host] / 2, rel=0.05), (parallel, children)
        assert sent == pytest.approx(ring[host] / 1.75, rel=0.05), (parallel, ring)
    bed.wait_clean()
