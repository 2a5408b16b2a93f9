"""Broadcast and AllGather by multicast (docs/PROTOCOL-MULTICAST.md): right results with two to eight ranks, who gets it and who is
told why not, by which ports a group's frames go, strangers that send to it, and a network that does not carry it."""

import contextlib
import json
import re
import socket
import struct

import pytest

import epic_ranks
import harness
import host_api
import pcap
import test_hosts_path_ends
import test_host_errors
import test_matrix
from epic_testbed import net
from host_api import Rank
from test_matrix import run_all

AT_ONCE = harness.BUILD / "bench" / "at_once_rank"
MULTICAST = ("EPIC_ALGORITHM=multicast",)
BY_HOSTS = ("EPIC_PATH=hosts", *MULTICAST)
# In each link a bridge of Linux, which passes on multicast or not, as it is told.
BED = host_api.BED
SIZES = (2, 3, 5, 8)  # with more than four ranks hosts have two
TWO_SPINES = harness.ROOT / "tests" / "e2e" / "two-spines.yaml"
# Others, with the ranks of a group there.
NETWORKS = {"two-stars": ("two-stars", (), (6,)), "two-spines": (TWO_SPINES, (), (4,)), "fat-tree-4": ("fat-tree-4", ("--hosts-per-edge", "1"), (8,)),
            "switches that learn": ("tree-3-2", ("--engine-arg=--forwarding=learning",), (4,))}
SEVERAL_SPINES = (TWO_SPINES, "fat-tree-4")
STRANGERS = 20_000    # datagrams of each kind, at most 100,000 a second
STAGING = 1024        # receives of a rank
SMALL, LARGE = 1500, 1_200_001  # elements of all parts together; the large calls' do not fit into a staging ring
UD_SEND_ONLY_IMMEDIATE, MULTICAST_QPN = 0x65, 0xffffff


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*BED)


def copies(ranks, large=LARGE):
    """Calls short and long, in place and not, several at a time."""
    return [{"collective": collective, "type": datatype, "count": count // (ranks if collective == "allgather" else 1),
             "root": number % ranks, "in_place": number % 2 == 0}
            for number, (collective, datatype, count) in enumerate(
                (c, t, n) for n in (0, 9, SMALL, large) for c in ("broadcast", "allgather") for t in ("uint8", "double"))]


def group_of(bed, calls, **more):
    return {"group": bed.new_group(), "path": "hosts", "algorithm": "multicast", "outstanding": 3, "calls": calls, **more}


def test_right_with_two_to_eight_ranks(bed):
    """Some of them on one host. Each chunk comes, and with a rank on each host none is read. With two, what one has from the
    other by the loopback interface may come behind a word by the link: it is read then, and comes again."""
    groups = [group_of(bed, copies(size), size=size) for size in SIZES]
    told = run_all(bed, max(SIZES), groups, 300)
    for size, group in zip(SIZES, groups):
        test_matrix.expect_right(told, group["group"], "hosts", group["calls"], size, may_read=size > len(bed.hosts))
        for lines in told[:size]:
            counts = lines[group["group"]]["datagrams"]
            assert counts["came"] + counts["read"] == counts["expected"] > 0, counts
            assert counts["read"] <= counts["again"] + counts["stale"], f"a datagram is lost: {counts}"
    bed.wait_clean()


def test_beside_calls_through_switches(bed):
    """One group in which all else goes through the switches, and what they send between hosts by turns with it."""
    calls = test_matrix.random_calls(test_matrix.SEED, 40)
    assert {call["collective"] for call in calls} == set(test_matrix.COLLECTIVES)
    group = group_of(bed, calls, path="auto")
    told = run_all(bed, len(bed.hosts), [group], 300)
    test_matrix.expect_right(told, group["group"], "network", calls)
    assert all(lines[group["group"]]["datagrams"]["expected"] > 0 for lines in told)
    bed.wait_clean()


def test_beside_a_reducescatter_of_another_group(bed):
    """The one by the hosts, the other through the switches, by the same ranks at once."""
    group = bed.new_group()
    ranks = [bed.start(host, AT_ONCE, "--group", group, "--rank", rank, "--size", len(bed.hosts), "--all-gather", "multicast", "--mode", 2,
                       "--bytes", 300_000, "--calls", 2) for rank, host in enumerate(bed.hosts)]
    harness.assert_all_right(ranks)
    print("\n" + ranks[0].output)
    bed.wait_clean()


def on_the_links(bed, algorithm):
    """The bytes that each host sends and receives in AllGathers."""
    before = [link_bytes(bed, host) for host in bed.hosts]
    ranks = bed.loops("--path", "hosts", "--algorithm", algorithm, "--all-gather", "--counts", LARGE // 2, "--iterations", 2)
    harness.assert_all_right(ranks)
    return [link_bytes(bed, host) - then for host, then in zip(bed.hosts, before)]


def link_bytes(bed, host):
    """Sent and received by the host's port since it is there."""
    shown = net.run(["nsenter", f"--net=/run/netns/epic-{bed.name}-{host}", "--", "cat", "/proc/net/dev"])
    columns = next(line for line in shown.splitlines() if "vec0:" in line).split(":")[1].split()
    return int(columns[0]) + int(columns[8])


def test_every_byte_passes_a_link_once(bed):
    """A host sends its part once and receives the others'; around the ring it sends all but one, as it receives."""
    multicast, ring = on_the_links(bed, "multicast"), on_the_links(bed, "ring")
    ratios = [own / others for own, others in zip(multicast, ring)]
    ranks = len(bed.hosts)
    print(f"\nbytes of a host's link, multicast {multicast}, ring {ring}: {[f'{ratio:.3f}' for ratio in ratios]}")
    assert ratios == pytest.approx([ranks / (2 * (ranks - 1))] * ranks, rel=0.03), (multicast, ring)


@pytest.mark.in_turn(len(NETWORKS))
@pytest.mark.parametrize("topology, options, sizes", [*NETWORKS.values(), pytest.param("two-stars", (), SIZES, marks=pytest.mark.slow)],
                         ids=[*NETWORKS, "two-stars, sizes"])
def test_right_in_other_networks(beds, topology, options, sizes):
    """Over several spines datagrams may take another way than what the hosts send each other, and be read for that."""
    bed = beds.get(str(topology), "--hosts", "softnic", *options)
    groups = [group_of(bed, copies(size), size=size) for size in sizes]
    told = run_all(bed, max(sizes), groups, 300)
    for size, group in zip(sizes, groups):
        may_read = topology in SEVERAL_SPINES or size > len(bed.hosts)
        test_matrix.expect_right(told, group["group"], "hosts", group["calls"], size, may_read)
        for lines in told[:size]:
            counts = lines[group["group"]]["datagrams"]
            assert counts["came"] + counts["read"] == counts["expected"] > 0, counts
    bed.wait_clean()


def test_two_ranks_in_one_guest(beds):
    """rdma_rxe gives each what the other sends, since the kernel of a member takes what it sends itself."""
    bed = beds.get("tree-3-2")
    group = group_of(bed, copies(3, 60_001))
    path = harness.BUILD / f"calls-{harness.NAME}.json"
    path.write_text(json.dumps([group]), encoding="utf-8")
    try:
        ranks = [bed.start(host, harness.CALLS, "--calls", path, "--rank", rank, "--size", 3)
                 for rank, host in enumerate(("h1", "h0", "h1"))]
        harness.assert_all_right(ranks)
    finally:
        path.unlink()
    for rank in ranks:
        counts = rank.json_lines()[-1]["datagrams"]
        assert counts["came"] == counts["expected"] > 0 and counts["read"] == 0, counts


# --- who gets it, and who does not


@contextlib.contextmanager
def manager_with(bed, *options):
    """The manager runs with these options meanwhile."""
    argv = bed.kill("manager")

    def start(more):
        bed.revive("manager", argv + list(more))
        bed.wait_for_manager()

    start(options)
    try:
        yield
    finally:
        bed.kill("manager")
        start(())


def refused(bed, hosts=("h0", "h2"), own=None):
    """What each rank that asks is told by Init; `own` are the variables of rank 1, which does not."""
    group = bed.new_group()
    ranks = [Rank(bed, number, ["init"], group, len(hosts), host, before=own if own and number == 1 else BY_HOSTS)
             for number, host in enumerate(hosts)]
    return [(line["error"], line["message"]) for rank in ranks if not (own and rank.number == 1) for line in rank.errors()]


def test_a_rank_that_does_not_ask_is_named(bed):
    why = "rank 1 on h2 does not ask for it, or its library is an earlier one"
    (error, message), = refused(bed, own=("EPIC_PATH=hosts",))
    assert error == "unsupported" and why in message, message
    bed.wait_clean()


def test_a_manager_without_multicast_says_so(bed):
    with manager_with(bed, "--multicast", "none"):
        for error, message in refused(bed):
            assert error == "unsupported" and "this manager gives out no addresses for it (serve --multicast none)" in message
        assert "multicast: none: this manager gives out no" in bed.manager_cli("explain", "--hosts", "h0,h2").stdout


def many_groups(bed, groups):
    prefix = bed.new_group() + "-"
    return [bed.start(host, "env", *BY_HOSTS, harness.BUILD / "tests" / "e2e" / "groups_rank", "--prefix", prefix, "--rank", rank,
                      "--size", 2, "--groups", groups) for rank, host in enumerate(("h0", "h2"))]


def test_a_range_that_is_used_up_is_named(bed):
    """A group too many; and those that it had taken come back, though not at once."""
    with manager_with(bed, "--multicast", "239.192.0.0/28"):
        ranks = many_groups(bed, 17)
        for rank, error in zip(ranks, harness.errors(ranks)):
            assert (error["error"], error["group"][-2:]) == ("no resource", "16"), rank.output
            assert "no address is left of 239.192.0.0/28: each is that of a group, or was until 10 s ago" in error["message"]
        bed.wait_clean()


# --- by which ports its frames go


def group_ports(bed, switch):
    """{MAC address: ports} of the groups in a switch's table, as the manager's command line shows them."""
    said = bed.manager_cli("tables", switch).stdout
    return {mac: set(ports.split()) for mac, ports in re.findall(r"^ *multicast ([0-9a-f:]+): (.*)$", said, re.M)}


def paused(bed, *hosts):
    """Ranks in a group that make a call, pause, make a large one and pause again."""
    group = bed.new_group()
    steps = ["init", "allgather:100", "pause:small", f"allgather:{LARGE}", "pause:large", "destroy"]
    ranks = [Rank(bed, number, steps, group, len(hosts), host, before=BY_HOSTS) for number, host in enumerate(hosts)]
    for rank in ranks:
        rank.wait_until_doing("pause:small")
    return group, ranks


def mac_of(bed, group):
    """The MAC address of a group's address, which `group show` has."""
    said = bed.manager_cli("group", "show", group).stdout
    octets = [int(octet) for octet in re.search(r"^multicast +(239\.192\.\d+\.\d+)$", said, re.M).group(1).split(".")]
    return f"01:00:5e:{octets[1] & 127:02x}:{octets[2]:02x}:{octets[3]:02x}"


def test_a_group_s_frames_go_by_its_members_ports_alone(bed):
    """Of two groups at once, with a host in both; the ports are withdrawn when a group has ended."""
    (wide, across), (near, beside) = paused(bed, "h0", "h2"), paused(bed, "h2", "h3")
    first, second = mac_of(bed, wide), mac_of(bed, near)
    assert group_ports(bed, "leaf1") == {first: {"swp1", "swp3"}}
    assert group_ports(bed, "root") == {first: {"swp1", "swp2"}}
    assert group_ports(bed, "leaf2") == {first: {"swp1", "swp3"}, second: {"swp1", "swp2"}}
    part = LARGE * 4
    for ranks, members in ((across, ("h0", "h2")), (beside, ("h2", "h3"))):
        before = {host: test_hosts_path_ends.received_bytes(bed, host) for host in bed.hosts}
        for rank in ranks:
            rank.signal()
        for rank in ranks:
            rank.wait_until_doing("pause:large")
        got = {host: test_hosts_path_ends.received_bytes(bed, host) - before[host] for host in bed.hosts}
        for host in bed.hosts:
            assert part < got[host] < 1.2 * part if host in members else got[host] < part / 20, got
        for rank in ranks:
            rank.signal()
        for rank in ranks:
            assert rank.errors() == []
    bed.wait_clean()
    assert [group_ports(bed, switch) for switch in bed.switches] == [{}] * 3


# --- strangers


SNIFFER = f"""
import socket
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
port.bind(("vec0", 0))
print("listens", flush=True)
while True:
    frame = port.recv(65536)
    if frame[:3] == b"\\x01\\x00\\x5e" and frame[42] == {UD_SEND_ONLY_IMMEDIATE}:
        print("frame", frame.hex(), flush=True)
        break
"""
# A frame so many times, a staging ring of them every ten milliseconds: where nothing slows the sender 100,000 a second.
FLOOD = """
import socket, sys, time
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("vec0", 0))
frame = bytes.fromhex(sys.argv[1])
begin = time.monotonic()
for number in range(int(sys.argv[2])):
    port.send(frame)
    if number % 1000 == 999:
        time.sleep(max(0, begin + (number + 1) / 100_000 - time.monotonic()))
print("rate", int(sys.argv[2]) / (time.monotonic() - begin))
"""


def by_stranger(frame, stranger, key=None):
    """The datagram as if another host had sent it, with another Q_Key or its own."""
    octets = bytearray(frame)
    octets[6:12] = bytes.fromhex(stranger["mac"].replace(":", ""))
    octets[26:30] = bytes(int(octet) for octet in stranger["address"].split("."))
    if key is not None:
        octets[54:58] = struct.pack("!I", key)
    return pcap.with_icrc(bytes(octets))


def test_a_flood_of_strangers_changes_nothing(bed):
    """From a host that is no member, to the group's address and queue pair, with its Q_Key and with another one; then a member's
    own datagram again and again. What of the group's own finds no receive meanwhile is read; each of these has its receive posted
    again."""
    sniffer = bed.start("h2", "/usr/bin/python3", "-c", SNIFFER)
    sniffer.wait_for("listens")
    ranks = bed.loops("--until-signal", "--iterations", 1_000_000, "--path", "hosts", "--algorithm", "multicast", "--all-gather",
                      "--counts", f"{SMALL},60000", "--pause-ms", 1, hosts=["h0", "h2", "h3"])
    frame = bytes.fromhex(sniffer.wait_for("frame").split()[1])
    assert pcap.destination_qpn(frame) == MULTICAST_QPN and pcap.icrc_ok(frame)
    stranger = epic_ranks.node_of(bed.name, "h1")
    for key in (0x11111111, None):
        print(bed.run("h1", "/usr/bin/python3", "-c", FLOOD, by_stranger(frame, stranger, key).hex(), STRANGERS))
    sender = next(host for host in bed.hosts if socket.inet_aton(epic_ranks.node_of(bed.name, host)["address"]) == frame[26:30])
    bed.run(sender, "/usr/bin/python3", "-c", FLOOD, frame.hex(), STRANGERS)
    bed.end_loops(ranks)
    for rank in ranks:
        counts = rank.json_lines()[-1]["datagrams"]
        # With another key none comes to the rank. With the right one those that find a receive: more than there are at once.
        assert STAGING < counts["stranger"] <= STRANGERS, counts
        # Of an earlier call, or of this one and there already; a rank drops its own without a count.
        assert rank.node == sender or counts["stale"] + counts["again"] > STAGING, counts
        assert counts["came"] + counts["read"] == counts["expected"] > 0, counts
        print(f"\n{rank.node}: {counts}")
    bed.wait_clean()


# --- a network without multicast


@contextlib.contextmanager
def no_multicast(bed):
    """The bridges in the links of hosts pass on no multicast meanwhile."""
    ports = [test_host_errors.port_of(bed, host)[:-1] + end for host in bed.hosts for end in "ab"]

    def flood(word):
        for port in ports:
            net.run(["bridge", "-n", f"epic-{bed.name}-fabric", "link", "set", "dev", port, "mcast_flood", word])

    flood("off")
    try:
        yield
    finally:
        flood("on")


def test_a_network_that_carries_no_multicast_costs_time_alone(bed):
    """All chunks are read from the neighbour, and each rank says so once."""
    run = ("--path", "hosts", "--all-gather", "--counts", 100_003, "--iterations", 6)
    with no_multicast(bed):
        ranks = bed.loops(*run, "--algorithm", "multicast")
        harness.assert_all_right(ranks)
    for number, rank in enumerate(ranks):
        counts = rank.json_lines()[-1]["datagrams"]
        assert (counts["came"], counts["read"]) == (0, counts["expected"]), counts
        why = f"datagrams have not come and were read from rank {(number + 3) % 4}: the network does not carry the group's multicast"
        assert rank.output.count(why) == 1, rank.output
    ring = bed.loops(*run, "--algorithm", "ring")
    harness.assert_all_right(ring)
    print("\nmedian, us: without multicast", [rank.json_lines()[-1]["p50_us"] for rank in ranks], "by the ring",
          [rank.json_lines()[-1]["p50_us"] for rank in ring])
    bed.wait_clean()
