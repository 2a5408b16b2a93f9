"""Scenes of calls of two groups at once: all_gather_into_tensor of one, reduce_scatter_tensor of the other, as an optimiser with sharded
weights makes them. With a number of megabytes its times are worth reading: on a bed whose links have a rate,

    scripts/testbed up star-4 --rate 1gbit
    scripts/testbed torchrun tests/torch/scenes.py at_once 4
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
import torch_epic
from collectives_scenes import begin, same

CALLS = 7
HOSTS = {"EPIC_PATH": "hosts"}
RING, MULTICAST = {**HOSTS, "EPIC_ALGORITHM": "ring"}, {**HOSTS, "EPIC_ALGORITHM": "multicast"}
# How the AllGather's group goes, and how the ReduceScatter's.
RINGS, BESIDE = "two rings", "multicast beside the switches"
WAYS = {RINGS: (RING, RING), BESIDE: (MULTICAST, {"EPIC_PATH": "network"})}


def group_with(variables):
    """A group of all ranks that is made with these variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        return dist.new_group()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def slowest_s(seconds):
    told = torch.tensor([seconds])
    dist.all_reduce(told, dist.ReduceOp.MAX)
    return told.item()


def both(part, whole, gather, scatter):
    """The results of both calls, and the seconds that they took together on the slowest rank."""
    gathered, scattered = torch.zeros_like(whole), torch.zeros_like(part)
    dist.barrier()
    begin_s = time.monotonic()
    works = [dist.all_gather_into_tensor(gathered, part, group=gather, async_op=True),
             dist.reduce_scatter_tensor(scattered, whole, group=scatter, async_op=True)]
    for work in works:
        work.wait()
    return gathered, scattered, slowest_s(time.monotonic() - begin_s)


def scene_at_once(megabytes="0"):
    """Parts of so many megabytes; some thousand elements without."""
    rank, size = begin()
    count = int(megabytes) * (1 << 18) or 40_001
    groups = {way: [group_with(variables) for variables in pair] for way, pair in WAYS.items()}
    for way, (gather, scatter) in groups.items():
        expected = "through the switches" if way == BESIDE else "between the hosts"
        assert torch_epic.path(scatter).startswith(expected), (way, torch_epic.path(scatter))
        assert torch_epic.path(gather).startswith("between the hosts"), (way, torch_epic.path(gather))
    part = torch.arange(count, dtype=torch.int32) * 7 + rank
    whole = torch.cat([torch.arange(count, dtype=torch.int32) * 7 + other for other in range(size)])
    sums = (torch.arange(count, dtype=torch.int32) * 7 + rank) * size
    times = {way: [] for way in WAYS}
    for call in range(CALLS if int(megabytes) else 2):
        for way in WAYS:  # by turns
            gathered, scattered, seconds = both(part, whole, *groups[way])
            same(gathered, whole, way)
            same(scattered, sums, way)
            if call > 0:  # the first connects
                times[way].append(seconds)
    if rank == 0 and int(megabytes):
        rings = statistics.median(times[RINGS])
        for way, took in times.items():
            middle = statistics.median(took)
            print(f"{way}: {1000 * middle:.1f} ms, two rings take {rings / middle:.2f} times as long", flush=True)
    dist.destroy_process_group()
