"""A switch daemon in a namespace of its own, joined by veths to hosts in theirs. Everything goes when it is closed."""

import base64
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
MTU = 4200
SWITCH_IP = "10.9.255.1"
SWITCH_MAC = "02:00:00:00:ff:01"


def program(variable, name):
    """A built program: where the environment says, or in build/release or build/dev."""
    candidates = [os.environ.get(variable)] + [str(REPO / "build" / kind / "incengine" / name)
                                               for kind in ("release", "dev")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise RuntimeError(f"{name} is not built (set {variable}, or build the release or dev preset)")


def run(argv, timeout=30, check=True):
    """Runs a command; returns its CompletedProcess, raises with its output if it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait_until(condition, timeout=30.0, what="condition"):
    """Polls until condition() is true; bounded, by more than a busy machine needs."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(0.02)


def host_ip(number):
    return f"10.9.0.{number + 1}"


def host_mac(number):
    return f"02:00:00:00:00:{number + 1:02x}"


def mac_base64(mac):
    return base64.b64encode(bytes.fromhex(mac.replace(":", ""))).decode()


class SwitchBed:
    """count hosts on the ports p0, p1, ... of one switch; start() runs the daemon."""

    serial = 0

    def __init__(self, count, super_frames=False):
        """super_frames: on all links, so that the ports are packet sockets; else libpcap's."""
        SwitchBed.serial += 1
        self.offloads = ["tso", "off", "gso", "off", "gro", "off", "tx", "on" if super_frames else "off"]
        self.prefix = f"epicn{os.getpid()}x{SwitchBed.serial}-"
        self.count = count
        self.directory = tempfile.TemporaryDirectory(prefix="epic-netns-")
        self.socket = os.path.join(self.directory.name, "control.sock")
        self.log_path = os.path.join(self.directory.name, "log")
        self.process = None
        self.others = []
        try:
            self._make_network()
        except BaseException:
            self.close()
            raise

    def _make_network(self):
        for name in ["sw"] + [f"h{i}" for i in range(self.count)]:
            run(["ip", "netns", "add", self.prefix + name])
            self.inside(name, ["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                               "net.ipv6.conf.default.disable_ipv6=1"])
            self.inside(name, ["ip", "link", "set", "lo", "up"])
        for i in range(self.count):
            run(["ip", "link", "add", "eth0", "mtu", str(MTU), "netns", f"{self.prefix}h{i}", "type", "veth",
                 "peer", "name", f"p{i}", "mtu", str(MTU), "netns", self.prefix + "sw"])
            host = f"h{i}"
            self.inside(host, ["ip", "link", "set", "eth0", "address", host_mac(i)])
            self.inside(host, ["ip", "addr", "add", host_ip(i) + "/16", "dev", "eth0"])
            self.inside(host, ["ip", "link", "set", "eth0", "up"])
            self.inside("sw", ["ip", "link", "set", f"p{i}", "up"])
            for name, device in ((host, "eth0"), ("sw", f"p{i}")):
                self.inside(name, ["ethtool", "-K", device] + self.offloads)

    def inside(self, name, argv, **options):
        """Runs a command in the namespace of sw or hN."""
        return run(["ip", "netns", "exec", self.prefix + name] + argv, **options)

    def inside_in_background(self, name, argv):
        """Starts a command that is ended with the bed."""
        process = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.prefix}{name}", "--"] + argv,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.others.append(process)
        return process

    def daemon_argv(self, arguments=()):
        ports = [a for i in range(self.count) for a in ("--port", f"p{i}")]
        return [program("EPIC_INCENGINE", "incengine"), "--name", "s1", "--address", SWITCH_IP, "--mac", SWITCH_MAC,
                "--control", self.socket] + ports + list(arguments)

    def start(self, *arguments, wrapper=()):
        """Starts the daemon and waits until it answers."""
        with open(self.log_path, "ab") as log:
            # nsenter becomes the daemon, so that the pid is the daemon's.
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.prefix}sw", "--"] + list(wrapper) + self.daemon_argv(arguments),
                stdout=log, stderr=log)
        wait_until(lambda: self.process.poll() is not None or self._answers(), what="the daemon answers")
        assert self.process.poll() is None, self.log()
        return self

    def _answers(self):
        return os.path.exists(self.socket) and \
            run([program("EPIC_SWITCH_CALL", "switch_call"), self.socket, "describe"], check=False).returncode == 0

    def stop(self):
        """Ends the daemon as systemd would; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=10)
        self.process = None
        return code

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def call(self, method, request=None):
        """One RPC; returns the reply as a dict."""
        argv = [program("EPIC_SWITCH_CALL", "switch_call"), self.socket, method, json.dumps(request or {})]
        return json.loads(run(argv).stdout)

    def counters(self):
        return {c["name"]: int(c["value"]) for c in self.call("dump")["counters"]}

    def statistic(self, name, device, counter):
        """What the kernel counts of an interface of sw or hN."""
        return int(self.inside(name, ["cat", f"/sys/class/net/{device}/statistics/{counter}"]).stdout)

    def set_static_table(self, hosts, flood_ports):
        """Entries for some hosts, as a manager would install them."""
        entries = [{"mac": mac_base64(host_mac(i)), "ip": 0x0a090001 + i, "port": f"p{i}"} for i in hosts]
        self.call("set-forwarding", {"table": {"entries": entries, "flood_ports": flood_ports}})

    def ping(self, source, address, *arguments, check=True):
        """True if three pings were answered: with check within 20 s, which a busy machine may need, else each in 1 s."""
        patience = ["-w", "20"] if check else ["-W", "1"]
        argv = ["ping", "-q", "-c", "3", "-i", "0.05", *patience, *arguments, address]
        return self.inside(f"h{source}", argv, check=check).returncode == 0

    def close(self):
        for process in [self.process] + self.others:
            if process is not None and process.poll() is None:
                process.kill()
            if process is not None:
                process.wait()
        for name in ["sw"] + [f"h{i}" for i in range(self.count)]:
            run(["ip", "netns", "del", self.prefix + name], check=False)
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def send_frames(bed, host, frames):
    """Sends raw frames by a host's interface (in a process of its own, inside the namespace)."""
    script = ("import socket, sys\n"
              "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
              "s.bind(('eth0', 0))\n"
              "[s.send(bytes.fromhex(f)) for f in sys.argv[1:]]\n")
    bed.inside(f"h{host}", ["/usr/bin/python3", "-c", script] + [bytes(f).hex() for f in frames])


def roce_frame(host, opcode, payload, dst_qp, good_icrc=True):
    """A RoCEv2 frame to the switch, with an ICRC by scapy's own implementation."""
    from scapy.all import IP, UDP, Ether, Raw  # pylint: disable=import-outside-toplevel
    from scapy.contrib.roce import BTH  # pylint: disable=import-outside-toplevel
    frame = (Ether(src=host_mac(host), dst=SWITCH_MAC) / IP(src=host_ip(host), dst=SWITCH_IP, flags="DF", id=1) /
             UDP(sport=0xc000, dport=4791, chksum=0) / BTH(opcode=opcode, dqpn=dst_qp, psn=1) / Raw(payload))
    octets = bytearray(bytes(frame))
    octets[40:42] = b"\0\0"
    if not good_icrc:
        octets[-1] ^= 1
    return bytes(octets)
