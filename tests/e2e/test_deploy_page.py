"""docs/DEPLOY.md, "One switch and two hosts": what is printed there is typed here, in its order, on four machines that are namespaces.
Nothing of the test bed takes part."""

import pathlib
import re
import subprocess
import time

import pytest

import harness

SECTION = "\n## One switch and two hosts\n"
PAGE = (harness.ROOT / "docs" / "DEPLOY.md").read_text(encoding="utf-8")
# All of its blocks; one that is added has no name here, and nothing runs before it has. What BUILD builds is there already.
(BUILD, INSTALL, TOPOLOGY, MANAGER, SWITCH, ASK, HOST, CALL) = re.findall(
    r"^```\w+\n(.*?)^```$", PAGE.partition(SECTION)[2].partition("\n## ")[0], re.M | re.S)
DAEMON = re.compile(r"/opt/epic/bin/(incengine|incagent|inchost|incmanager serve) ")
MANAGEMENT = {"m": "192.0.2.1", "leaf1": "192.0.2.11", "a": "192.0.2.21", "b": "192.0.2.22"}
# The ports of the data network: which machines they join.
DATA = (("leaf1", "swp1", "a", "eth1"), ("leaf1", "swp2", "b", "eth1"))


class Machine:
    """A host name, a network, /run, /opt and processes of its own; all of it ends with its first process, which ends with ours."""

    def __init__(self, name, folder, opt):
        self.name, self.folder = name, folder
        setup = (f"hostname {name}; ip link set lo up; mount -t tmpfs none /run; mount -t tmpfs none /opt; mkdir /opt/epic; "
                 f"mount --bind {opt} /opt/epic; echo ready; exec cat")
        self._first = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                                        "sh", "-ec", setup], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._first.stdout.readline() == "ready\n"
        children = pathlib.Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        self.pid = int(children.read_text(encoding="utf-8"))

    def start(self, command):
        """Starts a line of the page; its output is to be read."""
        return subprocess.Popen(["nsenter", "-t", str(self.pid), "--net", "--uts", "--mount", "--pid", "--", "bash", "-euo", "pipefail",
                                 "-c", f"cd {self.folder}; {command}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run(self, command, check=True):
        """Runs it to its end; its output."""
        process = self.start(command)
        output = process.communicate(timeout=harness.END_S)[0]
        assert not check or process.returncode == 0, f"{self.name}: {command}\n{output}"
        return output

    def type(self, block, into):
        """Types each line: daemons, noted in `into`, stay in the foreground, and so have a terminal each."""
        for line in block.splitlines():
            if DAEMON.match(line):
                into.append(self.start(line))
            else:
                self.run(line)

    def end(self):
        self._first.stdin.close()
        self._first.wait(timeout=harness.END_S)
        self._first.stdout.close()


def join(machines):
    """Cables: the management network, which is a bridge in m, and the data network."""
    macs = dict(re.findall(r'name: (\w), .*mac: "([\d:]+)"', TOPOLOGY))
    ends = [("m", f"to-{name}", name, "eth0") for name in machines if name != "m"]
    harness.net.batch([f"link add {port} netns {machines[name].pid} type veth peer name {other_port} netns {machines[other].pid}"
                       for name, port, other, other_port in (*ends, *DATA)])
    machines["m"].run("ip link add eth0 type bridge; for name in leaf1 a b; do ip link set to-$name master eth0 up; done")
    for name, machine in machines.items():
        machine.run(f"ip link set eth0 up; ip addr add {MANAGEMENT[name]}/24 dev eth0")
    for name, mac in macs.items():
        machines[name].run(f"ip link set eth1 address {mac}")


@pytest.fixture(name="machines")
def fixture_machines(tmp_path):
    opt = tmp_path / "opt"
    opt.mkdir()
    machines = {}
    try:
        for name in MANAGEMENT:
            machines[name] = Machine(name, tmp_path, opt)
        yield machines
    finally:
        for machine in machines.values():
            machine.end()


def test_the_page_leads_to_an_allreduce_by_the_switch(machines, tmp_path):
    m, leaf1 = machines["m"], machines["leaf1"]
    join(machines)
    m.run(f"cd {harness.ROOT}\n{INSTALL}".replace("build/release", str(harness.BUILD)))
    (tmp_path / "topology.yaml").write_text(TOPOLOGY, encoding="utf-8")
    daemons = []
    m.type(MANAGER, daemons)
    leaf1.type(SWITCH, daemons)
    deadline = time.monotonic() + harness.SOON_S
    while not re.search(r"^leaf1 +up ", shown := m.run(ASK, check=False), re.M):
        assert time.monotonic() < deadline and not any(daemon.poll() for daemon in daemons), shown
        time.sleep(0.1)
    assert leaf1.run("stat -c %a /run/epic /run/epic/leaf1.sock") == "755\n660\n"
    machines["a"].type(HOST, daemons)
    machines["b"].type(HOST.replace("10.10.0.1/16", "10.10.0.2/16"), daemons)
    ranks = [machines["a"].start(CALL), machines["b"].start(CALL.replace("--rank 0", "--rank 1"))]
    outputs = [rank.communicate(timeout=harness.END_S)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert re.search(r"^# Out of bounds values : 0 OK", outputs[0], re.M), outputs[0]
    counters = m.run("/opt/epic/bin/incmanager tables leaf1 --json --manager 192.0.2.1")
    assert re.search(r'"aggregated_packets",\s*"value": "?[1-9]', counters), counters


def test_what_the_page_builds_is_what_it_starts():
    """And what the installed programs are is told beside."""
    for target in re.findall(r"/opt/epic/bin/(inc\w+)", MANAGER + SWITCH + ASK):
        assert re.search(rf"\b{target}\b", BUILD) and f"`bin/{target}`" in PAGE
