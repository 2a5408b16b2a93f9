"""Two namespaces with a veth pair between them, or the fault box in the middle, and verbs programs on softnic there."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "tests" / "wire")]

# pylint: disable=wrong-import-position
from epic_testbed import net, procs  # noqa: E402
from wire_client import Wire  # noqa: E402

BUILD = pathlib.Path(os.environ.get("EPIC_BUILD", ROOT / "build" / "release")).resolve()
EPIC_RUN = ROOT / "scripts" / "epic-run"
MTU = 4200
DEVICE = "softnic_eth0"


class Program:
    """A process whose output goes to a file; it ends at the latest with its Pair."""

    def __init__(self, argv, directory, env=None):
        self._file = tempfile.NamedTemporaryFile(dir=directory, delete=False)  # pylint: disable=consider-using-with
        self.argv = [str(a) for a in argv]
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=self._file,
                                        stderr=subprocess.STDOUT, env=env or dict(os.environ, EPIC_BUILD=str(BUILD)))

    @property
    def pid(self):
        return self.process.pid

    @property
    def output(self):
        return pathlib.Path(self._file.name).read_text(encoding="utf-8", errors="replace")

    def write(self, text):
        """Writes to the program's standard input."""
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def wait_for(self, condition, what, timeout_s=20):
        """Polls condition() until it is true; fails if the program ends before."""
        deadline = time.monotonic() + timeout_s
        while True:
            result = condition()
            if result:
                return result
            ended = self.process.poll() is not None
            assert not ended and time.monotonic() < deadline, f"{self.argv}: no {what}\n{self.output}"
            time.sleep(0.01)

    def wait_for_line(self, pattern, timeout_s=20):
        """The match of the pattern in what the program writes."""
        return self.wait_for(lambda: re.search(pattern, self.output, re.M), f"'{pattern}'", timeout_s)

    def finish(self, timeout_s=60):
        """Waits for the end; the output, if the exit status is 0."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = f"still running after {timeout_s} s"
        assert status == 0, f"{self.argv}: {status}\n{self.output}"
        return self.output

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self._file.close()


class Hosts:
    """Two hosts that run verbs programs; a subclass says where. Programs end at the latest with close()."""

    def __init__(self, address):
        self.address = address  # by the host's name
        self._directory = tempfile.TemporaryDirectory(prefix="softnic-")  # pylint: disable=consider-using-with
        self._programs, self._port = [], 18515

    def start(self, host, *argv):
        """Starts a verbs program."""
        raise NotImplementedError

    def wait_for_listener(self, host, program, port):  # pylint: disable=unused-argument
        """Waits until a program in a namespace of this machine listens on the TCP port."""
        # Local address with its port in hexadecimal, any remote one, state 0A: listening.
        pattern = re.compile(rf"^ *\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:0000 0A", re.M)
        tables = [pathlib.Path(f"/proc/{program.pid}/net/{name}") for name in ("tcp", "tcp6")]
        program.wait_for(lambda: any(t.exists() and pattern.search(t.read_text(encoding="ascii")) for t in tables),
                         f"listener on port {port}")

    def _begin(self, argv, env=None):
        program = Program(argv, self._directory.name, env)
        self._programs.append(program)
        return program

    def run(self, host, *argv, timeout_s=30):
        """Runs a verbs program to its end; its output."""
        return self.start(host, *argv).finish(timeout_s)

    def start_both(self, *argv, server="b", client="a"):
        """Starts a program as server, and then as its client; (client, server). The port is their own."""
        self._port += 1
        listening = self.start(server, *argv, "-p", self._port)
        self.wait_for_listener(server, listening, self._port)
        return self.start(client, *argv, "-p", self._port, self.address[server]), listening

    def run_both(self, *argv, timeout_s=60, **hosts):
        """As start_both, and waits for both; their outputs. Fails, with those of both, when the first has: the other may wait
        for it without end."""
        both = self.start_both(*argv, **hosts)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(program.process.poll() is None for program in both) and \
                not any(program.process.poll() for program in both):
            time.sleep(0.01)
        said = [f"{program.argv}: {program.process.poll()}\n{program.output}" for program in both]
        assert all(program.process.poll() == 0 for program in both), f"not within {timeout_s} s:\n" + "\n".join(said)
        return [program.output for program in both]

    def end_programs(self):
        """Ends what a test left behind."""
        for program in self._programs:
            program.kill()
        self._programs.clear()

    def close(self):
        self.end_programs()
        self._directory.cleanup()


class Pair(Hosts):
    """Hosts "a" and "b", namespaces with the interface eth0."""

    serial = 0

    def __init__(self, lossy=False):
        super().__init__({"a": "10.8.0.1", "b": "10.8.0.2"})
        Pair.serial += 1
        self._prefix = f"softnic{os.getpid()}x{Pair.serial}-"
        self._fault_box = self.wire = None
        try:
            self._make_network(lossy)
        except BaseException:
            self.close()
            raise

    def namespace(self, host):
        return self._prefix + host

    def start(self, host, *argv):
        return self._begin(["ip", "netns", "exec", self.namespace(host), EPIC_RUN, *argv])

    def close(self):
        super().close()
        if self.wire:
            self.wire.close()
        if self._fault_box:
            self._fault_box.kill()
        net.delete_namespaces(self._prefix)

    def _make_network(self, lossy):
        for name in ["a", "b"] + ["mid"] * lossy:
            net.add_namespace(self.namespace(name))
        if lossy:
            self._veth("a", "eth0", "mid", "to-a")
            self._veth("b", "eth0", "mid", "to-b")
            self._start_fault_box()
        else:
            self._veth("a", "eth0", "b", "eth0")
        for host, address in self.address.items():
            net.run(["ip", "-n", self.namespace(host), "addr", "add", f"{address}/24", "dev", "eth0"])

    def _veth(self, host, device, other, other_device):
        net.run(["ip", "link", "add", device, "mtu", str(MTU), "netns", self.namespace(host), "type", "veth",
                 "peer", "name", other_device, "mtu", str(MTU), "netns", self.namespace(other)])
        for node, name in ((host, device), (other, other_device)):
            net.run(["ip", "-n", self.namespace(node), "link", "set", name, "up"])

    def _start_fault_box(self):
        # What the fault box copies must be whole frames with their checksums.
        for host, device in (("a", "eth0"), ("b", "eth0"), ("mid", "to-a"), ("mid", "to-b")):
            net.run(["ip", "netns", "exec", self.namespace(host), "ethtool", "-K", device, "tx", "off", "tso", "off",
                     "gso", "off", "gro", "off"])
        links, control = (os.path.join(self._directory.name, name) for name in ("links.json", "wire.sock"))
        with open(links, "w", encoding="utf-8") as file:
            json.dump([{"name": "a-b", "a": "to-a", "b": "to-b", "a_node": "a", "b_node": "b"}], file)
        self._fault_box = Program(["ip", "netns", "exec", self.namespace("mid"), sys.executable,
                                   ROOT / "tests" / "wire" / "forwarder.py", "--links", links, "--control", control],
                                  self._directory.name)
        self._fault_box.wait_for(lambda: procs.answers(control), "control socket")
        self.wire = Wire(control)


def closed_at_the_end(hosts):
    """For `yield from` in a fixture: gives the hosts to tests, and closes them when those are through."""
    yield hosts
    hosts.close()
