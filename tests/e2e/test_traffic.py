"""Ordinary traffic through our switches while they sum, and no loop where paths are redundant."""

import json
import re
import time

import bench_isolation
from harness import assert_all_right

FAT_TREE = ("fat-tree-4", "--hosts-per-edge", "1", "--hosts", "none")  # of what no RDMA takes part in


def iperf3(bed):
    """TCP from h1 through the root to h2: Mbit/s received."""
    server = bed.start("h2", "iperf3", "-s", "-1", "--forceflush")
    server.wait_for("listening")
    client = bed.run("h1", "iperf3", "-J", "-t", "2", "-c", "10.10.0.3")
    return json.loads(client)["end"]["sum_received"]["bits_per_second"] / 1e6


def test_ping_and_iperf3_during_a_collective(beds):
    bed = beds.get("tree-3-2")
    with bench_isolation.busy_loops(2):  # what shares the processors costs as much as what shares the network may
        beside_loops = iperf3(bed)
    ranks = bed.loops_until_told("--counts", "100000,1000", "--pause-ms", 20)
    ping = bed.start("h0", "ping", "-i", "0.05", "-c", "80", "-w", "30", "10.10.0.4")  # -w: it waits for 80 answers
    beside_sums = iperf3(bed)
    assert ping.wait() == 0, ping.output
    answered = [int(number) for number in re.findall(r"icmp_seq=(\d+)", ping.output)]
    assert len(answered) >= 80 and answered == list(range(1, len(answered) + 1)), ping.output
    assert min(beside_sums, beside_loops) > 2, f"{beside_sums:.1f} and {beside_loops:.1f} Mbit/s"
    assert beside_sums > beside_loops / 5, f"{beside_sums:.0f} Mbit/s, beside busy loops {beside_loops:.0f}"
    bed.end_loops(ranks)
    times = re.search(r"rtt .*", ping.output)
    print(f"\niperf3 {beside_sums:.0f} Mbit/s, beside busy loops {beside_loops:.0f}; ping {times.group(0) if times else ''}")


def frames_on_ports(bed):
    """Frames received at all ports of all switches so far, but for the switches' hellos."""
    total = 0
    for switch in bed.topology()["switches"]:
        counters = bed.counters(switch["name"])
        total += sum(counters[f"port.{port}.rx_frames"] - counters[f"port.{port}.rx_hellos"] for port in switch["ports"])
    return total


def test_broadcasts_do_not_loop_in_the_fat_tree(beds):
    bed = beds.get(*FAT_TREE)
    links = len(bed.topology()["links"])
    before = frames_on_ports(bed)
    # ARP requests that nobody answers.
    bed.run("h0", "ping", "-c", "3", "-W", "1", "10.10.200.200", check=False)
    bed.run("h0", "ping", "-b", "-c", "3", "-i", "0.3", "-W", "1", "10.10.255.255", check=False)
    time.sleep(1)  # a loop would go on by itself
    after = frames_on_ports(bed)
    # Each of the at most 10 broadcasts crosses each link of the spanning tree once; each host may answer.
    assert after - before < 10 * links * 3, f"{after - before} frames"
    time.sleep(1)
    assert frames_on_ports(bed) - after < 20, "frames without a cause"
    assert after > before, "the broadcasts were not seen at all"


def test_every_pair_of_hosts_of_the_fat_tree_is_connected(beds):
    bed = beds.get(*FAT_TREE)
    addresses = [host["address"] for host in bed.topology()["hosts"]]
    script = f"for a in {' '.join(addresses)}; do ping -c 1 -w 20 $a >/dev/null || echo $a is silent; done"
    pings = [bed.start(host, "sh", "-c", script) for host in bed.hosts]
    assert_all_right(pings)
    assert "".join(ping.output for ping in pings) == ""
