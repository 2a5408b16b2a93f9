"""User-Mode Linux guests: how one is started and how a command runs in it."""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time

from . import net, procs

LIB = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
EXEC_PORT = 7500
EXIT_TIMEOUT = 124       # as timeout(1) has it
EXIT_CANNOT_START = 127  # as a shell has it
SOCKET_BUFFER = 16 << 20
_ETH_P_ALL = 3
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_KILL_AFTER_S = 3


class GuestError(Exception):
    """A guest that cannot be reached."""


@contextlib.contextmanager
def turn_to_boot(kernel):
    """Guests of one test bed boot at a time: those of six together, on two processors, take minutes and not seconds each.
    The lock is the kernel's own file, so that none is left behind."""
    with open(kernel, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def start(bed, kernel, host, paths, mem_mb, mtu, namespace):
    """Starts a guest of the test bed whose ports are the devices host["vec0"] and host["vec1"] of the namespace.

    host: {name, number among the guests, address, mac, mgmt_address, vec0, vec1}; paths: {share, uml, show}.
    """
    # The guest gets packet sockets rather than a tap: a tap offers it TCP segmentation and checksum offload,
    # so that a switch would receive packets of 64 KB with unfinished checksums. And a guest takes 64 packets
    # from a socket with one call, but one from a tap; its own raw transport buffers only 200 KB.
    sockets = [_packet_socket(namespace, host[port]) for port in ("vec0", "vec1")]
    params = {"name": host["name"], "ip": host["address"] + "/16", "mac": host["mac"],
              "mgmt_ip": host["mgmt_address"] + "/16", "mgmt_mac": mgmt_mac(host["mgmt_address"]),
              "share": paths["share"], "show": ",".join(paths["show"]), "lib": LIB, "exec_port": EXEC_PORT}
    argv = [*on_one_processor(host["number"]), kernel, f"mem={mem_mb}M", "root=/dev/root", "rootfstype=hostfs", "hostfs=/", "ro",
            f"init={LIB}/guest-init",
            f"umid={host['name']}", f"uml_dir={paths['uml']}/",
            f"vec0:transport=fd,fd={sockets[0].fileno()},mtu={mtu},depth=64,gro=0",
            f"vec1:transport=fd,fd={sockets[1].fileno()},mtu={net.MGMT_MTU},depth=64,gro=0",
            "con=null", "con0=null,fd:1", "ssl=null", "quiet", "panic=1"]
    argv += [f"epic.{key}={value}" for key, value in params.items()]
    try:
        bed.start(host["name"], argv, namespace, pass_fds=[s.fileno() for s in sockets])
    finally:
        for sock in sockets:
            sock.close()


def on_one_processor(number):
    """The beginning of a command that stays on one processor: guests of a bed, by their numbers, are spread over all.

    A guest's kernel and its programs are processes of this machine of which one waits while another runs, at each call of the
    system and each page that is missing. Between processors that takes half as long again.
    """
    processors = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(processors[(os.getpid() + number) % len(processors)])]


def _packet_socket(namespace, device):
    """A socket that sends and receives whole frames at a device of a namespace."""
    with net.inside(namespace):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setblocking(False)
    # A guest that is not scheduled for 20 ms must not lose packets: several windows of every rank fit.
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, SOCKET_BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SOCKET_BUFFER)
    sock.bind((device, _ETH_P_ALL))
    return sock


def mgmt_mac(address):
    """The management port's MAC, made of its address."""
    return "52:54:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def hidden_from_guests(paths):
    """Those of the paths that a guest does not see by itself, because it has its own /tmp and /run."""
    real = {os.path.realpath(p) for p in paths if p}
    return sorted(p for p in real if p.startswith(("/tmp/", "/run/")))


def connect(namespace, address, timeout_s=5):
    """A TCP connection to a guest's exec server, made inside a namespace."""
    with net.inside(namespace):
        try:
            connection = socket.create_connection((address, EXEC_PORT), timeout=timeout_s)
        except OSError as error:
            raise GuestError(f"the guest at {address} does not answer: {error}") from error
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def execute(connection, argv, env, cwd, timeout_s=None, forward_stdin=False):
    """Runs argv in the guest, its output live on ours; returns the exit status.

    SIGINT and SIGTERM are passed on: the first as it is, the second as SIGTERM, any further as SIGKILL. After
    timeout_s seconds the command gets SIGTERM, three seconds later SIGKILL, and the status is 124.
    """
    def send(kind, payload):
        connection.sendall(struct.pack("!cI", kind, len(payload)) + payload)

    signals = []

    def pass_on(signum, _frame):
        signals.append(signum)
        send(b"S", str((signum, signal.SIGTERM, signal.SIGKILL)[min(len(signals), 3) - 1].numerator).encode())

    # A signal that comes just before select blocks would wait for the guest's next word: it wakes select by a socket.
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    previous_fd = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    previous = {s: signal.signal(s, pass_on) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        send(b"R", json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode())
        if not forward_stdin:
            send(b"I", b"")
        return _transfer(connection, woken, send, timeout_s, forward_stdin)
    except OSError as error:
        raise GuestError(f"the connection to the guest broke: {error}") from error
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(previous_fd)
        wake.close()
        woken.close()


def _transfer(connection, woken, send, timeout_s, forward_stdin):
    """Moves frames and input until the exit status comes."""
    steps = [(timeout_s, signal.SIGTERM), (timeout_s + _KILL_AFTER_S, signal.SIGKILL)] if timeout_s else []
    begin = time.monotonic()
    buffer, timed_out = b"", False
    sources = [connection, woken] + ([sys.stdin.buffer] if forward_stdin else [])
    while True:
        wait = max(0, begin + steps[0][0] - time.monotonic()) if steps else None
        ready = select.select(sources, [], [], wait)[0]
        if steps and time.monotonic() >= begin + steps[0][0]:
            send(b"S", str(int(steps.pop(0)[1])).encode())
            timed_out = True
        if sys.stdin.buffer in ready:
            data = os.read(sys.stdin.fileno(), 65536)
            send(b"I", data)
            if not data:
                sources.remove(sys.stdin.buffer)
        if woken in ready:
            woken.recv(4096)  # Python has called the handler
        if connection not in ready:
            continue
        data = connection.recv(262144)
        if not data:
            raise GuestError("the guest went away")
        buffer += data
        while len(buffer) >= 5:
            kind, length = struct.unpack("!cI", buffer[:5])
            if len(buffer) < 5 + length:
                break
            payload, buffer = buffer[5:5 + length], buffer[5 + length:]
            if kind in (b"O", b"E"):
                stream = sys.stdout.buffer if kind == b"O" else sys.stderr.buffer
                stream.write(payload)
                stream.flush()
            elif kind == b"F":
                print(f"testbed: {payload.decode()}", file=sys.stderr)
                return EXIT_CANNOT_START
            elif kind == b"X":
                status = int(payload)
                return EXIT_TIMEOUT if timed_out else status if status >= 0 else 128 - status

