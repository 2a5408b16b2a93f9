"""Hosts of a test bed that lend memory to groups of mode pooled: the daemon inchost on them."""

import os
import re
import time

from . import nodes, procs
from .bed import MANAGER, MGMT, BedError, say

_REGISTERED_TIMEOUT_S = 30


def of(items, kinds):
    """What each lends, {name: bytes as inchost takes them}, from "HOST=BYTES" each; kinds: of the hosts, by name."""
    lenders = {}
    for item in items:
        name, _, size = item.partition("=")
        if name not in kinds or not re.fullmatch(r"[0-9]+[KMG]?", size):
            raise BedError(f"--lend {item}: it is not HOST=BYTES, as in h0=64M, with one of the hosts {', '.join(kinds)}")
        if kinds[name] == "none":
            raise BedError(f"--lend {item}: {name} has no RDMA; it is of the kind none")
        lenders[name] = size
    return lenders


def start_all(bed, lenders):
    """Starts their daemons, and waits until the manager has them."""
    begin = time.monotonic()
    for name, size in lenders.items():
        host, socket = bed.host(name), f"{name}.inchost.sock"
        # A guest has files of its own.
        path = f"/tmp/{socket}" if host["kind"] == "rxe" else bed.file(socket)
        argv = [os.path.join(bed.record["build"], "inchost", "inchost"), "--manager", MANAGER, "--name", name, "--socket", path,
                "--fallback", size, "--fallback-interface", "vec0"]
        if host["kind"] == "rxe":
            command, _ = nodes.command(bed, name, argv, None)
            bed.start(_process(name), command, bed.namespace(MGMT))
        else:
            run = [os.path.join(nodes.REPO, "scripts", "epic-run"), "--devices", "vec0", "--", *argv]
            bed.start(_process(name), ["env", f"EPIC_SOFTNIC_LIB={bed.record['softnic']}", *run], bed.namespace(name))
    for name in lenders:
        _wait(bed, _process(name), begin)
    if lenders:
        say(f"{', '.join(f'{name} lends {size}' for name, size in lenders.items())}")


def _process(name):
    return f"{name}.inchost"


def _wait(bed, process, begin):
    while True:
        with open(bed.log(process), encoding="utf-8", errors="replace") as file:
            if "registered at the manager" in file.read():
                return
        if not procs.alive(bed.record["processes"][process]) or time.monotonic() > begin + _REGISTERED_TIMEOUT_S:
            raise BedError(f"{process} has not registered; {bed.tail(process)}")
        time.sleep(0.05)
