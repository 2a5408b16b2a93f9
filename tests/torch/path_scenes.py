"""Scenes of which way calls go."""

import os

import torch
import torch.distributed as dist
import torch_epic
from collectives_scenes import NAMES, begin, by_gloo, same
from torch.distributed import ReduceOp


def ways(group=None):
    """By call: which way it goes."""
    small, large = torch.zeros(1000), torch.zeros(1 << 20)
    return {"small": torch_epic.path_of_reduce_scatter(small, group=group), "large": torch_epic.path_of_reduce_scatter(large, ReduceOp.MAX, group),
            "half": torch_epic.path_of_reduce_scatter(large.half(), group=group), "sum": torch_epic.path_of(large, ReduceOp.SUM, group),
            "copy": torch_epic.path_of(large.bool(), group=group), "bool": torch_epic.path_of(large.bool(), ReduceOp.SUM, group),
            "bool parts": torch_epic.path_of_reduce_scatter(large.bool(), group=group),
            "sparse": torch_epic.path_of(small.to_sparse(), ReduceOp.SUM, group)}


def scene_paths():
    rank, size = begin()
    switches, ring = "through the switches", "between the hosts: reducescatter of "
    got = ways()
    assert got.pop("large").startswith(ring) and got.pop("bool parts").startswith(ring) and got.pop("sparse") == "by Gloo", got
    assert set(got.values()) == {switches} and torch_epic.path() == switches, got
    os.environ["EPIC_PATH"] = "hosts"
    by_hosts = dist.new_group()
    assert all(way.startswith("between the hosts") for call, way in ways(by_hosts).items() if way != "by Gloo"), ways(by_hosts)
    assert torch_epic.path(by_hosts).startswith("between the hosts"), torch_epic.path(by_hosts)
    # It is asked beside calls that are under way.
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(50)]
    assert torch_epic.path_of(torch.ones(1), ReduceOp.SUM) == switches
    for work in works:
        work.wait()
    dist.destroy_process_group()


def scene_long_reduce_scatter():
    """16 MB, which go around the ring of hosts unless EPIC_PATH says otherwise: as what Gloo, which has none, sums is scattered."""
    rank, size = begin()
    gloo = dist.new_group(backend="gloo")
    for dtype in (torch.float32, torch.int64):
        count = (16 << 20) // torch.tensor([], dtype=dtype).element_size()
        generator = torch.Generator().manual_seed(rank)
        # Any sum of four is exact, and no two elements of a part are likely to be one another's.
        whole = torch.randint(-1 << 20, 1 << 20, (count,), generator=generator).to(dtype)
        for op in (ReduceOp.SUM, ReduceOp.MAX):
            expected = by_gloo(gloo, whole, op).chunk(size)[rank]
            what = (dtype, NAMES[op])
            part = torch.zeros(count // size, dtype=dtype)
            dist.reduce_scatter(part, list(whole.chunk(size)), op)
            same(part, expected, what)
            dist.reduce_scatter_tensor(part.zero_(), whole, op)
            same(part, expected, what)
            copy = whole.clone()
            dist.reduce_scatter_tensor(copy.chunk(size)[rank], copy, op)
            same(copy.chunk(size)[rank], expected, what)
            works = [dist.reduce_scatter_tensor(out, whole, op, async_op=True) for out in (part.zero_(), part.clone())]
            for work in works:
                work.wait()
                same(work.result()[0], expected, what)
    dist.destroy_process_group()
