"""Mode IV as hosts see it: they speak to each other and to nobody else. What its logic shares with mode II the other files
run in every mode; here is what its addresses can break on real hosts."""

import signal
import struct

import pytest

import pcap
from test_capture import capture
from harness import assert_all_right
from test_random_faults import random_calls, run_groups

SPLICED = 4
BED = ("tree-3-2", "--hosts", "softnic,h1=rxe,h2=rxe", "--wire", "--single-frames")
CALLS = 60
ECHO, ICMP, UDP = 7, 1, 17


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*BED)


def address(text):
    return bytes(int(part) for part in text.split("."))


def is_of(frame, addresses):
    """Whether an IPv4 packet is from or to one of them."""
    return frame[12:14] == b"\x08\x00" and bool({frame[26:30], frame[30:34]} & addresses)


def is_echo(frame):
    """A ping, or one by UDP, or its answer."""
    if frame[23] == ICMP:
        return True
    return frame[23] == UDP and ECHO in struct.unpack("!HH", frame[34:38])


def test_hosts_speak_to_each_other_and_to_no_switch(bed, tmp_path):
    """Hosts on rdma_rxe and on softnic in one group, all collectives, and each link loses a hundredth of its frames."""
    switches = {address(switch["address"]) for switch in bed.topology()["switches"]}
    hosts = {address(host["address"]) for host in bed.topology()["hosts"]}
    before = {switch: bed.counters(switch)["aggregated_packets"] for switch in bed.switches}
    bed.wire.random_faults(3, drop_ppm=10000)
    captures = [capture(bed, f"{leaf}:{port}", tmp_path / f"{leaf}-{port}.pcap")
                for leaf in ("leaf1", "leaf2") for port in ("swp1", "swp2")]
    group = bed.new_group()
    told = run_groups(bed, [{"group": group, "path": "network", "mode": SPLICED, "outstanding": 6,
                             "calls": random_calls(4, CALLS)}], 120)
    assert [(lines[group]["calls"], lines[group]["wrong"], lines[group]["path"]) for lines in told] == [(CALLS, 0, "network")] * 4
    assert bed.wire.count()["faults"]["drop"] > 0
    for program, _ in captures:
        program.end(signal.SIGINT)
    for switch, packets in before.items():
        assert bed.counters(switch)["aggregated_packets"] > packets, switch
        assert bed.counters(switch)["drop_stranger"] == 0, switch
    for _, path in captures:
        frames = pcap.frames(path)
        roce = [frame for frame in frames if pcap.is_roce(frame)]
        assert len(roce) > 10 * CALLS
        assert [frame.hex() for frame in roce if not {frame[26:30], frame[30:34]} <= hosts] == []
        assert [frame.hex() for frame in frames if is_of(frame, switches) and not is_echo(frame)] == []


def test_the_group_is_shown_with_the_addresses_that_its_switches_bear(bed):
    grants = sum(bed.counters(switch)["grants"] for switch in bed.switches)
    group = bed.network_group("--mode", "spliced", "--policy", "temporal", "--reproducible")
    shown, text = bed.shown_while_held(group, "--counts", 100000, "--iterations", 2)
    assert shown["mode"] == "MODE_SPLICED" and shown["path"] == "PATH_NETWORK", shown
    assert sum(bed.counters(switch)["grants"] for switch in bed.switches) > grants
    for host, peer in (("h0", "h1"), ("h1", "h0"), ("h2", "h3"), ("h3", "h2")):
        of = {entry["name"]: entry["address"] for entry in bed.topology()["hosts"]}
        line = next(line for line in text.splitlines() if f" {host} {of[host]} QPN " in line)
        assert line.endswith(f", as {of[peer]}"), line


def test_ranks_of_one_host_have_one_address_and_a_queue_pair_each(bed):
    group, hosts = bed.new_group(), ("h0", "h0", "h1", "h2", "h2", "h3")
    bed.manager("group", "create", group, "--size", len(hosts), "--mode", "spliced", "--path", "network")
    assert_all_right([bed.loop(rank, "--counts", "1,1000,30001", "--iterations", 4, group=group, size=len(hosts), host=host)
                      for rank, host in enumerate(hosts)])
    bed.manager("group", "destroy", group)


def test_ranks_of_one_host_alone_go_by_the_hosts_or_are_refused(bed):
    words = "mode spliced needs ranks on two hosts"
    for path in ("auto", "network"):
        group = bed.new_group()
        bed.manager("group", "create", group, "--size", 2, "--mode", "spliced", "--path", path)
        ranks = [bed.loop(rank, "--counts", "1000", "--iterations", 2, group=group, size=2, host="h0") for rank in range(2)]
        if path == "network":
            for rank in ranks:
                assert rank.wait() != 0 and f'"error": "no tree", "message": "{words}"' in rank.output, rank.output
        else:
            assert_all_right(ranks)
            assert any(words in event["text"] for event in bed.manager("events", "--group", group)["events"])
        bed.manager("group", "destroy", group)


def test_nothing_remains(bed):
    bed.wait_clean()
