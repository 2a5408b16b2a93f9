"""Rows of covers of perftest's programs: {"program", "transport", "size", "gid", "mtu", "events", "shape", ...} (tests/covers.py)."""

import pytest

from perftest import ATOMIC, BW, LAT, result

SHAPES = {"one": (), "qps": ("-q", 4), "both": ("-b",), "inline": ("-I", 64), "cas": ("-A", "CMP_AND_SWAP"),
          "faa": ("-A", "FETCH_AND_ADD")}
# GID 0 is link-local, 1 IPv4's, 2 global.
AXES = {
    "program": list(BW + LAT + ATOMIC),
    "transport": ["RC", "UC", "UD"],
    "size": [2, 4096, 65536],
    "gid": [0, 1, 2],
    "mtu": [256, 1024, 4096],
    "events": [False, True],
    "shape": list(SHAPES),
}
LEAST = 5  # iterations of perftest


def packets(row):
    """How many an iteration has, on all queue pairs."""
    return -(-row["size"] // row["mtu"]) * queues(row)


def queues(row):
    return 4 if row["shape"] == "qps" else 1


def impossible(row, room):
    """What perftest does not offer; or what is not repeated, and more than there is room for at the receiver's."""
    program, transport, shape = row["program"], row["transport"], row["shape"]
    name = program.split("_")[1]
    return any([
        (program in ATOMIC) != (shape in ("cas", "faa")),
        program in ATOMIC and row["size"] != 2,  # of 8 bytes, whatever is asked for
        transport != "RC" and name in ("read", "atomic"),
        transport == "UD" and (name != "send" or row["size"] > row["mtu"]),
        row["events"] and name in ("write", "atomic"),
        shape in ("qps", "both") and program not in BW,
        shape == "both" and transport != "RC",
        shape == "inline" and (name not in ("send", "write") or row["size"] > 64 or transport == "UD"),
        transport != "RC" and LEAST * packets(row) > room,
    ])


def run_row(pair, row, room, most, *options, **hosts):
    """Both ends of a row; `most` iterations, or of what is not repeated as many as there is room for."""
    count = most if row["transport"] == "RC" else max(LEAST, min(most, room // packets(row)))
    size = 8 if row["program"] in ATOMIC else row["size"]
    connection = () if row["program"] in ATOMIC else ("-s", size, "-c", row["transport"])
    client, _ = pair.run_both(row["program"], "-F", "-x", row["gid"], "-m", row["mtu"], "-n", count, *connection,
                              *["-e"] * row["events"], *SHAPES[row["shape"]], *options, **hosts)
    assert result(client, size)[0] == count * queues(row)


def named(rows):
    """For parametrize: each row, with its values as its name."""
    return [pytest.param(row, id="-".join(str(value) for value in row.values())) for row in rows]
