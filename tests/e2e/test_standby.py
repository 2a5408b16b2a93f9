"""Several managers, of which one leads by etcd: whatever becomes of the leader or of etcd, calls go on, and another manager leads."""

import json
import os
import pathlib
import re
import signal
import time

import pytest

import harness
from harness import assert_all_right

pytestmark = pytest.mark.endings

IP, MACHINES = "10.255.0.1", ("10.255.0.11", "10.255.0.12")  # of the management network's bridge: etcd's, and those of two managers
MANAGERS = ",".join(f"{ip}:7400" for ip in MACHINES)
LONG_S = 3600  # no test's time: of what serves all of them
USABLE_S = 10  # promised: from the leader's end until new groups are made, on a machine that has time for it
FORWARDER = pathlib.Path(__file__).with_name("forwarder.py")
# As Restart=always does it. Each life tells its number.
ALWAYS = 'trap "kill -KILL $p; exit" TERM; while :; do "$@" & p=$!; echo "life $p"; wait $p; sleep 0.2; done'


def signal_lives(programs, signum):
    """Not to what starts it in its namespace: to each program itself, which has told its number, and does so in each life."""
    for program in programs:
        os.kill(int(re.findall(r"^life (\d+)$", program.output, re.MULTILINE)[-1]), signum)


class Etcd:
    """Servers of etcd in the management namespace."""

    def __init__(self, bed, folder, count):
        self.bed, self.folder = bed, folder
        self.peers = [f"http://{IP}:{2480 + i}" for i in range(count)]
        self.clients = [f"{IP}:{2380 + i}" for i in range(count)]
        self.servers = [self.start(i) for i in range(count)]
        for server in self.servers:
            server.wait_for("ready to serve client requests")

    def start(self, i):
        members = ",".join(f"e{n}={peer}" for n, peer in enumerate(self.peers))
        return self.bed.start("mgmt", "sh", "-c", 'echo "life $$"; exec "$@"', "sh", "etcd", "--name", f"e{i}",
                              "--data-dir", self.folder / f"e{i}", "--initial-cluster", members,
                              "--listen-peer-urls", self.peers[i], "--initial-advertise-peer-urls", self.peers[i],
                              "--listen-client-urls", f"http://{self.clients[i]}", "--advertise-client-urls", f"http://{self.clients[i]}",
                              timeout_s=LONG_S)

    def kill(self, i):
        signal_lives([self.servers[i]], signal.SIGKILL)


class Manager:
    """One of several, as a supervisor keeps it, at an address of its own; it reaches etcd by forwarders of its own."""

    def __init__(self, cluster, ip, serve):
        self.cluster, self.ip, self.address = cluster, ip, f"{ip}:7400"
        ways = [f"{IP}:{7000 + 10 * MACHINES.index(ip) + i}" for i in range(len(cluster.etcd.clients))]
        self.ways = [cluster.bed.start("mgmt", "sh", "-c", 'echo "life $$"; exec "$@"', "sh", "python3", FORWARDER, way, client, timeout_s=LONG_S)
                     for way, client in zip(ways, cluster.etcd.clients)]
        for way in self.ways:
            way.wait_for("forwards")
        self.argv = [*serve, "--listen", self.address, "--store", "etcd:" + ",".join(f"http://{way}" for way in ways)]
        self.start()

    def start(self):
        self.cluster.bed.run("mgmt", "ip", "address", "add", f"{self.ip}/16", "dev", "br0")
        self.program = self.cluster.bed.start("mgmt", "sh", "-c", ALWAYS, "sh", *self.argv, timeout_s=LONG_S)
        self.program.wait_for("life")

    @property
    def pid(self):
        return int(re.findall(r"^life (\d+)$", self.program.output, re.MULTILINE)[-1])

    def signal(self, signum):
        signal_lives([self.program], signum)

    def gone(self):
        """Its machine is: nobody is told of anything, and nobody answers at its address."""
        self.cluster.bed.run("mgmt", "ip", "address", "delete", f"{self.ip}/16", "dev", "br0")
        self.program.end()


class Cluster:
    """A bed whose switches know two managers, which share an etcd."""

    def __init__(self, bed, folder, servers):
        self.bed, self.folder = bed, folder
        self.before = {"manager": bed.kill("manager")}
        serve = list(self.before["manager"])
        for option in ("--listen", "--store"):
            del serve[serve.index(option):serve.index(option) + 2]
        self.etcd = Etcd(bed, folder, servers)
        self.managers = [Manager(self, ip, serve) for ip in MACHINES]
        for switch in bed.switches:
            name = f"{switch}.agent"
            argv = self.before[name] = bed.kill(name)
            bed.revive(name, [MANAGERS if word == f"{IP}:7400" else word for word in argv])
        self.daemon = bed.start(bed.hosts[0], harness.BUILD / "inchost" / "inchost", "--manager", MANAGERS, "--socket", folder / "host.sock",
                                timeout_s=LONG_S)
        self.daemon.wait_for("registered at the manager")
        self.wait_for_switches()

    def close(self):
        for name in self.before:
            if name != "manager":
                self.bed.kill(name)
        self.bed.end_programs()
        for ip in MACHINES:
            self.bed.run("mgmt", "ip", "address", "delete", f"{ip}/16", "dev", "br0", check=False)
        for name, argv in self.before.items():
            self.bed.revive(name, argv)
        self.bed.wait_for_manager()

    def ask(self, *args, at=MANAGERS, check=True):
        """What a command prints, as --json if it ends with 0."""
        said = self.bed.run("mgmt", "sh", "-c", '"$@"; echo status $?', "sh", harness.MANAGER, *args, "--manager", at)
        text, _, status = said.rpartition("status ")
        assert not check or int(status) == 0, said
        return int(status), text

    def wait_for_switches(self, at=MANAGERS):
        """Until whoever leads there has all switches: from then on it takes joins."""
        deadline, said = time.monotonic() + harness.SOON_S, ""
        while True:
            status, said = self.ask("switches", "--json", at=at, check=False)
            if status == 0 and {row["name"] for row in json.loads(said)["switches"] if row["state"] == "up"} == set(self.bed.switches):
                return
            assert time.monotonic() < deadline, said
            time.sleep(0.1)

    def leader(self):
        """The manager that leads, and the one that stands by."""
        self.wait_for_switches()
        status, _ = self.ask("switches", at=self.managers[0].address, check=False)
        return (self.managers[0], self.managers[1]) if status == 0 else (self.managers[1], self.managers[0])

    def groups(self):
        """Groups of each way that run calls, until end_groups."""
        groups = {}
        for way, options in {"one": ("--mode", "1"), "two": ("--mode", "2"), "three": ("--mode", "3"), "hosts": ("--path", "hosts")}.items():
            name = groups[self.bed.new_group() + way] = []
            path = () if way == "hosts" else ("--path", "network")
            self.ask("group", "create", list(groups)[-1], "--size", len(self.bed.hosts), *options, *path)
            name += self.loops("--until-signal", "--iterations", 1_000_000, "--counts", "1000,20000", "--pause-ms", 200, group=list(groups)[-1])
        for rank in (rank for ranks in groups.values() for rank in ranks):
            rank.wait_for("joined")
        return groups

    def end_groups(self, groups):
        for name, ranks in groups.items():
            self.bed.end_loops(ranks)
            self.ask("group", "destroy", name)

    def loops(self, *options, group=None):
        """Ranks that know both managers; the first by its host's daemon, which does."""
        group, own = group or self.bed.new_group(), f"unix:{self.folder / 'host.sock'}"
        return [self.bed.loop(rank, "--manager", MANAGERS if rank else own, *options, group=group) for rank in range(len(self.bed.hosts))]

    def usable_after(self, since, at=MANAGERS):
        """Waits until who leads there makes new groups, in the time that is promised. One of them computes."""
        self.wait_for_switches(at)
        took = time.monotonic() - since
        print(f"usable again after {took:.1f} s, with a load of {os.getloadavg()[0]:.0f}")
        assert took < USABLE_S or os.getloadavg()[0] > 2 * os.cpu_count(), took
        assert_all_right(self.loops("--counts", "1000"))


@pytest.fixture(name="cluster", scope="module", params=[1, pytest.param(3, marks=pytest.mark.slow)], ids=["one-etcd", "three-etcds"])
def fixture_cluster(request, all_beds, tmp_path_factory):
    cluster = Cluster(all_beds.get("tree-3-2", *harness.ANY_HOSTS), tmp_path_factory.mktemp("etcd"), request.param)
    yield cluster
    cluster.close()


def test_who_stands_by_says_who_leads(cluster):
    leads, stands_by = cluster.leader()
    status, said = cluster.ask("switches", at=stands_by.address, check=False)
    assert status == 3 and f"no manager leads at {stands_by.address}" in said and f"stands by: {leads.address} (process {leads.pid} on " in said, said
    status, said = cluster.ask("switches", at=f"{IP}:1,{stands_by.address}", check=False)
    assert status == 3 and f"{IP}:1: nothing listens there" in said and f"{stands_by.address}: stands by" in said, said
    alone = cluster.bed.loops("--manager", stands_by.address, "--counts", "1000")
    for error in harness.errors(alone):
        assert error["error"] == "manager lost" and f"stands by: {leads.address}" in error["message"], error
    said = cluster.bed.run("mgmt", harness.MANAGER, "store", "check", "--store", f"etcd:http://{cluster.etcd.clients[0]}")
    assert "is whole: cluster" in said, said
    assert_all_right(cluster.loops("--counts", "1000"))


def test_the_leaders_process_ends(cluster):
    groups = cluster.groups()
    leads, _ = cluster.leader()
    since = time.monotonic()
    leads.signal(signal.SIGKILL)
    cluster.usable_after(since)
    cluster.end_groups(groups)


def test_the_leaders_machine_is_gone(cluster):
    groups = cluster.groups()
    leads, stands_by = cluster.leader()
    since = time.monotonic()
    leads.gone()
    try:
        cluster.usable_after(since, stands_by.address)
    finally:
        leads.start()
    cluster.end_groups(groups)


def test_a_leader_that_is_ended_is_followed_before_its_lease_is_over(cluster):
    groups = cluster.groups()
    leads, _ = cluster.leader()
    since = time.monotonic()
    leads.signal(signal.SIGTERM)
    leads.program.wait_for("manager ends on signal 15")
    cluster.usable_after(since)
    cluster.end_groups(groups)


def test_a_leader_that_wakes_promises_nothing(cluster):
    groups = cluster.groups()
    leads, stands_by = cluster.leader()
    life, since = leads.pid, time.monotonic()
    leads.signal(signal.SIGSTOP)
    try:
        cluster.usable_after(since, stands_by.address)
    finally:
        os.kill(life, signal.SIGCONT)
    leads.program.wait_for("manager ends: its lease at etcd has not been renewed for 4 s: this process stood still")
    leads.program.wait_for(f"stands by: {stands_by.address}")
    cluster.end_groups(groups)


def test_a_leader_that_is_cut_off_from_etcd_ends(cluster):
    groups = cluster.groups()
    leads, stands_by = cluster.leader()
    since = time.monotonic()
    signal_lives(leads.ways, signal.SIGSTOP)
    try:
        cluster.usable_after(since, stands_by.address)
        leads.program.wait_for("manager ends: its lease at etcd has not been renewed for 4 s")
    finally:
        signal_lives(leads.ways, signal.SIGCONT)
    cluster.end_groups(groups)


def test_a_leader_that_no_agent_reaches_gives_way(cluster):
    groups = cluster.groups()
    leads, stands_by = cluster.leader()
    since = time.monotonic()
    for switch in cluster.bed.switches:
        cluster.bed.run(switch, "ip", "route", "add", "blackhole", f"{leads.ip}/32")
    try:
        leads.program.wait_for("manager gives way: no agent has been heard for 6 s")
        cluster.usable_after(since, stands_by.address)
    finally:
        for switch in cluster.bed.switches:
            cluster.bed.run(switch, "ip", "route", "delete", "blackhole", f"{leads.ip}/32")
    cluster.end_groups(groups)


@pytest.mark.slow
def test_without_most_of_etcd_groups_go_on_and_there_are_no_new_ones(cluster):
    groups, servers = cluster.groups(), cluster.etcd.servers
    most = len(servers) // 2 + 1
    for i in range(most - 1):
        cluster.etcd.kill(i)
    assert_all_right(cluster.loops("--counts", "1000"))  # of these nobody misses any
    cluster.wait_for_switches()
    cluster.etcd.kill(most - 1)
    deadline, said = time.monotonic() + harness.SOON_S, ""
    while "nobody is known to lead: " not in said:
        assert time.monotonic() < deadline, said
        said = cluster.ask("switches", check=False)[1]
    daemons, *own = harness.errors(cluster.loops("--counts", "1000"))
    assert daemons["error"] == "manager unreachable" and "none of them answers and leads" in daemons["message"], daemons
    for error in own:
        assert error["error"] == "manager lost" and "nobody is known to lead" in error["message"], error
    since = time.monotonic()
    for i in range(most):
        servers[i] = cluster.etcd.start(i)
    cluster.usable_after(since)
    cluster.end_groups(groups)
