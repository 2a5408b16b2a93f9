#!/usr/bin/python3
"""flood.py KIND ADDRESS SECONDS: what nobody should do to a daemon of ours, at HOST:PORT or unix:PATH.

silent    5,000 connections that say nothing, opened anew when they are closed
half      the same, each with half of what a client says first
garbage   connections that say something else
settings  settings, and pings, as fast as they are taken, on ten connections
streams   calls that are never ended, 2,000 on each of ten connections
resets    calls that are taken back at once
joins     a host's daemon whose ranks join with sizes that are refused, as fast as the manager takes them

Prints "begun" when it has, and at the end how much it has done. HTTP/2 is written by hand: no client does these things.
"""

import itertools
import resource
import selectors
import socket
import struct
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, UPDATE = 0, 1, 3, 4, 6, 8
END_HEADERS, ACK = 4, 1
CONNECTIONS = 5_000


def frame(kind, payload=b"", flags=0, stream=0):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


HELLO = PREFACE + frame(SETTINGS)


def headers(path):
    """A call's, each a literal that nobody is to remember (RFC 7541, 6.2.2)."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "te": "trailers", "content-type": "application/grpc"}
    return b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields.items())


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """Of a message of protobuf: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(content):
    """As gRPC sends it."""
    return b"\0" + struct.pack(">I", len(content)) + content


def connect(address):
    """A socket that is on its way, or None."""
    unix = address.startswith("unix:")
    client = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
    client.setblocking(False)
    host, _, port = address.rpartition(":")
    try:
        client.connect(address[len("unix:"):] if unix else (host, int(port)))
    except BlockingIOError:
        if unix:  # it has no room for more
            client.close()
            return None
    return client


def connected(address):
    """A socket whose other end has taken it."""
    unix = address.startswith("unix:")
    client = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
    host, _, port = address.rpartition(":")
    client.connect(address[len("unix:"):] if unix else (host, int(port)))
    return client


def many(address, until, words):
    """Keeps CONNECTIONS open, each of which has said so much; counts them."""
    poll, opened, there = selectors.DefaultSelector(), 0, 0
    while time.monotonic() < until:
        if there < CONNECTIONS and (client := connect(address)):
            poll.register(client, selectors.EVENT_WRITE if words else selectors.EVENT_READ)
            opened, there = opened + 1, there + 1
        elif there < CONNECTIONS:
            time.sleep(0.001)
        for key, events in poll.select(0 if there < CONNECTIONS else 0.05):
            try:
                if events & selectors.EVENT_WRITE:
                    key.fileobj.send(words)
                    poll.modify(key.fileobj, selectors.EVENT_READ)
                    continue
                if key.fileobj.recv(4096):
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            poll.unregister(key.fileobj)
            key.fileobj.close()
            there -= 1
    return opened


def pushed(address, until, chunks, connections=10):
    """Sends chunks() on each connection as fast as it is taken, and reads what comes back; counts the bytes. A connection
    that is ended is made anew."""
    poll, sent = selectors.DefaultSelector(), 0

    def begin():
        client = connected(address)
        client.setblocking(False)
        poll.register(client, selectors.EVENT_READ | selectors.EVENT_WRITE, data=[HELLO, chunks()])

    for _ in range(connections):
        begin()
    while time.monotonic() < until:
        for key, events in poll.select(0.05):
            try:
                if events & selectors.EVENT_READ and not key.fileobj.recv(1 << 16):
                    raise ConnectionResetError
                if not events & selectors.EVENT_WRITE:
                    continue
                if not key.data[0]:
                    key.data[0] = next(key.data[1], b"")
                    if not key.data[0]:  # all is said
                        poll.modify(key.fileobj, selectors.EVENT_READ, key.data)
                        continue
                done = key.fileobj.send(key.data[0])
                key.data[0], sent = key.data[0][done:], sent + done
            except BlockingIOError:
                continue
            except OSError:
                poll.unregister(key.fileobj)
                key.fileobj.close()
                begin()
    return sent


def settings():
    while True:
        yield frame(SETTINGS) * 500 + frame(PING, bytes(8)) * 500


def streams():
    """Odd numbers are the client's."""
    call = headers("/epic.proto.Manager/Session")
    for number in range(1, 4001, 2):
        yield frame(HEADERS, call, END_HEADERS, number)


def resets():
    call = headers("/epic.proto.Manager/Session")
    for number in range(1, 1 << 30, 2):
        yield frame(HEADERS, call, END_HEADERS, number) + frame(RESET, bytes(4), 0, number)


def joins(address, until):
    """Of a host that calls itself so: each of its ranks joins a group of its own, whose size is none."""
    client = connected(address)
    client.sendall(HELLO + frame(HEADERS, headers("/epic.proto.Manager/HostSession"), END_HEADERS, 1) +
                   frame(DATA, message(field(1, field(1, b"flood"))), 0, 1))
    room, heard, sent = [65_000, 65_000], b"", 0  # of the connection, of the stream
    for number in itertools.count(1):
        if time.monotonic() >= until:
            return sent
        join = field(1, b"flood%d" % number) + field(2, 0) + field(3, 100_000) + field(7, 1)
        said = frame(DATA, message(field(2, field(1, number) + field(2, field(1, join)))), 0, 1)
        closed = frame(DATA, message(field(2, field(1, number))), 0, 1)
        client.setblocking(min(room) < 1000)
        try:
            heard += client.recv(1 << 16)
        except BlockingIOError:
            pass
        while len(heard) >= 9 and len(heard) >= 9 + (length := int.from_bytes(heard[:3], "big")):
            kind, flags, stream, payload = heard[3], heard[4], int.from_bytes(heard[5:9], "big"), heard[9:9 + length]
            heard = heard[9 + length:]
            client.setblocking(True)
            if kind == UPDATE:
                room[stream == 1] += int.from_bytes(payload, "big")
            elif kind == SETTINGS and not flags & ACK:
                client.sendall(frame(SETTINGS, b"", ACK))
            elif kind == PING and not flags & ACK:
                client.sendall(frame(PING, payload, ACK))
            elif kind == DATA and length:
                client.sendall(frame(UPDATE, struct.pack(">I", length)) + frame(UPDATE, struct.pack(">I", length), 0, 1))
        if min(room) < 1000:
            continue
        client.setblocking(True)
        client.sendall(said + closed)
        room = [left - len(said) - len(closed) + 18 for left in room]
        sent += 1


def main():
    kind, address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("begun", flush=True)
    until = time.monotonic() + seconds
    if kind in ("silent", "half", "garbage"):
        print(kind, many(address, until, {"silent": b"", "half": HELLO[:12], "garbage": b"GET / HTTP/1.1\r\n\r\n"}[kind]))
    elif kind == "joins":
        print(kind, joins(address, until))
    else:
        print(kind, pushed(address, until, {"settings": settings, "streams": streams, "resets": resets}[kind]))


if __name__ == "__main__":
    main()
