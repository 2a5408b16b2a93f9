"""torch.distributed on EPIC: import torch_epic; torch.distributed.init_process_group("epic"). See docs/TORCH.md."""

import atexit
import os
import secrets
import sys

import torch  # noqa: F401  its libraries come first
from torch import distributed
from torch.distributed import PrefixStore, ProcessGroupGloo

from torch_epic import _C

# Which has groups: its children do not.
_process = None


def path(group=None):
    """Which way a group's calls go: "through the switches", or "between the hosts" and why."""
    return (group or distributed.group.WORLD).path()


def _create(store, rank, size, timeout):
    """What torch calls for init_process_group and new_group, on every rank of the group."""
    global _process
    _process = os.getpid()
    # Made at once: at its first use other ranks might not be there.
    gloo = ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout=timeout)
    if rank == 0:
        store.set("name", f"torch-{secrets.token_hex(8)}")
    group = _C.ProcessGroupEpic(gloo, rank, size, timeout)
    refusal, for_others = group._join(store.get("name").decode())
    # All ranks have the group, or none.
    store.set(f"joined{rank}", f"{int(for_others)}{refusal}")
    told = [store.get(f"joined{other}").decode() for other in range(size)]
    refusals = sorted((text[0], other, text[1:]) for other, text in enumerate(told) if text[1:])
    if refusals:
        _, other, why = refusals[0]
        group._abort(f"rank {other}: {why}")
        raise RuntimeError(f"EPIC: no group of {size} ranks: rank {other}: {why}")
    return group


def _leave():
    """At the end of the program. An error that ends it ends the groups, so that nobody waits for this rank."""
    if os.getpid() == _process:
        error = getattr(sys, "last_value", None)
        _C.leave_all("" if error is None else f"{type(error).__name__}: {error}")


distributed.Backend.register_backend("epic", _create)
atexit.register(_leave)
