"""The switched network in the middle of every link (`up --fabric`): plain Linux bridges, or Open vSwitch.

A link's ends are the devices fNa and fNb of the fabric's namespace, N counted from 1.

bridge: a Linux bridge brN for each link. ovs: two Open vSwitch bridges with the userspace datapath, joined by
a trunk; link N is VLAN N, fNa an access port of ovs1 and fNb of ovs2, so that links share switches but not a
segment.
"""

import os
import shutil
import time

from . import net, procs
from .bed import FABRIC, Bed, BedError

KINDS = ("direct", "bridge", "ovs")
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
_START_TIMEOUT_S = 20
_QUIET = ["-vconsole:info", "-vsyslog:off", "-vfile:off"]


class Fabric:
    """The fabric of one bed. `up` adds the links, then calls start() once the devices are there."""

    def __init__(self, bed: Bed, kind, mtu):
        self.bed, self.kind, self.mtu = bed, kind, mtu
        self.links = 0
        if kind == "ovs":
            missing = [p for p in _PROGRAMS if not shutil.which(p)]
            if missing:
                raise BedError(f"--fabric ovs needs {', '.join(missing)}: scripts/install-deps installs "
                               "openvswitch-switch")

    def add_link(self, devices, end):
        """Joins an end, given as (namespace, device), to the fabric; returns what its other end is joined to.

        The device that is returned is not made yet: the caller makes it as one side of a veth pair.
        """
        self.links += 1
        namespace = self.bed.namespace(FABRIC)
        devices.veth(end, (namespace, f"f{self.links}a"), self.mtu)
        return namespace, f"f{self.links}b"

    def add_bridges(self, devices):
        """After the last link: Linux bridges are devices like others."""
        if self.kind == "bridge":
            namespace = self.bed.namespace(FABRIC)
            for number in range(1, self.links + 1):
                devices.bridge(namespace, f"br{number}", [f"f{number}a", f"f{number}b"], self.mtu)

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
        self.bed.add_process(name, procs.spawn(argv, self.bed.log(name), self.bed.namespace(FABRIC)))

    def _wait_for_database(self):
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not os.path.exists(self._socket()):
            if not procs.alive(self.bed.record["processes"]["fabric.ovsdb-server"]):
                raise BedError(f"ovsdb-server ended; see {self.bed.log('fabric.ovsdb-server')}")
            if time.monotonic() > deadline:
                raise BedError(f"ovsdb-server is not ready; see {self.bed.log('fabric.ovsdb-server')}")
            time.sleep(0.02)

    def _configuration(self):
        """The arguments of one ovs-vsctl call that makes everything, and waits until it is made."""
        argv = []
        for bridge, other, side in (("ovs1", "ovs2", "a"), ("ovs2", "ovs1", "b")):
            argv += ["--", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev",
                     "--", "set", "interface", bridge, f"mtu_request={self.mtu}",
                     "--", "add-port", bridge, f"to-{other}",
                     "--", "set", "interface", f"to-{other}", "type=patch", f"options:peer=to-{bridge}"]
            for number in range(1, self.links + 1):
                port = f"f{number}{side}"
                argv += ["--", "add-port", bridge, port, f"tag={number}",
                         "--", "set", "interface", port, f"mtu_request={self.mtu}"]
        return argv
