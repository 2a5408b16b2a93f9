"""Links that are memifs (`up --ports memif`): switches' ports by DPDK, and softnic's as well, over sockets in the bed's folder.

A link between two switches, and one between a switch and a softnic host, is one such; those of other hosts are veths as ever. A
memif has one process at each end, so a host runs one program at a time.
"""

import os

from . import topology
from .bed import BedError

KINDS = ("veth", "memif")
MODULE = os.path.join("incengine", "epic_io_dpdk.so")


def refuse(options):
    """Raises BedError for what cannot go with memifs."""
    for wrong, why in ((options["wire"], "--wire"), (options["fabric"] != "direct", "--fabric"), (options["rate_mbit"], "--rate"),
                       (options["daemons"] != "engine", "--bridge or --no-daemons"), (options["frames"] == "super", "--super-frames"),
                       (options["lend"], "--lend")):
        if wrong:
            raise BedError(f"--ports memif takes no {why}: the kernel does not see what is in such a link, and a host runs one program")


def require_module(build):
    """Raises BedError if ports by DPDK are not built."""
    if not os.path.exists(os.path.join(build, MODULE)):
        raise BedError(f"--ports memif: there is no {MODULE} in {build}: scripts/install-deps --dpdk, then cmake and the target epic_io_dpdk")


class Links:
    """The memifs of one bed: the devices of switches' ports and of hosts."""

    def __init__(self, bed, hosts, topo):
        self.bed, self.count = bed, 0
        self.ports = {}  # {switch: {port: device}}
        for link in topo["links"]:
            if topology.between_switches(link):
                (a, port_a), (b, port_b) = (link[end].split(":") for end in "ab")
                socket = self._socket()
                self._add(a, port_a, f"net_memif{self.count},role=server,socket={socket}")
                self._add(b, port_b, f"net_memif{self.count},role=client,socket={socket}")
        for host in hosts:
            if host["kind"] == "softnic":
                socket = self._socket()
                self._add(host["switch"], host["port"], f"net_memif{self.count},role=server,socket={socket}")
                host["device"] = f"vec0=memif:{socket},ip={host['address']}/16,mac={host['mac']}"

    def _socket(self):
        self.count += 1
        return self.bed.file(f"memif{self.count}.sock")

    def _add(self, switch, port, device):
        self.ports.setdefault(switch, {})[port] = device

    def has(self, switch, port):
        return port in self.ports.get(switch, {})

    def arguments(self, switch, mtu):
        """Of the switch's engine, beside its ports."""
        return ["--io", "dpdk", "--dpdk-mtu", str(mtu)] if switch in self.ports else []

    def port(self, switch, port):
        """The word behind --port."""
        return f"{port}={self.ports[switch][port]}" if self.has(switch, port) else port
