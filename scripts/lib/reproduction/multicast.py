"""Broadcast and AllGather by multicast: M. Khalilov et al., "Network-Offloaded Bandwidth-Optimal Broadcast and Allgather for
Distributed AI"."""
import math

from reproduction.frame import Figure, Paper, Row

PROGRAM = "sim/epic-multicast"
OVERLAP = "sim/epic-overlap"

# The paper's test bed: hosts on leaves, spines, Gbit/s.
HOSTS, LEAVES, SPINES = 188, 12, 6
KIB = 1024
# Bytes of a packet beside its payload, as the simulation counts them (sim/links.h).
HEADERS = 80
# What a chunk takes of a link at 56 Gbit/s, in nanoseconds.
CHUNK_NS = (4096 + HEADERS) * 8 / 56
# Of virtual time, by the number of hosts.
NETWORKS = {16: {"hosts": 16}, 64: {"hosts": 64, "leaves": 4, "spines": 2},
            HOSTS: {"hosts": HOSTS, "leaves": LEAVES, "spines": SPINES}}


# --- bytes on links, in parts of N bytes without headers. A network is a list of numbers of switches, from the leaves up,
# below each of which the hosts are shared out, the first ones with one more; what joins the topmost may be several.

def places(hosts, switches):
    """The switch of each host, with ranks in this order."""
    return [s for s in range(switches) for _ in range(hosts // switches + (s < hosts % switches))]


def links_between(a, b, hosts, levels):
    """Links that a packet takes from host a to host b: up to the first switch above both, and down."""
    if a == b:
        return 0
    for height, switches in enumerate(levels):
        if places(hosts, switches)[a] == places(hosts, switches)[b]:
            return 2 * (height + 1)
    return 2 * (len(levels) + 1)


def by_multicast(hosts, levels):
    """Of a part that all get: the link of each host, and the link above each switch that is not alone."""
    return hosts + sum(switches for switches in levels if switches > 1)


def ring_gather(hosts, levels):
    """Of an AllGather around the ring: each of its edges carries all parts but one."""
    return (hosts - 1) * sum(links_between(r, (r + 1) % hosts, hosts, levels) for r in range(hosts))


def knomial_parent(rank, k):
    """In a k-nomial tree: without its lowest digit that is not 0."""
    power = 1
    while rank // power % k == 0:
        power *= k
    return rank - rank // power % k * power


def heap_parent(rank):
    return (rank - 1) // 2


TREES = {"binomial": lambda rank: knomial_parent(rank, 2), "4-nomial": lambda rank: knomial_parent(rank, 4),
         "binary-heap": heap_parent}


def tree_broadcast(hosts, levels, parent):
    """Of a Broadcast down a tree of hosts."""
    return sum(links_between(r, parent(r), hosts, levels) for r in range(1, hosts))


def host_link_share(hosts):
    """Bytes on hosts' links of an AllGather by multicast, over those around the ring."""
    return hosts * hosts / (2 * hosts * (hosts - 1))


def slices(hosts, chunks, staging, tokens):
    """(chunks of a slice, tokens in use, visits of a token at each rank) of an AllGather (PROTOCOL-MULTICAST.md, 4)."""
    if hosts * chunks <= staging:
        return chunks, 0, 0
    while tokens > 1 and (tokens + 1) * hosts > staging:
        tokens -= 1
    under_way = tokens + (1 if (tokens + 1) * hosts <= staging else 0)
    size = max(1, staging // (under_way * hosts))
    return size, tokens, math.ceil(math.ceil(chunks / size) / tokens)


def step_of_a_token(took_ns, hosts, chunks, staging, tokens=4):
    """Time in which a token goes from rank to rank, in microseconds."""
    return took_ns / slices(hosts, chunks, staging, tokens)[2] / hosts / 1000


# --- figures

def run(programs, **options):
    """A run in virtual time; options as the program has them."""
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
    return programs.run(PROGRAM, *words)


def figure_2(_):
    """1,024 hosts on switches with 32 ports: three levels."""
    def ratio(hosts, levels):
        return ring_gather(hosts, levels) / hosts / by_multicast(hosts, levels)

    rows = [Row("AllGather, ring over multicast, 1,024 hosts", "2", ratio(1024, [64, 4]), 1.99, 2, 3),
            Row("the same, 188 hosts on 12 leaves", "1.5 to 2", ratio(HOSTS, [LEAVES]), 1.989, 1.99, 3)]
    multicast = by_multicast(HOSTS, [LEAVES])
    for (name, parent), (low, high) in zip(TREES.items(), ((1.98, 2.05), (1.98, 2.05), (3.5, 3.7))):
        rows.append(Row(f"Broadcast, {name} over multicast, 188 hosts", "1.5",
                        tree_broadcast(HOSTS, [LEAVES], parent) / multicast, low, high, 3))
    for hosts, theory in ((4, 0.667), (8, 0.571), (HOSTS, 0.503)):
        rows.append(Row(f"AllGather, multicast over ring on hosts' links, {hosts} hosts", "",
                        host_link_share(hosts), theory - 0.001, theory + 0.001, 3))
    return rows


def figure_12(programs):
    """Counted on all links: 188 hosts, and fewer."""
    rows = []
    for hosts, leaves, spines in ((HOSTS, LEAVES, SPINES), (128, 8, 4)):
        paper = "1.5 to 2" if hosts == HOSTS else ""
        network = {"hosts": hosts, "leaves": leaves, "spines": spines}
        multicast, ring = (run(programs, **network, way=way)["links"] for way in ("multicast", "ring"))
        theory = ring_gather(hosts, [leaves]) / hosts / by_multicast(hosts, [leaves])
        rows.append(Row(f"AllGather, ring over multicast, {hosts} hosts", paper, ring / multicast, theory - 0.01,
                        theory + 0.02, 3))
        part = 64 * KIB * (4096 + HEADERS) / 4096
        rows.append(Row("multicast, parts on links", f"{hosts * by_multicast(hosts, [leaves])}", multicast / part,
                        hosts * by_multicast(hosts, [leaves]), 1.01 * hosts * by_multicast(hosts, [leaves]), 0))
        rows.append(Row("ring, parts on links", f"{ring_gather(hosts, [leaves])}", ring / part,
                        ring_gather(hosts, [leaves]), 1.01 * ring_gather(hosts, [leaves]), 0))
        broadcast = {"collective": "broadcast", "bytes": 1024 * KIB}
        rows.append(Row("Broadcast by multicast, parts on links", f"{by_multicast(hosts, [leaves])}",
                        run(programs, **network, **broadcast)["links"] / 16 / part,
                        by_multicast(hosts, [leaves]), 1.05 * by_multicast(hosts, [leaves]), 1))
        for way, parent in TREES.items():
            theory = tree_broadcast(hosts, [leaves], parent)
            rows.append(Row(f"Broadcast, {way}, parts on links", f"{theory}",
                            run(programs, **network, **broadcast, way=way)["links"] / 16 / part, theory, 1.05 * theory, 1))
    for hosts in (4, 8):
        multicast, ring = (run(programs, hosts=hosts, way=way)["host_links"] for way in ("multicast", "ring"))
        theory = host_link_share(hosts)
        rows.append(Row(f"AllGather, multicast over ring on hosts' links, {hosts} hosts", f"{theory:.3f}",
                        multicast / ring, theory - 0.02, theory + 0.01, 3))
    return rows


def figure_11(programs):
    """AllGather around the ring and by multicast; Broadcast along a chain of hosts and by multicast."""
    rows = []
    for hosts, network in NETWORKS.items():
        for kib in (64, 256) if hosts < HOSTS else (64,):
            ring = run(programs, **network, bytes=kib * KIB, way="ring")["picoseconds"]
            for staging in (1024, 2048):
                took = run(programs, **network, bytes=kib * KIB, staging=staging)["picoseconds"]
                rows.append(Row(f"AllGather over the ring, {hosts} hosts, {kib} KiB, staging {staging}", "1", ring / took,
                                0.95, 1.3))
    for hosts, network in NETWORKS.items():
        chain, took = (run(programs, **network, collective="broadcast", bytes=1024 * KIB, way=way)["picoseconds"]
                       for way in ("ring", "multicast"))
        rows.append(Row(f"Broadcast of 1 MiB over a chain, {hosts} hosts", "1.3 k-nomial, 4.75 binary", chain / took, 1, 25))
        rows.append(Row("the same, of the link's rate", "", 1024 * KIB * 8e3 / took / 56 * 4176 / 4096, 0.85, 1))
    return rows


def figure_11_trees(programs):
    """Broadcast down trees of hosts: whole messages, and segments of 16 KiB."""
    rows = []
    for hosts, leaves, spines in ((HOSTS, LEAVES, SPINES), (HOSTS, LEAVES, 18), (64, 1, 1)):
        network = {"hosts": hosts, "leaves": leaves, "spines": spines}
        where = "one switch" if leaves == 1 else f"{spines} spines"
        for kib in (4, 64, 1024):
            words = {**network, "collective": "broadcast", "bytes": kib * KIB}
            took = run(programs, **words)["picoseconds"]
            for tree, paper in (("4-nomial", "1.3"), ("binary-heap", "4.75")):
                for segment in (None, 16) if kib > 16 else (None,):
                    more = {"segment": segment * KIB} if segment else {}
                    what = f"{hosts} hosts, {where}, {kib} KiB, {tree}, {f'by {segment} KiB' if segment else 'whole'}"
                    rows.append(Row(what, paper if hosts == HOSTS else "",
                                    run(programs, **words, way=tree, **more)["picoseconds"] / took, 1, 25))
    return rows


def figure_11_long(programs):
    """AllGather of the parts that the paper names."""
    rows = []
    for kib in (128, 256):
        words, chunks = {**NETWORKS[HOSTS], "bytes": kib * KIB}, kib // 4
        ring = run(programs, **words, way="ring")["picoseconds"]
        for staging in (512, 1024, 2048):
            took = run(programs, **words, staging=staging)["picoseconds"]
            rows.append(Row(f"AllGather over the ring, 188 hosts, {kib} KiB, staging {staging}", "1", ring / took,
                            0.45 if staging == 512 else 0.95, 1.05))
            if staging == 512:
                rows.append(Row("each step of the one token", "", step_of_a_token(took / 1000, HOSTS, chunks, staging), 1, 1.5, 2,
                                "us"))
    return rows


def subgroups(programs):
    """Several addresses, of which each has a tree over a spine of its own."""
    rows = []
    for hosts, counts in ((64, (1, 2)), (HOSTS, (1, 2, 6))):
        words = {**NETWORKS[hosts], "staging": 2048}
        one = run(programs, **words)
        for count in counts[1:]:
            told = run(programs, **words, addresses=count)
            what = f"{hosts} hosts, {count} addresses"
            rows.append(Row(f"{what}: time over that of one", "", told["picoseconds"] / one["picoseconds"], 0.95, 1.05, 3))
            rows.append(Row("bytes on links over those of one", "", told["links"] / one["links"], 0.99, 1.01, 3))
            rows.append(Row("chunks read, or without a receive", "", told["read"] + told["unposted"], 0, 0, 0))
    for count in (1, 2):
        told = run(programs, **NETWORKS[64], staging=2048, addresses=count, loss="0.001", calls=4)
        rows.append(Row(f"64 hosts, {count} {'address' if count == 1 else 'addresses'}, 0.1 % lost: read of what was lost", "",
                        told["read"] / (told["expected"] - told["came"]), 1, 1.05))
    return rows


def figure_10(programs):
    """Shares of an AllGather's time, until the first datagram leaves and from when the last one has come."""
    rows = []
    for hosts, network in {2: {"hosts": 2}, **NETWORKS}.items():
        for kib in (4, 64, 1024) if hosts < HOSTS else (4, 64):
            took = run(programs, **network, bytes=kib * KIB, staging=2048)
            before, behind = (100 * took[name] / took["picoseconds"] for name in ("before", "behind"))
            least = {4: 0, 64: 75, 1024: 97}[kib]
            rows.append(Row(f"{hosts} hosts, {kib} KiB: before", "", before, 0, 35, 1, "%"))
            rows.append(Row("data", "", 100 - before - behind, least, 100, 1, "%"))
            rows.append(Row("behind", "", behind, 0, 40, 1, "%"))
            if kib > 64:
                continue
            took = run(programs, **network, bytes=kib * KIB, staging=2048, agree_by_switches=True)
            rows.append(Row("before, when the switches make them agree", "", 100 * took["before"] / took["picoseconds"], 0, 35, 1,
                            "%"))
    return rows


# What a datagram takes of the slow rank: ten times what it takes of a link.
SLOW_NS = 5966


def slow_rank(programs):
    """One rank takes a datagram in ten times what the link takes."""
    rows = []
    cases = [(8, 1024, staging, 4) for staging in (64, 512, 2048, 8192)] + [(8, 1024, 512, tokens) for tokens in (1, 2)]
    cases += [(hosts, 256, 512, 4) for hosts in (4, 16, 64)]
    for hosts, kib, staging, tokens in cases:
        words = {"hosts": hosts, "bytes": kib * KIB, "staging": staging, "tokens": tokens}
        chunks = kib // 4
        told = run(programs, **words, slow_ns=SLOW_NS)
        fast = run(programs, **words)["picoseconds"]
        what = f"{hosts} hosts, {kib} KiB, staging {staging}, tokens {tokens}"
        rows.append(Row(f"{what}: rate of the link", "", (hosts - 1) * chunks * CHUNK_NS * 1000 / fast, 0.9, 1))
        rows.append(Row("slow: time over what its datagrams take", "",
                        told["picoseconds"] / (hosts + 1) / chunks / SLOW_NS / 1000, 1, 1.2, 3))
        rows.append(Row("slow: chunks read, or without a receive", "", told["read"] + told["unposted"], 0, 0, 0))
    return rows


def percent(share):
    return f"{100 * share:f}".rstrip("0").rstrip(".") + " %"


# Virtual time is the same everywhere: what a row of the next two figures may be is what it was, and a quarter of that about it.
# By share lost and losses in a row, for a loss; by share lost, for multicast, the ring, and modes I to III.
ADDED = {(1e-6, 1): 3.2, (1e-5, 1): 2.6, (1e-4, 1): 1.1, (1e-4, 8): 0.9, (1e-3, 1): 1.45, (1e-3, 8): 0.34, (1e-2, 1): 0.46, (1e-2, 8): 0.32}
SLOWED = {1e-4: (1.0, 1.0, 1.0, 1.0, 1.0), 1e-3: (1.03, 2.0, 1.2, 1.15, 1.1), 1e-2: (3.4, 13.3, 4.4, 3.4, 2.9)}


def about(usual, least=0.0):
    return max(least, 0.75 * usual), 1.25 * usual


def losses(programs):
    """Of datagrams alone; then of all packets, beside other ways."""
    network, rows = {"hosts": 8}, []
    delay_ns, short_ns = 500, HEADERS * 8 / 56
    # A message and its acknowledgement; a request and a chunk; each over two links.
    least_us = (4 * (delay_ns + short_ns) + 2 * (delay_ns + short_ns) + 2 * (delay_ns + CHUNK_NS)) / 1000
    cases = ((1e-6, 1, 2048, 2), (1e-5, 1, 1024, 1), (1e-4, 1, 256, 1), (1e-4, 8, 256, 1), (1e-3, 1, 64, 1),
             (1e-3, 8, 64, 1), (1e-2, 1, 64, 1), (1e-2, 8, 64, 1))
    rows.append(Row(f"the paper's timer with alpha 0, N/B, of {least_us:.1f} us", "", 8 * 64 * KIB * 8e-3 / 56 / least_us, 14, 14.5))
    for loss, burst, calls, seed in cases:
        whole = run(programs, **network)["picoseconds"] * calls
        told = run(programs, **network, calls=calls, loss=f"{loss:f}", burst=burst, seed=seed)
        what = f"{percent(loss)} lost, {burst} in a row"
        added = (told["picoseconds"] - whole) / max(1, told["lost"]) / 1e6
        rows.append(Row(f"{what}: time for one of {told['lost']} losses, of {least_us:.1f} us", "", added / least_us,
                        *about(ADDED[loss, burst])))
        rows.append(Row("read of what was lost", "", told["read"] / max(1, told["expected"] - told["came"]), 1, 1.05))
    for kib in (64, 1024):
        none, ring = (run(programs, **network, bytes=kib * KIB, **words)["picoseconds"] for words in ({"loss": 1}, {"way": "ring"}))
        rows.append(Row(f"no datagram comes, {kib} KiB of each: time over the ring's", "", none / ring, 1, 1.5))
    for loss in (1e-4, 1e-3, 1e-2):
        for way, usual in zip(("multicast", "ring", "1", "2", "3"), SLOWED[loss]):
            words = {**network, "bytes": 1024 * KIB, "calls": 2, "way": way}
            whole, took = (run(programs, **words, loss=f"{share:f}", lose_all=True)["picoseconds"] for share in (0, loss))
            name = way if way in ("multicast", "ring") else "mode " + "I" * int(way)
            rows.append(Row(f"all packets, {percent(loss)} lost: time over that without, {name}", "", took / whole, *about(usual, least=1)))
    return rows


# Of ReduceScatter and AllGather at once: hosts, KiB of a part, the least share of what links allow with windows of 128
# packets, and the receives with which windows of 512 come near to it.
AT_ONCE = ((4, 1024, 0.70, 768), (8, 1024, 0.64, 768), (16, 1024, 0.62, 1536), (64, 256, 0.87, 2048))


def at_once(programs):
    """ReduceScatter by the network and AllGather by multicast, beside two rings."""
    rows = []
    for hosts, kib, least, receives in AT_ONCE:
        words = ["--ranks", hosts, "--bytes", hosts * kib * KIB, "--calls", 1, "--gbit", 56, "--json"]
        rings = programs.run(OVERLAP, *words, "--reduce-scatter", "ring", "--all-gather", "ring")["rows"][0]["both"]
        by_links = 2 * (hosts - 1) / (hosts + 1)
        paper = f"{2 - 2 / hosts:.3f}"
        rows.append(Row(f"{hosts} hosts, by links", paper, by_links, by_links, by_links, 3))
        small = ["--message-packets", 16, "--staging", 1024]
        large = ["--message-packets", 8, "--window", 64, "--outstanding", 1024, "--staging", receives]
        for packets, options, share in ((128, small, least), (512, large, 0.9)):
            for row in programs.run(OVERLAP, *words, "--all-gather", "multicast", *options)["rows"][:3]:
                rows.append(Row(f"{hosts} hosts, {kib} KiB, windows of {packets}, mode {row['mode']}: two rings over it", paper,
                                rings / row["both"], share * by_links, 1.01 * by_links, 3))
    return rows


PAPER = Paper(
    "multicast", "Network-Offloaded Bandwidth-Optimal Broadcast and Allgather for Distributed AI (SC 2024)",
    (Figure("Figure 2", "bytes on all links, by formulas", figure_2,
            "Around the ring each edge carries P - 1 parts, over two links below a switch and over four or six between\n"
            "switches. By multicast a part takes each host's link once, and the link above each switch once. Hosts are in the\n"
            "order of their leaves. Trees of hosts are counted the same way. The paper's 1.5 of a Broadcast is measured,\n"
            "and we do not know its tree and order. No tree does better than 1.98: each of its edges takes two links, and 11 of\n"
            "them four. On hosts' links alone the share is P/(2(P - 1))."),
     Figure("Figure 12", "bytes on all links, counted", figure_12,
            "64 KiB of each rank, and a Broadcast of 1 MiB, in virtual time: 12 leaves and 6 spines, then 8 and 4. Packets go by\n"
            "the tables that the manager computes for this network. Bytes are counted in parts with 80 bytes of headers\n"
            "to a chunk of 4 KiB. In the column of the paper there are formulas where it has no figure. What ours has beyond\n"
            "them are acknowledgements of the ring and of trees, and of multicast the words and the agreement.", True),
     Figure("Figure 11", "throughput, over the ring's and over a chain's", figure_11,
            "Time of the one over time of the other, in virtual time. The simulation has no cost of hosts and switches that hold\n"
            "any number of packets. Where all parts fit into the staging ring, multicast is ahead by what the ring's steps take.\n"
            "Longer parts go by tokens, which take next to no time: they are on their way while chunks are. The default is 1,024\n"
            "receives. The paper has no tokens, and loses what a late host cannot take. Here a Broadcast stands beside a chain of\n"
            "hosts, whose length in hosts is what counts; trees follow.", True),
     Figure("Figure 11, trees", "a Broadcast down trees of hosts, over one by multicast", figure_11_trees,
            "Time down a tree over time by multicast, until the last host has its result. The trees are no algorithm of ours. A\n"
            "host passes on what it has got whole: the message, or each 16 KiB of it. It sends to one child after the other, and\n"
            "has 64 KiB or one segment under way. Nobody agrees on anything, and all receives are posted. Host r's parent is, in a\n"
            "4-nomial tree, r without its lowest digit to the base 4 that is not 0; in a heap (r - 1)/2. The paper has \"up to\" 1.3\n"
            "and 4.75, and says not at which size, nor what a host passes on. The root of a 4-nomial tree of 188 has eleven\n"
            "children, and its link has eleven messages to send. In segments a heap takes twice as long as one message, as one\n"
            "switch shows. Over leaves it takes longer, since flows meet on links. A leaf has one link to each spine here. Switches\n"
            "of 36 ports, as the paper's are, have room for three, and so for as many as 18 spines give. UCC, with which the paper\n"
            "measured, has by default a scatter and an AllGather for more than 32 KiB. These take two messages' time, which is\n"
            "nearer to 1.3.", True),
     Figure("Figure 11, long parts", "AllGather of 128 and 256 KiB of each", figure_11_long,
            "Parts that the paper calls typical, for which it has multicast as fast as the ring. They go by tokens. With 1,024\n"
            "receives, the default, four tokens carry slices of one chunk, with 2,048 of two. A token is on its way while its\n"
            "slice is, so that links always have something to send. With 512 there is room for one token alone, of one chunk. A\n"
            "step from host to host takes it two links of 500 ns and what it waits for, twice as long as a chunk takes of a\n"
            "link. Nothing meets an empty receive queue, however late a host is. The paper has no tokens, and loses what a late\n"
            "host cannot take. Only with --long: it takes minutes, and 13 GB of memory.", True, is_long=True),
     Figure("Figure 10", "shares of an AllGather's time", figure_10,
            "Before the first datagram leaves the ranks agree, in log2 P exchanges. Or the switches make them agree, by one message\n"
            "up their tree and one down. Behind the last datagram are words, acknowledgements and Reads. Over several spines a word\n"
            "can overtake datagrams; then a rank reads what would have come. The paper draws these shares for 2 to 188 hosts,\n"
            "without figures; a processor takes no time here.", True),
     Figure("Subgroups", "several addresses, each over a spine of its own", subgroups,
            "AllGather of 64 KiB of each. A block of each part goes to each address, and each address has a tree over a spine of\n"
            "its own. The paper has subgroups so that several threads serve them, and no figure of several trees. Here tokens and\n"
            "the links of hosts are the bound, and each part still takes each link once. So only which spines are busy changes.\n"
            "With losses each result is right, too. In the product a group has one address; several are a parameter of the core.", True),
     Figure("Slow rank", "a rank at a tenth of the link's rate", slow_rank,
            "Not in the paper. The rank in the middle takes 5,966 ns for a datagram, ten times what the link takes; for what it\n"
            "sends itself, too. So its own work is (P + 1) parts. The call takes as long as that, and the tokens\n"
            "add next to nothing; nothing is lost, and no chunk is read. The first row of each is the same call without a slow\n"
            "rank: chunks of others at the link's rate, over its time. One switch joins the hosts.", True),
     Figure("Losses", "random ones and bursts, on each link", losses,
            "Not in the paper as figures. Its timer begins with the call and waits N/B + alpha, N all bytes, before anything is\n"
            "fetched. N/B is about what the call takes, so that alpha is what it adds, for one loss as for many. The paper does not\n"
            "give alpha. Ours has no timer. Eight hosts, 64 KiB of each. The unit is a word, its acknowledgement and a Read. A\n"
            "chunk lost on its own host's link is lost to all others, and they read it one behind the other. Many losses cost less\n"
            "each, as they are read together. Every chunk that is lost is read once. Below, packets of connections are lost as\n"
            "well, in calls of 1 MiB of each. Then the connections' timers of a millisecond, and what each repeats, are most of\n"
            "the time.", True),
     Figure("Appendix B", "a ReduceScatter and an AllGather at once", at_once,
            "The time of two rings at once, over that of a ReduceScatter by the switch beside an AllGather by multicast. The paper\n"
            "has 2 - 2/P, as its ReduceScatter sends (P - 1)N up. Ours sends P N up (ADR 20), so that links allow\n"
            "2(P - 1)/(P + 1). A result stands behind the datagrams on their way to its host, as many as ranks have receives\n"
            "for. The window of the ReduceScatter has to last for so long: 128 packets, all that rdma_rxe and softnic send ahead\n"
            "of acknowledgements, do not; 512 do, of a NIC that sends 1,024 ahead. In mode II its end is told by the host that\n"
            "takes it, and waits twice. Fewer receives make slices shorter, and less stands before a result; too few, and tokens\n"
            "hold the AllGather up. With parts of 1 MiB, windows of 512 and 8,192 receives 64 hosts come to 1.918, 1.756 and 1.919,\n"
            "in some minutes and 3 GB of memory. Two rings take a little more than links need, so that ours may be a hundredth\n"
            "above. Links of 1 us at 56 Gbit/s.", True)),
    (),
    (("threads, instructions and cycles in the NIC", "of a processor in the NIC, which ours has not"),))
