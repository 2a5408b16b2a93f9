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


HOSTS, SIZE = 4, 16 << 20


def measured(bed, on_each, *options):
    """(bytes that each host has sent in a call, seconds) of AllReduces with so many ranks on each host, in their order."""
    group, hosts = bed.new_group(), [host for host in bed.hosts for _ in range(on_each)]
    ranks = [bed.start(host, harness.PERF_INSIDE, "--group", group, "--rank", rank, "--size", len(hosts), "--calls", f"{SIZE}:3",
                       "-c", "1", "--count-bytes", "vec0", "--json", *options) for rank, host in enumerate(hosts)]
    assert_all_right(ranks)
    text = ranks[0].output
    half = json.loads(text[text.index("{\n"):text.rindex("}") + 1])["results"][0]["in_place"]
    return half["sent_bytes"][::on_each], half["time_us"] / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("on_each", [2, 4])
def test_parallel_ranks_share_their_hosts_link(beds, on_each):
    """In mode IV, as NetReduce has it, against all ranks as children of the switch, and against their ring, on the same links."""
    bed = beds.get(f"star-{HOSTS}", "--hosts", "softnic", "--rate", "1gbit")
    parallel, parallel_s = measured(bed, on_each, "--parallel", "--mode", "spliced", "--path", "network")
    children, children_s = measured(bed, on_each, "--path", "network")
    ring, ring_s = measured(bed, on_each, "--path", "hosts")
    print(f"{on_each} ranks on each host, seconds: parallel {parallel_s:.3f}, all ranks under the switch {children_s:.3f}, "
          f"ring {ring_s:.3f}")
    of_ring = 2 * (HOSTS * on_each - 1) / (HOSTS * on_each)
    for host, sent in enumerate(parallel):
        assert sent == pytest.approx(children[host] / on_each, rel=0.05), (parallel, children)
        assert sent == pytest.approx(ring[host] / of_ring, rel=0.05), (parallel, ring)
    bed.wait_clean()
