"""Scenes of what Gloo has not, or has wrong: types that it refuses, layouts that it takes for others, lists of unequal tensors."""

import torch
import torch.distributed as dist
import torch_epic
from collectives_scenes import begin, own, refused, same
from torch.distributed import ReduceOp


def strided(tensor):
    """The same values with a stride of two, so that they do not lie in one piece."""
    wide = torch.zeros(2 * tensor.numel(), dtype=tensor.dtype)
    wide[::2] = tensor
    return wide[::2]


def bools(rank, size):
    """True on every rank, on some, on none: as torch means a sum of them by NCCL."""
    mine = torch.tensor([True, rank == 1, rank % 2 == 0, False])
    expected = {ReduceOp.SUM: [1, 1, 1, 0], ReduceOp.MAX: [1, 1, 1, 0], ReduceOp.BOR: [1, 1, 1, 0], ReduceOp.PRODUCT: [1, 0, 0, 0],
                ReduceOp.MIN: [1, 0, 0, 0], ReduceOp.BAND: [1, 0, 0, 0], ReduceOp.BXOR: [size % 2, 1, (size + 1) // 2 % 2, 0]}
    for op, bits in expected.items():
        tensor, wanted = mine.clone(), torch.tensor(bits, dtype=torch.bool)
        dist.all_reduce(tensor, op)
        same(tensor, wanted, op)
        tensor = mine.clone()
        dist.reduce(tensor, 2, op)
        same(tensor, wanted if rank == 2 else mine, op)
        part = torch.zeros(4, dtype=torch.bool)
        dist.reduce_scatter(part, [mine] * size, op)
        same(part, wanted, op)
        assert torch_epic.path_of(tensor, op) == "through the switches"
    wide = strided(mine)
    dist.all_reduce(wide, ReduceOp.SUM)
    same(wide, torch.tensor(expected[ReduceOp.SUM], dtype=torch.bool))
    refused(lambda: dist.all_reduce(mine.clone(), ReduceOp.AVG), "EPIC: bool has no average")


def complexes(rank, size):
    for dtype in (torch.complex64, torch.complex128):
        mine = torch.tensor([1 + 2j, rank - 3j, 0.5j]).to(dtype)
        total = torch.tensor([size + 2j * size, sum(range(size)) - 3j * size, 0.5j * size]).to(dtype)
        for layout in (torch.clone, strided, lambda tensor: tensor.conj().resolve_conj().conj()):
            part = torch.zeros(3, dtype=dtype)
            dist.reduce_scatter(part, [layout(mine)] * size, ReduceOp.AVG)
            same(part, total / size, dtype)
            tensor = layout(mine)
            if tensor.is_conj():  # as a result torch gives no backend its memory
                continue
            dist.all_reduce(tensor)
            same(tensor, total, dtype)
            tensor = layout(mine)
            dist.reduce(tensor, 1)
            same(tensor, total if rank == 1 else mine, dtype)
    refused(lambda: dist.reduce(mine.clone(), 0, ReduceOp.PRODUCT), "EPIC: complex numbers are summed and averaged")
    refused(lambda: dist.reduce(torch.ones(2), 0, ReduceOp.BAND), "EPIC: bitwise operations are of integers and bool")


def gathers_and_scatters(rank, size):
    for dtype in (torch.float32, torch.bool, torch.bfloat16, torch.int16, torch.complex64):
        everything = [own(other, dtype) for other in range(size)]
        # Layouts differ from rank to rank.
        mine = strided(everything[rank]) if rank % 2 else everything[rank]
        table = torch.zeros(10, size, dtype=dtype)
        dist.gather(mine, list(table.unbind(1)) if rank == 1 else None, dst=1)
        same(table.t(), torch.stack(everything) if rank == 1 else torch.zeros(size, 10, dtype=dtype), dtype)
        to = torch.zeros(20, dtype=dtype)
        dist.scatter(to[::2], [strided(part) for part in everything] if rank == 2 else None, src=2)
        same(to[::2], everything[rank], dtype)
        assert not to[1::2].any(), "between the elements"
    work = dist.gather(strided(own(rank, torch.float32)), list(table.real.unbind(1)) if rank == 0 else None, async_op=True)
    work.wait()
    if rank == 0:
        same(table.real.t(), torch.stack([own(other, torch.float32) for other in range(size)]), "asynchronous")
        same(work.get_future().wait()[1], own(1, torch.float32), "a future's")
    objects = [None] * size if rank == 3 else None
    dist.gather_object({"rank": rank}, objects, dst=3)
    assert rank != 3 or objects == [{"rank": other} for other in range(size)], objects
    one = torch.zeros(3)
    if rank == 0:
        refused(lambda: dist.gather(torch.zeros(3), [one] * size), "more than one element")
    dist.barrier()


def all_to_alls(rank, size):
    """Of rank s to rank d: s + d + 1 elements, or none from 0 to 1, with both ranks in their values."""
    def sent(source, to, dtype):
        return torch.full((0 if (source, to) == (0, 1) else source + to + 1,), 10 * source + to).to(dtype)

    for dtype in (torch.float32, torch.bool, torch.bfloat16, torch.complex64):
        mine = [sent(rank, to, dtype) for to in range(size)]
        expected = [sent(source, rank, dtype) for source in range(size)]
        got = [torch.zeros_like(tensor) for tensor in expected]
        dist.all_to_all(got, mine)
        for tensor, wanted in zip(got, expected):
            same(tensor, wanted, dtype)
        got = [strided(torch.zeros_like(tensor)) for tensor in expected]
        dist.all_to_all(got, [strided(tensor) for tensor in mine])
        for tensor, wanted in zip(got, expected):
            same(tensor, wanted, dtype)
        counts = [[tensor.numel() for tensor in tensors] for tensors in (expected, mine)]
        whole = torch.cat([torch.zeros_like(tensor) for tensor in expected])
        for layout in (torch.clone, strided):
            whole = layout(torch.zeros_like(whole))
            dist.all_to_all_single(whole, layout(torch.cat(mine)), *counts)
            same(whole, torch.cat(expected), dtype)
    rows = torch.arange(3 * size).reshape(3, size) + 100 * rank  # columns in a piece of memory: rows of the transposed
    got = torch.zeros(3, size, dtype=torch.int64).t()
    dist.all_to_all_single(got, rows.t())
    same(got, torch.stack([torch.arange(3) * size + rank + 100 * source for source in range(size)]), "transposed")
    square = torch.arange(size) + 10 * rank
    dist.all_to_all_single(square, square)
    same(square, torch.arange(size) * 10 + rank, "in place")
    refused(lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [4, -1, 1, 0], [1] * size), "rows of the output are -1")
    refused(lambda: dist.all_to_all_single(torch.zeros(()), torch.zeros(())), "no dimension")
    refused(lambda: dist.all_to_all([torch.zeros(1)] * (size - 1), [torch.zeros(1)] * size), f"lists of {size} tensors")
    dist.barrier()


def uneven_gathers(rank, size):
    for dtype in (torch.float32, torch.bool, torch.complex64):
        expected = [own(other, dtype, 5 * other) for other in range(size)]
        got = [torch.zeros_like(tensor) for tensor in expected]
        dist.all_gather(got, expected[rank])
        for tensor, wanted in zip(got, expected):
            same(tensor, wanted, dtype)
        got = [strided(torch.zeros_like(tensor)) for tensor in expected]
        dist.all_gather(got, strided(expected[rank]))
        for tensor, wanted in zip(got, expected):
            same(tensor, wanted, dtype)
    got = [[torch.zeros(other), torch.zeros(2)] for other in range(size)]
    dist.all_gather_coalesced(got, [own(rank, torch.float32, rank), own(rank, torch.float32, 2)])
    for other in range(size):
        same(got[other][0], own(other, torch.float32, other), "coalesced")
        same(got[other][1], own(other, torch.float32, 2), "coalesced")
    refused(lambda: dist.all_gather([torch.zeros(2) for _ in range(size)], torch.zeros(3)), "EPIC: the input has 3 elements")
    uneven = [torch.zeros(2 + other) for other in range(size)]
    refused(lambda: dist.reduce_scatter(torch.zeros(2 + rank), uneven), "EPIC: parts of a reduce_scatter have one length")


def scene_layouts():
    rank, size = begin()
    bools(rank, size)
    complexes(rank, size)
    gathers_and_scatters(rank, size)
    all_to_alls(rank, size)
    uneven_gathers(rank, size)
    dist.barrier()
    dist.destroy_process_group()


def scene_undeclared_types():
    """Sums of FP16 and BF16 that the group has not declared are refused in it. Gloo has those of FP16."""
    rank, size = begin()
    refused(lambda: dist.all_reduce(torch.ones(2, dtype=torch.bfloat16)), "EPIC: the group does not reduce BFloat16 so, nor does Gloo")
    refused(lambda: dist.all_reduce(torch.ones(2, dtype=torch.float16), ReduceOp.AVG), "EPIC: the group does not reduce Half so, nor")
    refused(lambda: dist.reduce_scatter_tensor(torch.ones(2, dtype=torch.float16), torch.ones(2 * size, dtype=torch.float16)),
            "EPIC: the group does not reduce Half so, nor does Gloo")
    tensor = torch.ones(2, dtype=torch.float16)
    dist.all_reduce(tensor)
    same(tensor, torch.full((2,), size, dtype=torch.float16), "by Gloo")
    dist.barrier()
    dist.destroy_process_group()
