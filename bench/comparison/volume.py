"""What calls of a collective must put on the hosts' links at least, and whether they have: if not, something else was measured.

n ranks are on P hosts, k of them on host h; S are the bytes of all ranks' shares together. Data are taken for incompressible, ranks of one host
for able to share everything. A cut round a host's link then has to carry, whatever the algorithm and whatever the network computes:

| collective    | out of h                  | into h                     | because |
|---------------|---------------------------|----------------------------|---|
| allreduce     | S                         | S                          | the others' results need the sum of h's ranks, which is S bytes, and h's results that of the others |
| reduce        | S; 0 where the root is    | 0; S where the root is     | the same, with one result |
| broadcast     | 0; S where the root is    | S; 0 where the root is     | the root has it, all others need it |
| reducescatter | S(n - k)/n                | S k/n                      | h's sums of the others' shares, and the others' sums of its own |
| allgather     | S k/n                     | S(n - k)/n                 | h's shares, once if the network copies, and the others' |
| barrier       | a frame                   | a frame                    | nobody is told that h has come unless h says so |

Where only hosts compute and copy, every message has one receiver, and all hosts together send, and so receive:

| collective               | together    | because |
|--------------------------|-------------|---|
| allreduce                | 2(P - 1)S   | each element: all P hosts are to know what depends on all P, which takes 2(P - 1) messages (gossip one way); a ring's 2(P - 1)/P S at each host |
| reduce, reducescatter    | (P - 1)S    | each element: P - 1 hosts have to give their sum away |
| broadcast, allgather     | (P - 1)S    | each element: P - 1 hosts have to get it |

Whatever else is sent, headers, acknowledgements, what is sent again, comes on top and is not bounded.
"""
import collections
import dataclasses

FRAME = 14  # bytes: the kernel counts an Ethernet frame from its header on


@dataclasses.dataclass
class Bytes:
    """Of each host's link: out of the host, and into it. Of a call, or of several."""
    sent: list
    received: list

    def of_a_call(self, calls):
        return Bytes([b / calls for b in self.sent], [b / calls for b in self.received])


@dataclasses.dataclass
class Least:
    """Of a call: bytes out of each host and into it, and of all hosts together, where that is more than their sum."""
    sent: list
    received: list
    sent_together: float
    received_together: float


def _of_host(collective, size, here, ranks, root):
    """(out, in) of a host with so many of the ranks."""
    share = size * here / ranks
    return {"allreduce": (size, size), "reduce": (0, size) if root else (size, 0), "broadcast": (size, 0) if root else (0, size),
            "reducescatter": (size - share, share), "allgather": (share, size - share), "barrier": (FRAME, FRAME)}[collective]


def least(collective, size, ranks_of_hosts, in_network, root_host=0):
    """What a call of so many bytes takes at least. `ranks_of_hosts`: how many ranks each host has, which may be none.
    `in_network`: switches may compute and copy."""
    ranks, hosts = sum(ranks_of_hosts), [h for h, here in enumerate(ranks_of_hosts) if here]
    pairs = [_of_host(collective, size, here, ranks, h == root_host) if h in hosts and len(hosts) > 1 else (0, 0)
             for h, here in enumerate(ranks_of_hosts)]
    sent, received = [list(side) for side in zip(*pairs)]
    together = [sum(sent), sum(received)]
    if not in_network and collective != "barrier":
        copies = 2 * (len(hosts) - 1) if collective == "allreduce" else len(hosts) - 1
        together = [max(bytes_, copies * size) for bytes_ in together]
    return Least(sent, received, *together)


def ranks_of(hosts):
    """How many ranks each host has, of the hosts' names by rank."""
    return list(collections.Counter(hosts).values())


def shortfall(counted, calls, bound):
    """Which link has carried less than it must in so many calls, in words; None if none has."""
    for way, have, must in (("sent", counted.sent, bound.sent), ("received", counted.received, bound.received)):
        for host, (bytes_, bytes_of_a_call) in enumerate(zip(have, must, strict=True)):
            if bytes_ < calls * bytes_of_a_call:
                return f"host {host} has {way} {bytes_:,} bytes in {calls} calls, which take {calls * bytes_of_a_call:,.0f} at least"
    for way, have, must in (("sent", counted.sent, bound.sent_together), ("received", counted.received, bound.received_together)):
        if sum(have) < calls * must:
            return f"all hosts have {way} {sum(have):,} bytes in {calls} calls, which take {calls * must:,.0f} at least"
    return None
