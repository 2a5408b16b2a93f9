"""Brings a test bed up, step by step; the caller removes it if a step fails."""

import json
import os
import subprocess
import time

from . import guest, net, procs, topology
from .bed import MANAGER, MGMT, Bed, BedError, numbered, say, switch_mgmt

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
GUEST_TIMEOUT_S = 60
AGENT_TIMEOUT_S = 30
DAEMONS = ("incengine", "incagent", "incmanager")


def find_build(build):
    """The build directory that holds the three daemons."""
    candidates = [build] if build else [os.path.join(REPO, "build", kind) for kind in ("release", "dev")]
    for candidate in candidates:
        if all(os.access(os.path.join(candidate, d, d), os.X_OK) for d in DAEMONS):
            return os.path.realpath(candidate)
    raise BedError(f"no {', '.join(DAEMONS)} in {' or '.join(candidates)}: build them (cmake --preset release && "
                   "cmake --build build/release), or say --build DIR, or --no-daemons, or --bridge")


def find_kernel():
    """The guests' kernel, built now if it is not there."""
    command = os.path.join(REPO, "scripts", "guest-kernel")
    done = subprocess.run([command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BedError("the guest kernel could not be built (see above)")
    return done.stdout.strip().splitlines()[-1]


class BringUp:
    """One run of `testbed up`. Options: hosts (rxe, none), daemons (engine, bridge, none), build, guest_mem."""

    def __init__(self, bed: Bed, topo, options):
        self.bed = bed
        self.topo = topo
        self.options = options
        self.mtu = topology.device_mtu(topo["path_mtu"])
        self.hosts = numbered(topo)
        self.build = find_build(options["build"]) if options["daemons"] == "engine" else None
        self.kernel = find_kernel() if options["hosts"] == "rxe" else None
        if options["daemons"] == "bridge" and topology.has_redundant_paths(topo):
            raise BedError(f"{topo['name']} has redundant paths: plain bridges would loop")

    def run(self):
        begin = time.monotonic()
        self._write_files()
        self._make_network()
        say(f"{self._count()} joined in {time.monotonic() - begin:.1f} s")
        # Guests take the longest, so they boot while the daemons start.
        if self.kernel:
            self._start_guests()
        if self.build:
            self._start_daemons()
        if self.kernel:
            self._wait_for_guests(time.monotonic())
        if self.build:
            self._wait_for_agents(time.monotonic())
        self.bed.record["phase"] = "up"
        self.bed.save()
        say(f"{self.topo['name']} is up after {time.monotonic() - begin:.1f} s")

    def _count(self):
        return f"{len(self.topo['switches'])} switches, {len(self.hosts)} hosts, {len(self.topo['links'])} links"

    def _write_files(self):
        bed = self.bed
        for directory in ("logs", "share", "uml"):
            os.makedirs(bed.file(directory))
        bed.record = {"phase": "starting", "topology": self.topo["name"], "options": self.options, "build": self.build,
                      "hosts": self.hosts, "processes": {}}
        bed.save()
        with open(bed.file("topology.yaml"), "w", encoding="utf-8") as file:
            file.write(topology.dump(self.topo))
        with open(bed.file("share", "hosts"), "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{h['address']} {h['name']}\n" for h in self.hosts) +
                       f"{MANAGER.split(':')[0]} {MGMT}\n")

    def _make_network(self):
        bed, devices, mgmt = self.bed, net.Devices(), self.bed.namespace(MGMT)
        plain_hosts = [] if self.kernel else [h["name"] for h in self.hosts]
        for node in [MGMT] + [s["name"] for s in self.topo["switches"]] + plain_hosts:
            net.add_namespace(bed.namespace(node))
        mgmt_ports = []

        def join_mgmt(node, namespace, port):
            mgmt_ports.append(f"m-{node}")
            devices.veth((namespace, port), (mgmt, f"m-{node}"), 1500)

        for index, switch in enumerate(self.topo["switches"]):
            namespace = bed.namespace(switch["name"])
            join_mgmt(switch["name"], namespace, "mgmt0")
            devices.address(namespace, "mgmt0", f"{switch_mgmt(index)}/16")
        for link in self.topo["links"]:
            a, b = (end.split(":") for end in (link["a"], link["b"]))
            if len(a) == 2 and len(b) == 2:
                devices.veth((bed.namespace(a[0]), a[1]), (bed.namespace(b[0]), b[1]), self.mtu)
        for host in self.hosts:
            at = (bed.namespace(host["switch"]), host["port"])
            if self.kernel:
                # A guest lives in its switch's namespace: its data port is the other side of the switch's tap.
                devices.tap(*at, self.mtu)
                join_mgmt(host["name"], at[0], f"m-{host['name']}")
                continue
            own = bed.namespace(host["name"])
            devices.veth(at, (own, "vec0"), self.mtu)
            devices.address(own, "vec0", host["address"] + "/16", host["mac"])
            join_mgmt(host["name"], own, "vec1")
            devices.address(own, "vec1", host["mgmt_address"] + "/16")
        devices.bridge(mgmt, "br0", mgmt_ports, 1500)
        devices.address(mgmt, "br0", MANAGER.split(":")[0] + "/16")
        if self.options["daemons"] == "bridge":
            for switch in self.topo["switches"]:
                devices.bridge(bed.namespace(switch["name"]), "br0", switch["ports"], self.mtu)
        devices.make()

    # --- guests

    def _start_guests(self):
        bed = self.bed
        paths = {"share": bed.file("share"), "uml": bed.file("uml"),
                 "show": guest.hidden_from_guests([REPO, self.build or self.options["build"]])}
        for host in self.hosts:
            spec = dict(host, tap=host["port"], mgmt_port=f"m-{host['name']}")
            bed.add_process(host["name"], guest.start(self.kernel, spec, paths, self.options["guest_mem"], self.mtu,
                                                      bed.log(host["name"]), bed.namespace(host["switch"])))

    def _wait_for_guests(self, begin):
        waiting = [h["name"] for h in self.hosts]
        said = begin
        while True:
            waiting = [name for name in waiting if not self._ready(name)]
            now = time.monotonic()
            if not waiting:
                say(f"{len(self.hosts)} guests ready after {now - begin:.1f} s")
                return
            for name in waiting:
                if not procs.alive(self.bed.record["processes"][name]):
                    raise BedError(f"guest {name} ended while booting; {self._tail(name)}")
            if now > begin + GUEST_TIMEOUT_S:
                raise BedError(f"guests not ready after {GUEST_TIMEOUT_S} s: {', '.join(waiting)}; {self._tail(waiting[0])}")
            if now > said + 5:
                said = now
                say(f"waiting for guests {', '.join(waiting)} to boot ({now - begin:.0f} s)")
            time.sleep(0.05)

    def _ready(self, name):
        with open(self.bed.log(name), "rb") as file:
            return b"\nREADY " in b"\n" + file.read()

    def _tail(self, name, lines=15):
        with open(self.bed.log(name), encoding="utf-8", errors="replace") as file:
            text = file.read().splitlines()[-lines:]
        return f"the end of its log {self.bed.log(name)}:\n" + "\n".join(f"  {line}" for line in text)

    # --- daemons

    def _start(self, name, node, program, arguments):
        argv = [os.path.join(self.build, program, program)] + arguments
        self.bed.add_process(name, procs.spawn(argv, self.bed.log(name), self.bed.namespace(node)))

    def _start_daemons(self):
        bed, sram = self.bed, self.options["sram"]
        self._start("manager", MGMT, "incmanager",
                    ["serve", "--topology", bed.file("topology.yaml"), "--listen", MANAGER] + self.options["manager_args"])
        for index, switch in enumerate(self.topo["switches"]):
            name, control = switch["name"], bed.file(switch["name"] + ".sock")
            ports = [argument for port in switch["ports"] for argument in ("--port", port)]
            self._start(f"{name}.engine", name, "incengine",
                        ["--name", name, "--address", switch["address"], "--mac", switch["mac"]] + ports +
                        ["--sram", sram, "--forwarding", "static", "--control", control])
            self._start(f"{name}.agent", name, "incagent",
                        ["--name", name, "--engine", control, "--manager", MANAGER,
                         "--listen", f"{switch_mgmt(index)}:7401"])

    def _wait_for_agents(self, begin):
        said, problem = begin, "the manager does not answer"
        daemons = [n for n in self.bed.record["processes"] if self.bed.host(n) is None]
        while True:
            states = self._switch_states()
            down = [n for n in self.bed.switch_names() if states is None or states.get(n) != "up"]
            now = time.monotonic()
            if not down:
                say(f"{len(states)} switches registered after {now - begin:.1f} s")
                return
            if states is not None:
                problem = "switches not up: " + ", ".join(f"{n} ({states.get(n, 'unknown')})" for n in down)
            for name in daemons:
                if not procs.alive(self.bed.record["processes"][name]):
                    raise BedError(f"{name} ended; {self._tail(name)}")
            if now > begin + AGENT_TIMEOUT_S:
                culprit = "manager" if states is None else f"{down[0]}.agent"
                raise BedError(f"after {AGENT_TIMEOUT_S} s {problem}; {self._tail(culprit)}")
            if now > said + 5:
                said = now
                say(f"waiting: {problem} ({now - begin:.0f} s)")
            time.sleep(0.2)

    def _switch_states(self):
        """{switch: state} as the manager tells it, or None if it does not answer."""
        argv = ["nsenter", f"--net=/run/netns/{self.bed.namespace(MGMT)}", "--",
                os.path.join(self.build, "incmanager", "incmanager"), "switches", "--json", "--manager", MANAGER]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
            listed = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            return None
        return {s.get("name"): s.get("state") for s in listed.get("switches", [])}
