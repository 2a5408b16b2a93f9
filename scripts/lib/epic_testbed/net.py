"""Namespaces, veth pairs and bridges of a test bed, made with few calls of `ip -batch` and `tc -batch`."""

import contextlib
import ctypes
import errno
import os
import socket
import subprocess

from . import procs

MGMT_MTU = 1500
TIMEOUT_S = 60  # of one command, which takes some milliseconds
ETC = "/etc/netns"  # iproute2's
_CLONE_NEWNET, _CLONE_NEWUTS = 0x40000000, 0x04000000
_MS_BIND = 4096
_LIBC = ctypes.CDLL(None, use_errno=True)

# The offloads of a link's end: checksums are in the packets, which nobody merges or cuts.
PLAIN = "tx off tso off gso off gro off"
# Of a veth that sends super-frames: segmentation of UDP by who receives them, which goes with leaving checksums to him; that
# of TCP as little as elsewhere.
SUPER_FRAMES = "tso off gso off gro off tx on tx-udp-segmentation on"


class NetError(Exception):
    """A command of iproute2 or ethtool failed; the message is its own."""


@contextlib.contextmanager
def inside(namespace):
    """The calling thread is in the namespace for as long; a socket stays in the one that it was made in."""
    with open("/proc/thread-self/ns/net", "rb") as own:
        try:
            with open(f"/run/netns/{namespace}", "rb") as there:
                if _LIBC.setns(there.fileno(), _CLONE_NEWNET) != 0:
                    raise NetError(f"cannot enter namespace {namespace}: {os.strerror(ctypes.get_errno())}")
        except FileNotFoundError as error:
            raise NetError(f"there is no namespace {namespace}") from error
        try:
            yield
        finally:
            _LIBC.setns(own.fileno(), _CLONE_NEWNET)


def add_host_names(folder, names):
    """Makes a UTS namespace with each host name, kept by a mount on the file of that name in the folder, as iproute2 keeps
    networks in /run/netns."""
    with procs.uninterrupted(), open("/proc/thread-self/ns/uts", "rb") as own:
        try:
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "wb"):
                    pass
                _succeed(_LIBC.unshare(_CLONE_NEWUTS), "a namespace for a host's name")
                socket.sethostname(name)
                _succeed(_LIBC.mount(b"/proc/thread-self/ns/uts", os.fsencode(path), None, ctypes.c_ulong(_MS_BIND), None), path)
        finally:
            _LIBC.setns(own.fileno(), _CLONE_NEWUTS)


def delete_host_names(folder):
    """Undoes add_host_names, also of what was begun."""
    if os.path.isdir(folder):
        for name in os.listdir(folder):
            if _LIBC.umount2(os.fsencode(os.path.join(folder, name)), 0) != 0 and ctypes.get_errno() != errno.EINVAL:  # not mounted
                _succeed(-1, os.path.join(folder, name))


def _succeed(result, what):
    if result != 0:
        raise NetError(f"{what}: {os.strerror(ctypes.get_errno())}")


def add_etc(namespace, folder):
    """What `ip netns exec` runs in the namespace finds the folder's files in /etc."""
    while True:
        os.makedirs(ETC, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the last of another bed has just gone, and ETC with it
            os.symlink(folder, os.path.join(ETC, namespace))
            return


def delete_etc(prefix):
    """Undoes add_etc for all namespaces whose names start with prefix."""
    with contextlib.suppress(FileNotFoundError):
        for namespace in os.listdir(ETC):
            if namespace.startswith(prefix) and os.path.islink(os.path.join(ETC, namespace)):
                os.unlink(os.path.join(ETC, namespace))
        with contextlib.suppress(OSError):
            os.rmdir(ETC)  # only if it is empty


def set_offloads(prefix, offloads):
    """Sets them, as ethtool takes them, on every device but bridges in the namespaces whose names begin so."""
    script = ("for d in /sys/class/net/*; do d=${d##*/}; case $d in lo|br*) continue;; esac; "
              f"ethtool -K $d {offloads} || exit 1; done")
    for namespace in namespaces(prefix):
        run(["ip", "netns", "exec", namespace, "sh", "-c", script])


def run(argv, check=True, text=None):
    """Runs a command and returns its output; raises NetError with what it said."""
    with procs.uninterrupted():
        try:
            done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise NetError(f"{' '.join(argv)}: not done after {TIMEOUT_S} s") from error
    if check and done.returncode != 0:
        raise NetError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def batch(lines, namespace=None, program="ip"):
    """Runs lines of iproute2's ip or tc in one process, in a namespace or here."""
    if lines:
        where = ["-n", namespace] if namespace else []
        run([program] + where + ["-batch", "-"], text="\n".join(lines) + "\n")


def namespaces(prefix):
    """Namespaces whose names start with prefix."""
    try:
        return sorted(n for n in os.listdir("/run/netns") if n.startswith(prefix))
    except FileNotFoundError:
        return []


def pids_in(prefix):
    """Pids of all processes in the namespaces whose names start with prefix."""
    own, found = set(), []
    for namespace in namespaces(prefix):
        with contextlib.suppress(OSError):
            own.add(_identity(f"/run/netns/{namespace}"))
    for entry in os.listdir("/proc") if own else ():
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                if _identity(f"/proc/{entry}/ns/net") in own:
                    found.append(int(entry))
    return [pid for pid in found if pid != os.getpid()]


def _identity(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino


def add_namespace(namespace):
    """As add_namespaces, of one."""
    add_namespaces([namespace])


def add_namespaces(names):
    """Makes namespaces whose kernel neither routes nor speaks IPv6, with ARP for a port's own address."""
    batch([f"netns add {name}" for name in names])
    settings = {"ipv6/conf/all/disable_ipv6": 1, "ipv6/conf/default/disable_ipv6": 1, "ipv4/ip_forward": 0, "ipv4/conf/all/arp_ignore": 1}
    for name in names:
        with inside(name):
            for setting, value in settings.items():
                with open(f"/proc/sys/net/{setting}", "w", encoding="ascii") as file:
                    file.write(str(value))
        batch(["link set lo up"], name)


def allow_routing(namespace):
    """Makes a namespace's kernel route IPv4 as its rules say, wherever a packet comes from."""
    settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
    run(["nsenter", f"--net=/run/netns/{namespace}", "--", "sysctl", "-qw"] + settings)


def delete_namespaces(prefix):
    """Deletes the namespaces, and with them every device in them."""
    batch([f"netns del {namespace}" for namespace in namespaces(prefix)])


class Devices:
    """Collects veth pairs and bridges and makes them all with few calls: a fat tree has 48 links."""

    def __init__(self):
        self._veths = []
        self._super_frames = set()
        self._queues = {}
        self._lines = {}
        self._names = {}

    def veth(self, a, b, mtu, super_frames=False):
        """Joins two namespaces by a veth pair; a and b are (namespace, device name). super_frames: both ends send
        them in one piece, and leave checksums to who receives."""
        if super_frames:
            self._super_frames.update((a, b))
        self._veths.append(f"link add {a[1]} mtu {mtu} netns {a[0]} type veth "
                           f"peer name {b[1]} mtu {mtu} netns {b[0]}")
        for namespace, name in (a, b):
            self._add(namespace, name, [f"link set {name} up"])

    def queue(self, namespace, line):
        """A line of `tc` for a device that was added before."""
        self._queues.setdefault(namespace, []).append(line)

    def bridge(self, namespace, name, ports, mtu):
        """A bridge of the namespace's ports, which must have been added before."""
        # No multicast snooping: without a querier it would drop groups that nobody has joined by IGMP.
        self._add(namespace, name, [f"link add {name} mtu {mtu} type bridge mcast_snooping 0"] +
                  [f"link set {port} master {name}" for port in ports] + [f"link set {name} up"])

    def address(self, namespace, name, address, mac=None):
        """Gives a device an address, and a MAC if one is stated."""
        self._lines[namespace] += [f"link set {name} address {mac}"] if mac else []
        self._lines[namespace].append(f"addr add {address} dev {name}")

    def route(self, namespace, at, out, neighbour, table):
        """Sends what comes in at a port, (device, its MAC), on to a neighbour, {address, mac}, at another, by a
        table of its own."""
        port, mac = at
        self._add(namespace, None, [
            f"link set {port} address {mac}",
            f"route add {neighbour['address']}/32 dev {out} table {table}",
            f"neigh add {neighbour['address']} lladdr {neighbour['mac']} nud permanent dev {out}",
            f"rule add iif {port} lookup {table}"])

    def make(self):
        """Makes everything, with offloads off: checksums must be in the packets, which must not be merged; but where
        super-frames are wanted, what they need is on."""
        batch(self._veths)
        # Before any device is up: a queue that takes the place of another under traffic loses what is sent meanwhile.
        for namespace, lines in self._queues.items():
            batch(lines, namespace, "tc")
        for namespace, lines in self._lines.items():
            batch(lines, namespace)
            wanted = [n for n in self._names[namespace] if (namespace, n) in self._super_frames]
            others = [n for n in self._names[namespace] if n not in wanted]
            script = "set -e; "
            script += f"for n in {' '.join(others)}; do ethtool -K $n {PLAIN}; done; "
            script += f"for n in {' '.join(wanted)}; do ethtool -K $n {SUPER_FRAMES}; ethtool -k $n; done"
            with inside(namespace):
                said = run(["sh", "-c", script])
            if said.count("tx-udp-segmentation: on") != len(wanted):
                raise NetError(f"{namespace}: {', '.join(wanted)} would not send super-frames in one piece: "
                               f"ethtool -K DEVICE {SUPER_FRAMES} was not obeyed; "
                               "bring the test bed up with --single-frames")

    def _add(self, namespace, name, lines):
        if name:
            self._names.setdefault(namespace, []).append(name)
        self._lines.setdefault(namespace, []).extend(lines)
