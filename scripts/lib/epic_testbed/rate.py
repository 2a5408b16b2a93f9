"""The rate of a link (`up --rate`): a token bucket at each end, for what is sent there."""

import re

from .bed import BedError

# A super-frame, or what TCP gives a port in one piece, passes whole or not at all: 64 KiB and, as the kernel counts, the
# headers of each of its packets, which of the smallest path MTU are a quarter as much again.
BURST_BYTES = 96 << 10
# What waits for its turn, as in a switch with a shallow buffer: 84 ms at 100 Mbit/s. A packet socket holds less (its own
# buffer, 208 KiB), so that a sender of RoCE waits, and nothing of it is dropped.
LIMIT_BYTES = 1 << 20
_UNITS = {"mbit": 1, "gbit": 1000}
_LEAST_MBIT, _MOST_MBIT = 1, 100_000


def mbit_of(text):
    """Megabits per second of "100mbit" or "10gbit"."""
    match = re.fullmatch(r"([0-9]{1,6})(mbit|gbit)", text)
    mbit = int(match[1]) * _UNITS[match[2]] if match else 0
    if not _LEAST_MBIT <= mbit <= _MOST_MBIT:
        raise BedError(f"--rate {text}: say a whole number of mbit or gbit, from 1mbit to 100gbit, as 100mbit")
    return mbit


def limit(device, mbit):
    """The line of `tc -batch` for one end."""
    return f"qdisc add dev {device} root tbf rate {mbit}mbit burst {BURST_BYTES} limit {LIMIT_BYTES}"
