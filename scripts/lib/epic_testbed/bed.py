"""A test bed's names, files and record, and its removal."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
import time

import yaml

from . import net, procs, topology

ROOT = "/run/epic"
MGMT = "mgmt"
HOSTS = "hosts"  # namespace with the outer ends of the guests' ports, and the guests
WIRE = "wire"      # namespace of the fault box (`up --wire`)
FABRIC = "fabric"  # namespace of the switched network in the middle of the links (`up --fabric`)
ETC = "etc"  # folder with what hosts that are no guests have in /etc
HOST_NAMES = "uts"  # folder with a host name's namespace for each host that is no guest
SHELL = "rsh"  # stands in for ssh: [OPTION ...] HOST COMMAND ...
TEMPORARY = "tmp"  # what mpirun keeps: Open MPI has folders by the names of hosts, which other test beds have, too
MANAGER = "10.255.0.1:7400"
_NAME = re.compile(r"^[a-z0-9_]{1,12}$")


class BedError(Exception):
    """Something the user must know or do; the message says what."""


@contextlib.contextmanager
def lock(name):
    """One `up` or `down` of a test bed at a time; those of other beds go on beside it, for what beds share they do not touch.
    Nothing is left behind: who has the lock removes its file, and who has waited for a removed one begins anew."""
    path = os.path.join(ROOT, f".{name}.lock")
    while True:
        os.makedirs(ROOT, exist_ok=True)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue  # the directory has just been removed
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another up or down of test bed '{name}' to end")
            fcntl.flock(fd, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == os.fstat(fd).st_ino:
                break
        os.close(fd)
    try:
        yield
    finally:
        os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(ROOT)  # only if it is empty
        os.close(fd)


def say(message):
    """Progress goes to standard error; standard output is for results."""
    print(f"testbed: {message}", file=sys.stderr, flush=True)


class Bed:
    """One test bed: its names, its files, its record of what runs."""

    def __init__(self, name):
        if not _NAME.match(name):
            raise BedError(f"bad test bed name '{name}': at most 12 of a-z, 0-9 and _")
        self.name = name
        self.run_dir = os.path.join(ROOT, name)
        self.prefix = f"epic-{name}-"
        self.record = None

    # --- names and files

    def namespace(self, node):
        """The namespace of a switch, of `mgmt`, or of a host that is no guest."""
        return self.prefix + node

    def enter(self, node):
        """The beginning of a command that runs on a node that is no guest: in its network; on a host with the host's name, in a
        /etc that knows the other hosts' names, and no name server."""
        name = self.file(HOST_NAMES, node)
        if os.path.exists(name):
            return ["ip", "netns", "exec", self.namespace(node), "nsenter", f"--uts={name}", "--"]
        return ["nsenter", f"--net=/run/netns/{self.namespace(node)}", "--"]

    def file(self, *parts):
        return os.path.join(self.run_dir, *parts)

    def log(self, name):
        return self.file("logs", name + ".log")

    def tail(self, name, lines=15):
        """The end of a log, for messages."""
        with open(self.log(name), encoding="utf-8", errors="replace") as file:
            text = file.read().splitlines()[-lines:]
        return f"the end of its log {self.log(name)}:\n" + "\n".join(f"  {line}" for line in text)

    # --- the record

    def load(self):
        """Reads the record; returns False if there is no test bed of this name."""
        try:
            with open(self.file("record.json"), encoding="utf-8") as file:
                self.record = json.load(file)
        except (FileNotFoundError, ValueError):
            self.record = None
        return self.record is not None

    def save(self):
        new = self.file("record.json.new")
        with open(new, "w", encoding="utf-8") as file:
            json.dump(self.record, file, indent=1)
        os.replace(new, self.file("record.json"))

    def require_up(self):
        if not self.load() or self.record["phase"] != "up":
            raise BedError(f"test bed '{self.name}' is not up: scripts/testbed up TOPOLOGY")

    def topology(self):
        with open(self.file("topology.yaml"), encoding="utf-8") as file:
            return yaml.safe_load(file)

    def leftovers(self):
        """True if anything of this name is there, recorded or not."""
        return os.path.exists(self.run_dir) or bool(net.namespaces(self.prefix))

    def start(self, name, argv, namespace, pass_fds=()):
        """Starts a process, its output in the log of this name, and takes note of it."""
        with procs.uninterrupted():
            self.record["processes"][name] = procs.spawn(argv, self.log(name), namespace, pass_fds)
            self.save()

    # --- nodes

    def switch_names(self):
        return [s["name"] for s in self.topology()["switches"]]

    def host(self, name):
        """The record of a host: {name, address, mac, mgmt_address, switch, port}, or None."""
        return next((h for h in self.record["hosts"] if h["name"] == name), None)

    def environment(self):
        """What programs on switches, hosts and mgmt find in their environment."""
        return {"EPIC_MANAGER": MANAGER, "EPIC_IFNAME": "vec0", "TESTBED_SHARE": self.file("share")}

    def inner_nodes(self):
        """What is in the middle of links and has a namespace: the fault box, the fabric."""
        options = self.record["options"]
        return [WIRE] * options["wire"] + [FABRIC] * (options["fabric"] != "direct")

    # --- the end

    def down(self):
        """Removes every process, namespace, device and file of this name; safe at any moment of `up`."""
        self.load()
        records = list(self.record["processes"].values()) if self.record else []

        def find():
            # Everything in our namespaces is ours, also what a crash kept from being recorded.
            return sorted(set(procs.session_members(records)) | set(net.pids_in(self.prefix)))

        procs.kill_all(find, grace_s=2)
        for attempt in range(20):
            try:
                net.delete_namespaces(self.prefix)
                break
            except net.NetError:
                if attempt == 19:
                    raise
                time.sleep(0.1)
        net.delete_host_names(self.file(HOST_NAMES))
        net.delete_etc(self.prefix)
        shutil.rmtree(self.run_dir, ignore_errors=True)
        if os.path.exists(self.run_dir):
            raise BedError(f"cannot remove {self.run_dir}")


def numbered(topo):
    """Hosts with their switch, port and management address; switches' addresses are in switch_mgmt()."""
    result = []
    for index, host in enumerate(topo["hosts"]):
        switch, port = topology.host_port(topo, host["name"])
        result.append({"name": host["name"], "address": host["address"], "mac": host["mac"],
                       "switch": switch, "port": port, "mgmt_address": f"10.255.2.{index + 1}"})
    return result


HOST_KINDS = ("softnic", "rxe", "none")


def host_kinds(spec, names):
    """What each host is, {name: kind}, from "KIND" or "KIND,HOST=KIND,..."."""
    default, *exceptions = spec.split(",")
    kinds = dict.fromkeys(names, default)
    for item in exceptions:
        name, equals, kind = item.partition("=")
        if not equals or name not in kinds:
            raise BedError(f"--hosts {spec}: '{item}' is not HOST=KIND with one of the hosts {', '.join(names)}")
        kinds[name] = kind
    for kind in kinds.values():
        if kind not in HOST_KINDS:
            raise BedError(f"--hosts {spec}: there is no kind '{kind}'; there are {', '.join(HOST_KINDS)}")
    return kinds


def switch_mgmt(index):
    """Management address of the index-th switch of the file."""
    return f"10.255.1.{index + 1}"
