"""torch.distributed on EPIC: import torch_epic; torch.distributed.init_process_group("epic"). See docs/TORCH.md."""

import atexit
import os
import secrets
import sys
import time
from datetime import timedelta

import torch  # noqa: F401  its libraries come first
from torch import distributed
from torch.distributed import PrefixStore, ProcessGroupGloo

from torch_epic import _C

# Which makes groups: its children can neither use nor make any, and have none to leave.
_process = None
# All ranks know at about the same time how joining went; whoever does not say it then has died.
_TELLING_S = 120


def path(group=None):
    """Which way a group's calls go: "through the switches", or "between the hosts" and why."""
    return (group or distributed.group.WORLD).path()


def path_of(tensor, op=None, group=None):
    """Which way a call of such a tensor goes, of all but reduce_scatter: a reduction by `op`, or a copy without; as path, or "by Gloo"."""
    return (group or distributed.group.WORLD).path_of(tensor, op)


def path_of_reduce_scatter(output, op=distributed.ReduceOp.SUM, group=None):
    """The same of a reduce_scatter with such an output, whose way is by its length, too."""
    return (group or distributed.group.WORLD).path_of_reduce_scatter(output, op)


def quantise(on, group=None):
    """Whether calls made from now on may travel as blocks of INT8, in a group that has them (EPIC_QUANTISE=int8); the same on all ranks."""
    (group or distributed.group.WORLD).quantise(on)


def _told(store, size):
    """What each rank says of its join: "0" or "1" if others are the reason, then why it was refused, if it was."""
    deadline = time.monotonic() + _TELLING_S
    told = []
    for rank in range(size):
        try:
            store.wait([f"joined{rank}"], timedelta(seconds=max(0.1, deadline - time.monotonic())))
            told.append(store.get(f"joined{rank}").decode())
        except RuntimeError:
            told.append("1it has not said whether it has joined")
    return told


def _create(store, rank, size, timeout):
    """What torch calls for init_process_group and new_group, on every rank of the group."""
    global _process
    if _process not in (None, os.getpid()):
        raise RuntimeError("EPIC: a child of fork cannot make a process group when its parent has made one")
    # Made at once: at its first use other ranks might not be there.
    gloo = ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout=timeout)
    if rank == 0:
        store.set("name", f"torch-{secrets.token_hex(8)}")
    group = _C.ProcessGroupEpic(gloo, rank, size, timeout)
    _process = os.getpid()
    refusal, for_others = group._join(store.get("name").decode())
    # All ranks have the group, or none.
    store.set(f"joined{rank}", f"{int(for_others)}{refusal}")
    refusals = sorted((text[0], other, text[1:]) for other, text in enumerate(_told(store, size)) if text[1:])
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
