"""Links with a rate (`testbed up --rate`), under our own switches and softnic."""

import json

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
