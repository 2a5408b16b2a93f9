"""Hosts on the userspace NIC in numbers that guests could not have on one machine."""

import harness

HOSTS = 64


def test_64_hosts_on_three_levels_of_switches(beds):
    bed = beds.get("tree-21-4", "--hosts", "softnic", "--sram", "4M")
    assert len(bed.hosts) == HOSTS and len(bed.switches) == 21
    group = bed.new_group()
    before = {name: harness.epic_ranks.aggregated_packets(bed.name, name) for name in bed.switches}
    ranks = [bed.start(host, harness.PERF_INSIDE, "--group", group, "--rank", rank, "--size", HOSTS, "--collective", "all",
                       "-b", "16K", "-e", "16K", "-n", "1", "-w", "0", timeout_s=200)
             for rank, host in enumerate(bed.hosts)]
    harness.finish(ranks, 220)
    for rank in ranks:
        assert rank.wait() == 0, rank.output
    assert "Out of bounds values : 0 OK" in ranks[0].output, ranks[0].output
    idle = [name for name, count in before.items()
            if harness.epic_ranks.aggregated_packets(bed.name, name) == count]
    assert not idle, f"switches that summed nothing: {idle}"
