"""Brings a test bed up, step by step; the caller removes it if a step fails."""

import contextlib
import json
import os
import subprocess
import sys
import time

from . import daemons, fabric, guest, guest_death, lenders, memif, net, procs, rate, topology
from .bed import (ETC, FABRIC, HOST_NAMES, HOSTS, MANAGER, MGMT, SHELL, TEMPORARY, WIRE, Bed, BedError, host_kinds, numbered,
                  say, switch_mgmt)
from .nodes import REPO

GUEST_TIMEOUT_S = 120
FORWARDER_TIMEOUT_S = 10
FORWARDER = os.path.join(REPO, "tests", "wire", "forwarder.py")
DAEMONS = ("incengine", "incagent", "incmanager")


def find_build(build):
    """The build directory that holds the three daemons."""
    candidates = [build] if build else [os.path.join(REPO, "build", kind) for kind in ("release", "dev")]
    for candidate in candidates:
        if all(os.access(os.path.join(candidate, d, d), os.X_OK) for d in DAEMONS):
            return os.path.realpath(candidate)
    raise BedError(f"no {', '.join(DAEMONS)} in {' or '.join(candidates)}: build them "
                   "(cmake --preset release && cmake --build build/release), or say --build DIR, "
                   "--no-daemons or --bridge")


def find_softnic(build):
    """The folder with softnic's libibverbs.so.1."""
    candidates = [build] if build else [os.path.join(REPO, "build", kind) for kind in ("release", "dev")]
    for candidate in candidates:
        if os.path.exists(os.path.join(candidate, "softnic", "lib", "libibverbs.so.1")):
            return os.path.realpath(os.path.join(candidate, "softnic", "lib"))
    raise BedError(f"no softnic/lib/libibverbs.so.1 in {' or '.join(candidates)}: build it "
                   "(cmake --build build/release --target epic_softnic), or say --build DIR or --hosts rxe")


def find_kernel():
    """The guests' kernel, built now if it is not there."""
    command = os.path.join(REPO, "scripts", "guest-kernel")
    process = subprocess.Popen([command], stdout=subprocess.PIPE, text=True)
    try:
        output = process.communicate()[0]
    except KeyboardInterrupt:
        process.terminate()  # it removes its build tree
        process.communicate()
        raise
    if process.returncode != 0:
        raise BedError("the guest kernel could not be built (see above)")
    return output.strip().splitlines()[-1]


class BringUp:
    """One run of `testbed up`. Options: hosts (see bed.host_kinds), daemons (engine, bridge, none), build, ..."""

    def __init__(self, bed: Bed, topo, options):
        self.bed = bed
        self.topo = topo
        self.options = options
        self.mtu = topology.device_mtu(topo["path_mtu"])
        self.hosts = numbered(topo)
        kinds = host_kinds(options["hosts"], [host["name"] for host in self.hosts])
        for host in self.hosts:
            host["kind"] = kinds[host["name"]]
        self.guests = [host for host in self.hosts if host["kind"] == "rxe"]
        self.mgmt_ports = []
        self.wire_links = []
        self.fabric = None
        if options["fabric"] != "direct":
            self.fabric = fabric.Fabric(bed, options["fabric"], topo, self.mtu)
        self.build = find_build(options["build"]) if options["daemons"] == "engine" else None
        self.softnic = find_softnic(options["build"]) if "softnic" in kinds.values() else None
        self.kernel = find_kernel() if self.guests else None
        self.lenders = lenders.of(options["lend"], kinds)
        if self.lenders and not self.build:
            raise BedError("--lend: without daemons of ours there is no manager to lend memory by")
        if options["daemons"] == "bridge" and topology.has_redundant_paths(topo):
            raise BedError(f"{topo['name']} has redundant paths: plain bridges would loop")
        if options["frames"] == "super" and options["fabric"] != "direct":
            raise BedError("--fabric: what is in the links there takes no super-frames")
        self.memifs = None
        if options["ports"] == "memif":
            memif.refuse(options)
            memif.require_module(self.build)
            self.memifs = memif.Links(bed, self.hosts, topo)
        if options["discover"] and (options["fabric"] == "routed" or options["daemons"] != "engine"):
            raise BedError("--discover: our daemons hear each other, and not through --fabric routed")
        if options["daemons"] == "bridge" and options["fabric"] == "routed":
            raise BedError("--fabric routed passes what switches send to each other, which bridges do not")

    def run(self):
        begin = time.monotonic()
        self._write_files()
        self._make_network()
        say(f"{self._count()} joined in {time.monotonic() - begin:.1f} s")
        if self.fabric:
            self.fabric.start()
        if self.options["wire"]:
            self._start_forwarder()
        with guest.turn_to_boot(self.kernel) if self.kernel else contextlib.nullcontext():
            # Guests take the longest, so they boot while the daemons start.
            if self.kernel:
                self._start_guests()
            if self.build:
                daemons.start_all(self.bed, self.options, self.memifs, self.mtu)
            if self.kernel:
                self._wait_for_guests(time.monotonic())
        if self.build:
            daemons.wait_for_switches(self.bed)
            lenders.start_all(self.bed, self.lenders)
        self.bed.record["phase"] = "up"
        self.bed.save()
        say(f"{self.topo['name']} is up after {time.monotonic() - begin:.1f} s")

    def _count(self):
        topo = self.topo
        return f"{len(topo['switches'])} switches, {len(topo['hosts'])} hosts, {len(topo['links'])} links"

    def _write_files(self):
        bed = self.bed
        for directory in ("logs", "share", "uml", ETC, HOST_NAMES, TEMPORARY):
            os.makedirs(bed.file(directory))
        bed.record = {"phase": "starting", "topology": self.topo["name"], "options": self.options,
                      "build": self.build, "softnic": self.softnic, "hosts": self.hosts, "processes": {}}
        bed.save()
        with open(bed.file("topology.yaml"), "w", encoding="utf-8") as file:
            file.write(topology.dump(self.topo))
        with open(bed.file("share", "hosts"), "w", encoding="utf-8") as file:
            names = [("127.0.0.1", "localhost"), (MANAGER.split(":")[0], MGMT)]
            names += [(host["address"], host["name"]) for host in self.hosts]
            file.writelines(f"{address} {name}\n" for address, name in names)
        os.symlink(bed.file("share", "hosts"), bed.file(ETC, "hosts"))
        # Who asks for a name that is not there is told so, and does not wait for a server that the namespace cannot reach.
        with open(bed.file(ETC, "resolv.conf"), "w", encoding="utf-8"):
            pass
        self._write_shell()

    def _write_shell(self):
        """What stands in for ssh where mpirun and the like ask for it."""
        bed = self.bed
        host_names = bed.file(HOST_NAMES)
        with open(bed.file(SHELL), "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/sh
# [OPTION ...] HOST COMMAND ...: runs a command on a host of this test bed; of the environment nothing goes along, as with ssh.
while [ $# -gt 0 ] && [ ! -e "{host_names}/$1" ]; do shift; done
[ $# -gt 1 ] || {{ echo "{bed.file(SHELL)}: which host that is no guest, and which command?" >&2; exit 255; }}
host=$1; shift
exec env -i PATH="$PATH" HOME="$HOME" TMPDIR={bed.file(TEMPORARY)} EPIC_IFNAME=vec0 \\
  ip netns exec "{bed.prefix}$host" nsenter --uts="{host_names}/$host" -- sh -c "$*"
""")
            os.fchmod(file.fileno(), 0o755)

    def _make_network(self):
        bed, devices = self.bed, net.Devices()
        own = [HOSTS] * bool(self.guests) + [h["name"] for h in self.hosts if h["kind"] != "rxe"]
        own += [WIRE] * self.options["wire"] + [FABRIC] * (self.fabric is not None)
        net.add_namespaces([bed.namespace(node) for node in [MGMT] + [s["name"] for s in self.topo["switches"]] + own])
        names = [host["name"] for host in self.hosts if host["kind"] != "rxe"]
        net.add_host_names(bed.file(HOST_NAMES), names)
        for name in names:
            net.add_etc(bed.namespace(name), bed.file(ETC))
        self._join_switches(devices)
        self._join_hosts(devices)
        if self.fabric:
            self.fabric.add_devices(devices)
        devices.bridge(bed.namespace(MGMT), "br0", self.mgmt_ports, net.MGMT_MTU)
        devices.address(bed.namespace(MGMT), "br0", MANAGER.split(":")[0] + "/16")
        if self.options["daemons"] == "bridge":
            for switch in self.topo["switches"]:
                devices.bridge(bed.namespace(switch["name"]), "br0", switch["ports"], self.mtu)
        devices.make()

    def _super_frames(self, kind):
        """Whether a link from a switch to a switch or to a host of this kind is to carry super-frames."""
        options = self.options
        wanted = options["frames"] == "super" or (options["frames"] == "auto" and not options["wire"])
        return wanted and options["daemons"] == "engine" and not self.fabric and kind in ("switch", "softnic")

    def _join(self, devices, a, b, nodes, kind):
        """Joins two data ports, given as (namespace, device), through fault box and fabric if asked for. kind: of
        the second, "switch" or that of a host."""
        super_frames = self._super_frames(kind)
        if self.options["rate_mbit"]:
            for namespace, device in (a, b):
                devices.queue(namespace, rate.limit(device, self.options["rate_mbit"]))
        if self.options["wire"]:
            number, wire = len(self.wire_links) + 1, self.bed.namespace(WIRE)
            inner = {"a": f"w{number}a", "b": f"w{number}b"}
            self.wire_links.append({"name": "-".join(nodes), **inner, "a_node": nodes[0], "b_node": nodes[1]})
            devices.veth(a, (wire, inner["a"]), self.mtu, super_frames)
            a = (wire, inner["b"])
        if self.fabric:
            a = self.fabric.add_link(devices, a, nodes)
        devices.veth(a, b, self.mtu, super_frames)

    def _join_mgmt(self, devices, node, end):
        self.mgmt_ports.append(f"m-{node}")
        devices.veth(end, (self.bed.namespace(MGMT), f"m-{node}"), net.MGMT_MTU)

    def _join_switches(self, devices):
        for index, switch in enumerate(self.topo["switches"]):
            namespace = self.bed.namespace(switch["name"])
            self._join_mgmt(devices, switch["name"], (namespace, "mgmt0"))
            devices.address(namespace, "mgmt0", f"{switch_mgmt(index)}/16")
        for link in self.topo["links"]:
            a, b = (end.split(":") for end in (link["a"], link["b"]))
            if len(a) == 2 and len(b) == 2 and not (self.memifs and self.memifs.has(*a)):
                self._join(devices, (self.bed.namespace(a[0]), a[1]), (self.bed.namespace(b[0]), b[1]),
                           (a[0], b[0]), "switch")

    def _join_hosts(self, devices):
        for host in self.hosts:
            at = (self.bed.namespace(host["switch"]), host["port"])
            if host["kind"] == "rxe":
                self._join(devices, at, (self.bed.namespace(HOSTS), f"d-{host['name']}"),
                           (host["switch"], host["name"]), host["kind"])
                self._join_mgmt(devices, host["name"], (self.bed.namespace(HOSTS), f"m-{host['name']}"))
                continue
            own = self.bed.namespace(host["name"])
            if "device" not in host:
                self._join(devices, at, (own, "vec0"), (host["switch"], host["name"]), host["kind"])
                devices.address(own, "vec0", host["address"] + "/16", host["mac"])
            self._join_mgmt(devices, host["name"], (own, "vec1"))
            devices.address(own, "vec1", host["mgmt_address"] + "/16")

    def _start_forwarder(self):
        bed, links = self.bed, self.bed.file("wire.json")
        with open(links, "w", encoding="utf-8") as file:
            json.dump(self.wire_links, file, indent=1)
        argv = [sys.executable, "-B", FORWARDER, "--links", links, "--control", bed.file("wire.sock")]
        bed.start("wire", argv, bed.namespace(WIRE))
        deadline = time.monotonic() + FORWARDER_TIMEOUT_S
        while not procs.answers(bed.file("wire.sock")):
            if not procs.alive(bed.record["processes"]["wire"]) or time.monotonic() > deadline:
                raise BedError(f"the forwarder did not start; {self.bed.tail('wire')}")
            time.sleep(0.02)

    # --- guests

    def _start_guests(self):
        bed = self.bed
        paths = {"share": bed.file("share"), "uml": bed.file("uml"),
                 "show": guest.hidden_from_guests([REPO, self.build or self.options["build"]])}
        for number, host in enumerate(self.guests):
            spec = dict(host, number=number, vec0=f"d-{host['name']}", vec1=f"m-{host['name']}")
            guest.start(bed, self.kernel, spec, paths, self.options["guest_mem"], self.mtu, bed.namespace(HOSTS))

    def _wait_for_guests(self, begin):
        waiting = [h["name"] for h in self.guests]
        said = begin
        while True:
            waiting = [name for name in waiting if not self._ready(name)]
            now = time.monotonic()
            if not waiting:
                say(f"{len(self.guests)} guests ready after {now - begin:.1f} s")
                return
            for name in waiting:
                if not procs.alive(self.bed.record["processes"][name]):
                    raise BedError(self._guest_ended(name))
            if now > begin + GUEST_TIMEOUT_S:
                raise BedError(f"guests not ready after {GUEST_TIMEOUT_S} s: {', '.join(waiting)}; "
                               f"{self.bed.tail(waiting[0])}")
            if now > said + 5:
                said = now
                say(f"waiting for guests {', '.join(waiting)} to boot ({now - begin:.0f} s)")
            time.sleep(0.05)

    def _guest_ended(self, name):
        with open(self.bed.log(name), encoding="utf-8", errors="replace") as file:
            reason = guest_death.reason(file.read())
        if reason:
            return f"guest {name} ended while booting: {reason}"
        return f"guest {name} ended while booting; {self.bed.tail(name)}"

    def _ready(self, name):
        with open(self.bed.log(name), "rb") as file:
            return b"\nREADY " in b"\n" + file.read()
