"""The network in the middle of links (`up --fabric`): plain Linux bridges, Open vSwitch, or a router.

A link's ends are the devices fNa and fNb of the fabric's namespace, N counted from 1.

bridge: a Linux bridge brN for each link. ovs: two Open vSwitch bridges with the userspace datapath, joined by
a trunk; link N is VLAN N, fNa an access port of ovs1 and fNb of ovs2, so that links share switches but not a
segment. routed: an IP router in each link between two switches; links of hosts stay direct. The topology tells
the switches the MACs of the router's ports, and nothing passes but what is for the neighbour itself.
"""

import os
import shutil
import time

from . import net, procs
from .bed import FABRIC, Bed, BedError
from .topology import between_switches

KINDS = ("direct", "bridge", "ovs", "routed")
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
_START_TIMEOUT_S = 20
_QUIET = ["-vconsole:info", "-vsyslog:off", "-vfile:off"]


class Fabric:
    """The fabric of one bed. `up` adds the links, then calls start() once the devices are there."""

    def __init__(self, bed: Bed, kind, topo, mtu):
        self.bed, self.kind, self.mtu = bed, kind, mtu
        self.switches = {switch["name"]: switch for switch in topo["switches"]}
        # In the order in which they are added.
        self.switch_links = [link for link in topo["links"] if between_switches(link)]
        self.links = []  # the names of the nodes at both ends
        if kind == "ovs":
            missing = [p for p in _PROGRAMS if not shutil.which(p)]
            if missing:
                raise BedError(f"--fabric ovs needs {', '.join(missing)}: scripts/install-deps installs "
                               "openvswitch-switch")

    def add_link(self, devices, end, nodes):
        """Joins the first node's end, (namespace, device), to the fabric; returns where the second's goes.

        The device that is returned is not made yet: the caller makes it as one side of a veth pair.
        """
        if self.kind == "routed" and not all(node in self.switches for node in nodes):
            return end
        self.links.append(nodes)
        namespace, number = self.bed.namespace(FABRIC), len(self.links)
        devices.veth(end, (namespace, f"f{number}a"), self.mtu)
        return namespace, f"f{number}b"

    def add_devices(self, devices):
        """After the last link: what joins the two ends of each, as far as the kernel does it."""
        namespace = self.bed.namespace(FABRIC)
        for number, nodes in enumerate(self.links, 1):
            ports = [f"f{number}a", f"f{number}b"]
            if self.kind == "bridge":
                devices.bridge(namespace, f"br{number}", ports, self.mtu)
            elif self.kind == "routed":
                near, far = (self.switches[node] for node in nodes)
                link = self.switch_links[number - 1]
                devices.route(namespace, (ports[0], link["a_next_hop_mac"]), ports[1], far, 2 * number)
                devices.route(namespace, (ports[1], link["b_next_hop_mac"]), ports[0], near, 2 * number + 1)
        if self.kind == "routed":
            net.allow_routing(namespace)

    def start(self):
        """Starts Open vSwitch, if asked for, with its database and sockets in the bed's own directory."""
        if self.kind != "ovs":
            return
        database = self.bed.file(FABRIC, "conf.db")
        os.makedirs(self.bed.file(FABRIC))
        net.run(["ovsdb-tool", "create", database, _SCHEMA])
        self._spawn("ovsdb-server", [f"--remote=punix:{self._socket()}", *_QUIET, database])
        self._wait_for_database()
        net.run(self._vsctl("--no-wait", "init"))
        self._spawn("ovs-vswitchd", [*_QUIET, f"unix:{self._socket()}"])
        try:
            net.run(self._vsctl(f"--timeout={_START_TIMEOUT_S}", *self._configuration()))
        except net.NetError as error:
            raise BedError(f"{error}; see {self.bed.log('fabric.ovs-vswitchd')}") from error

    def _socket(self):
        return self.bed.file(FABRIC, "db.sock")

    def _vsctl(self, *arguments):
        return ["ovs-vsctl", f"--db=unix:{self._socket()}", *arguments]

    def _spawn(self, program, arguments):
        # As a child of ours, not detached: the bed knows it by its pid. The pid file is for ovs-appctl.
        name = f"fabric.{program}"
        argv = ["env", f"OVS_RUNDIR={self.bed.file(FABRIC)}", program, "--pidfile", *arguments]
        self.bed.start(name, argv, self.bed.namespace(FABRIC))

    def _wait_for_database(self):
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not procs.answers(self._socket()):
            if not procs.alive(self.bed.record["processes"]["fabric.ovsdb-server"]):
                raise BedError(f"ovsdb-server ended; see {self.bed.log('fabric.ovsdb-server')}")
            if time.monotonic() > deadline:
                raise BedError(f"ovsdb-server is not ready; see {self.bed.log('fabric.ovsdb-server')}")
            time.sleep(0.02)

    def _configuration(self):
        """The arguments of one ovs-vsctl call that makes everything, and waits until it is made."""
        argv = []
        for end, (bridge, other) in enumerate((("ovs1", "ovs2"), ("ovs2", "ovs1"))):
            argv += ["--", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev",
                     "--", "set", "interface", bridge, f"mtu_request={self.mtu}",
                     "--", "add-port", bridge, f"to-{other}",
                     "--", "set", "interface", f"to-{other}", "type=patch", f"options:peer=to-{bridge}"]
            for number, nodes in enumerate(self.links, 1):
                port = f"f{number}{'ab'[end]}"
                argv += ["--", "add-port", bridge, port, f"tag={number}",
                         "--", "set", "interface", port, f"mtu_request={self.mtu}",
                         f"external_ids:node={nodes[end]}"]
        return argv
