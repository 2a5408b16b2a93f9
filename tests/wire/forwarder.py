#!/usr/bin/python3
"""The fault box: forwards every frame between the two devices of each link, in order, and does to RoCE frames
what a test asks for: loses, repeats, reorders, delays or corrupts them.

Usage: forwarder.py --links FILE --control SOCKET, inside the namespace that holds the devices. FILE is a JSON
list of {"name": "leaf1-h0", "a": DEVICE, "b": DEVICE, "a_node": "leaf1", "b_node": "h0"}. A client of the
Unix stream socket sends one JSON object a line and gets one back; the commands are those of rules.py. An
answer with the key "error" says what was wrong. Standard output gets a line for each frame that something
happens to. A super-frame is one frame here: lost, repeated, reordered, delayed, damaged or cut as a whole.
"""

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time

import frames
import lines
import rules

_ETH_P_ALL = 3
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SOL_PACKET = 263
_PACKET_VNET_HDR = 15
_PACKET_IGNORE_OUTGOING = 23
_BUFFER_BYTES = 8 << 20
_MAX_FRAME = 65536 + 64
# The kernel puts a header of its own before each frame: whether it is a super-frame, and of segments of what length.
# Here it stands behind the frame, out of the way of what looks at the frame.
_VNET_HEADER = struct.Struct("=BBHHHH")
_VNET_BYTES = _VNET_HEADER.size
_UDP_SEGMENTS = 5
_BATCH = 64


class Port:
    """One end of a link inside the forwarder: a packet socket on its device."""

    def __init__(self, link, device, direction):
        self.link, self.direction, self.peer = link, direction, None
        self.line = lines.Line(cut)  # of the frames that arrive here
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
        self.socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        self.socket.bind((device, _ETH_P_ALL))


class Forwarder:
    """The loop: ports and clients of the control socket under one epoll."""

    def __init__(self, links, control_path):
        self.rules = rules.Rules(tell)
        self.not_sent = 0  # frames that the kernel refused, for want of buffers or because a device was down
        self._holding = set()  # ports whose lines hold frames back
        self._epoll = select.epoll()
        self._handlers = {}
        for link in links:
            a = Port(link["name"], link["a"], f"{link['a_node']}>{link['b_node']}")
            b = Port(link["name"], link["b"], f"{link['b_node']}>{link['a_node']}")
            a.peer, b.peer = b, a
            for port in (a, b):
                self._watch(port.socket, lambda port=port: self._forward(port))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Who finds the socket may connect to it.
        listener.bind(control_path + ".new")
        listener.listen()
        os.rename(control_path + ".new", control_path)
        self._watch(listener, lambda: self._accept(listener))

    def run(self):
        while True:
            for fd, _events in self._epoll.poll(self._release()):
                if fd in self._handlers:
                    self._handlers[fd]()

    def _release(self):
        """Sends held frames whose time has come; returns the seconds until the next one's, or None."""
        deadlines = []
        for port in list(self._holding):
            self._send(port.peer, port.line.due(time.monotonic()))
            deadline = port.line.deadline()
            if deadline is None:
                self._holding.discard(port)
            else:
                deadlines.append(deadline)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _watch(self, sock, handler):
        self._handlers[sock.fileno()] = handler
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _forward(self, port):
        for _ in range(_BATCH):  # then the other ports have their turn
            try:
                received = port.socket.recv(_MAX_FRAME)
            except BlockingIOError:
                return
            except OSError:  # the device went down: said once, later frames come when it is up again
                return
            frame = received[_VNET_BYTES:] + received[:_VNET_BYTES]
            roce = frames.parse(frame)
            if roce is not None:
                _, gso_type, _, gso_size, _, _ = _VNET_HEADER.unpack_from(received)
                roce.packets = frames.packets(frame, gso_size if gso_type == _UDP_SEGMENTS else 0)
            if roce is None:  # it passes, and is none of those that are to overtake a frame
                self._send(port.peer, [frame])
                continue
            fate = self.rules.fate(port.link, port.direction, roce)
            self._send(port.peer, port.line.push(time.monotonic(), frame, fate))
            if fate and (fate.depth or fate.delay_s):
                self._holding.add(port)

    def _send(self, port, batch):
        for frame in batch:
            try:
                port.socket.send(frame[-_VNET_BYTES:] + frame[:-_VNET_BYTES])
            except OSError:
                self.not_sent += 1

    def _accept(self, listener):
        client = listener.accept()[0]
        pending = bytearray()
        self._watch(client, lambda: self._serve(client, pending))

    def _serve(self, client, pending):
        try:
            data = client.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._epoll.unregister(client.fileno())
            del self._handlers[client.fileno()]
            client.close()
            return
        pending += data
        while b"\n" in pending:
            line, _, rest = bytes(pending).partition(b"\n")
            pending[:] = rest
            with contextlib.suppress(ConnectionError):  # the next recv says that it is gone
                client.sendall(json.dumps(self._answer(line)).encode() + b"\n")

    def _answer(self, line):
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise rules.RuleError(f"a request is an object, not {request!r}")
            return {**self.rules.handle(request), "not_sent": self.not_sent}
        except (ValueError, rules.RuleError) as error:
            return {"error": str(error)}


def cut(frame, keep):
    """A frame cut short, with what the kernel says of it behind it."""
    return frames.cut(frame[:-_VNET_BYTES], keep) + frame[-_VNET_BYTES:]


def tell(entry):
    """One line about a frame that something happens to."""
    print(f"{entry['time']:.6f} {entry['direction']} {entry['opcode']} QPN {entry['qpn']:#x} "
          f"PSN {entry['psn']} invocation {entry['invocation']} frame {entry['number']}"
          f"{' of ' + str(entry['packets']) + ' packets' if entry['packets'] > 1 else ''}: {entry['fate']}",
          flush=True)


def keep_the_order():
    """Stays on one processor: what a process sends to a veth pair waits in a queue of the processor that it runs on, so
    that the kernel reorders its frames when it moves."""
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[os.getpid() % len(processors)]})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", required=True, metavar="FILE")
    parser.add_argument("--control", required=True, metavar="SOCKET")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    keep_the_order()
    with open(args.links, encoding="utf-8") as file:
        links = json.load(file)
    try:
        forwarder = Forwarder(links, args.control)
    except OSError as error:
        sys.exit(f"forwarder: {error}; it needs root, and the devices of {args.links} in its namespace")
    try:
        forwarder.run()
    finally:
        os.unlink(args.control)


if __name__ == "__main__":
    main()
