"""A device's offloads, as `ethtool -K` and `ethtool -k` have them, by the calls of the kernel that these make themselves: a test
bed has some dozens of devices, and each would take a process. All of it is of the network that the calling thread is in."""

import array
import fcntl
import fnmatch
import socket
import struct

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCETHTOOL = 0x8913, 0x8914, 0x8946
_IFF_UP = 1
# ETHTOOL_GSSET_INFO, _GSTRINGS, _GFEATURES and _SFEATURES, of ETH_SS_FEATURES.
_COUNT, _NAMES, _GET, _SET = 0x37, 0x1b, 0x3a, 0x3b
_FEATURES = 4
_NAME_BYTES, _BLOCK_BITS = 32, 32
# ethtool's words for several features; any other is a feature's name.
_WORDS = {"tx": "tx-checksum-*", "tso": "tx-tcp*-segmentation", "gso": "tx-generic-segmentation", "gro": "rx-gro"}

_known = []  # names of features, once they have been asked for


def change(device, words):
    """Sets offloads: "tx off gro on", as for `ethtool -K DEVICE`. As there, what a device has not is left out. OSError: the kernel
    refuses it."""
    names, pairs = _names(device), words.split()
    blocks = [[0, 0] for _ in range(0, len(names), _BLOCK_BITS)]  # which are meant, and how they are to be
    for word, state in zip(pairs[::2], pairs[1::2]):
        for number in [number for number, name in enumerate(names) if fnmatch.fnmatchcase(name, _WORDS.get(word, word))]:
            bit = 1 << number % _BLOCK_BITS
            blocks[number // _BLOCK_BITS][0] |= bit
            blocks[number // _BLOCK_BITS][1] |= bit if state == "on" else 0
    _call(device, struct.pack("=II", _SET, len(blocks)) + b"".join(struct.pack("=II", *block) for block in blocks))


def is_on(device, feature):
    """Whether a feature of this name is in use."""
    names = _names(device)
    number, blocks = names.index(feature), -(-len(names) // _BLOCK_BITS)
    told = _call(device, struct.pack("=II", _GET, blocks) + bytes(16 * blocks))
    _available, _requested, active, _never_changed = struct.unpack_from("=IIII", told, 8 + 16 * (number // _BLOCK_BITS))
    return bool(active >> number % _BLOCK_BITS & 1)


def bring_up(device):
    """As `ip link set DEVICE up`."""
    with _any_socket() as any_socket:
        request = struct.pack("16sH14x", device.encode(), 0)
        flags, = struct.unpack_from("=H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", device.encode(), flags | _IFF_UP))


def _names(device):
    """Those of all features of this kernel, in their order: the same for each device."""
    if not _known:
        told = _call(device, struct.pack("=IIQI", _COUNT, 0, 1 << _FEATURES, 0))
        count, = struct.unpack_from("=I", told, 16)
        names = _call(device, struct.pack("=III", _NAMES, _FEATURES, count) + bytes(_NAME_BYTES * count))[12:]
        _known.extend(names[at:at + _NAME_BYTES].rstrip(b"\0").decode() for at in range(0, len(names), _NAME_BYTES))
    return _known


def _call(device, command):
    """What the kernel makes of a command's bytes."""
    room = array.array("B", command)
    with _any_socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16sP8x", device.encode(), room.buffer_info()[0]))
    return room.tobytes()


def _any_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
