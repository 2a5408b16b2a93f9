"""Broadcast and AllGather by multicast: M. Khalilov et al., "Network-Offloaded Bandwidth-Optimal Broadcast and Allgather for
Distributed AI"."""
from reproduction.frame import Figure, Paper, Row

PROGRAM = "sim/epic-multicast"

# The paper's test bed: hosts on leaves, spines, Gbit/s.
HOSTS, LEAVES, SPINES = 188, 12, 6
KIB = 1024


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


def tree_broadcast(hosts, levels, parent):
    """Of a Broadcast down a tree of hosts."""
    return sum(links_between(r, parent(r), hosts, levels) for r in range(1, hosts))


def host_link_share(hosts):
    """Bytes on hosts' links of an AllGather by multicast, over those around the ring."""
    return hosts * hosts / (2 * hosts * (hosts - 1))


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
    for name, parent, low, high in (("binomial tree", lambda r: knomial_parent(r, 2), 1.98, 2.05),
                                    ("4-nomial tree", lambda r: knomial_parent(r, 4), 1.98, 2.05),
                                    ("binary heap", heap_parent, 3.5, 3.7)):
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
        part = 64 * KIB * (4096 + 80) / 4096
        rows.append(Row("multicast, parts on links", f"{hosts * by_multicast(hosts, [leaves])}", multicast / part,
                        hosts * by_multicast(hosts, [leaves]), 1.01 * hosts * by_multicast(hosts, [leaves]), 0))
        rows.append(Row("ring, parts on links", f"{ring_gather(hosts, [leaves])}", ring / part,
                        ring_gather(hosts, [leaves]), 1.01 * ring_gather(hosts, [leaves]), 0))
        broadcast = run(programs, **network, collective="broadcast", bytes=1024 * KIB)["links"] / 16 / part
        rows.append(Row("Broadcast by multicast, parts on links", f"{by_multicast(hosts, [leaves])}", broadcast,
                        by_multicast(hosts, [leaves]), 1.05 * by_multicast(hosts, [leaves]), 1))
    for hosts in (4, 8):
        multicast, ring = (run(programs, hosts=hosts, way=way)["host_links"] for way in ("multicast", "ring"))
        theory = host_link_share(hosts)
        rows.append(Row(f"AllGather, multicast over ring on hosts' links, {hosts} hosts", f"{theory:.3f}",
                        multicast / ring, theory - 0.02, theory + 0.01, 3))
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
            "them are acknowledgements of the ring, and of multicast the words and the agreement.", True)),
    (),
    (("threads, instructions and cycles in the NIC", "of a processor in the NIC, which ours has not"),))
