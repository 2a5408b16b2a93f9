"""reflector.py INTERFACE: sends every multicast frame that arrives back to where it came from, as some networks do."""

import socket
import sys

PACKET_OUTGOING = 4
ETH_P_ALL = 3

with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as port:
    port.bind((sys.argv[1], ETH_P_ALL))
    print("ready", flush=True)
    while True:
        frame, address = port.recvfrom(65536)
        if address[2] != PACKET_OUTGOING and frame[0] & 1 and frame[:6] != b"\xff" * 6:
            port.send(frame)
            print("reflected", flush=True)
