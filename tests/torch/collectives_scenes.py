"""Scenes of collectives: results are compared with what the ranks' tensors give, and where Gloo can with Gloo's."""

import functools
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch_epic
from torch.distributed import ReduceOp

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
OPS = {ReduceOp.SUM: torch.add, ReduceOp.PRODUCT: torch.mul, ReduceOp.MIN: torch.minimum, ReduceOp.MAX: torch.maximum}
BITWISE = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}
NAMES = {ReduceOp.SUM: "sum", ReduceOp.PRODUCT: "product", ReduceOp.MIN: "min", ReduceOp.MAX: "max", ReduceOp.AVG: "avg",
         ReduceOp.BAND: "band", ReduceOp.BOR: "bor", ReduceOp.BXOR: "bxor"}


def begin():
    dist.init_process_group("epic")
    return dist.get_rank(), dist.get_world_size()


def own(rank, dtype, count=10):
    """A rank's tensor: sums and products of four of them are exact in every type, or wrap."""
    return ((torch.arange(count) % 3 + 1) * (rank + 1)).to(dtype)


def of_all(dtype, op, count=10):
    """What the ranks' own tensors reduce to."""
    tensors = [own(rank, dtype, count) for rank in range(dist.get_world_size())]
    if op == ReduceOp.AVG:
        total = functools.reduce(torch.add, tensors)
        return total / len(tensors) if dtype.is_floating_point else total.div(len(tensors), rounding_mode="trunc")
    return functools.reduce({**OPS, **BITWISE}[op], tensors)


def same(got, expected, what=""):
    assert got.dtype == expected.dtype and torch.equal(got, expected), f"{what}: {got} instead of {expected}"


def by_gloo(gloo, tensor, op):
    """What Gloo makes of it, or None if it refuses the type."""
    result = tensor.clone()
    try:
        dist.all_reduce(result, op, group=gloo)
    except RuntimeError as refusal:
        assert "Invalid scalar type" in str(refusal) or "AVG" in str(refusal), refusal
        return None
    return result


def reductions(rank, size, dtype, op, gloo):
    what, expected = (dtype, NAMES[op]), of_all(dtype, op)
    tensor = own(rank, dtype)
    dist.all_reduce(tensor, op)
    same(tensor, expected, what)
    if gloo is not None:
        same(by_gloo(gloo, own(rank, dtype), op), expected, what)
    for root in range(size):
        tensor = own(rank, dtype)
        dist.reduce(tensor, root, op)
        if rank == root:
            same(tensor, expected, what)
    parts = list(own(rank, dtype, 3 * size).chunk(size))
    expected = of_all(dtype, op, 3 * size).chunk(size)[rank]
    tensor = torch.empty(3, dtype=dtype)
    dist.reduce_scatter(tensor, parts, op)
    same(tensor, expected, what)
    whole = own(rank, dtype, 3 * size)
    dist.reduce_scatter_tensor(tensor.zero_(), whole, op)
    same(tensor, expected, what)
    in_place = whole.chunk(size)[rank]
    dist.reduce_scatter_tensor(in_place, whole, op)
    same(in_place, expected, what)


def copies(rank, size, dtype):
    for root in range(size):
        tensor = own(rank, dtype)
        dist.broadcast(tensor, root)
        same(tensor, own(root, dtype), dtype)
    everything = [own(other, dtype) for other in range(size)]
    got = [torch.zeros(10, dtype=dtype) for _ in range(size)]
    dist.all_gather(got, own(rank, dtype))
    for tensor, expected in zip(got, everything):
        same(tensor, expected, dtype)
    whole = torch.zeros(10 * size, dtype=dtype)
    dist.all_gather_into_tensor(whole, own(rank, dtype))
    same(whole, torch.cat(everything), dtype)
    whole = torch.zeros(10 * size, dtype=dtype)
    whole[10 * rank:10 * rank + 10] = own(rank, dtype)
    dist.all_gather_into_tensor(whole, whole[10 * rank:10 * rank + 10])
    same(whole, torch.cat(everything), dtype)


def scene_collectives():
    rank, size = begin()
    assert torch_epic.path() == "through the switches", torch_epic.path()
    gloo = dist.new_group(backend="gloo")
    for dtype in FLOATS + INTEGERS:
        copies(rank, size, dtype)
        bitwise = [] if dtype.is_floating_point else list(BITWISE)
        for op in [*OPS, ReduceOp.AVG, *bitwise]:
            # Gloo has neither these types nor these operations of all types.
            has = dtype not in (torch.bfloat16, torch.int16) and op in OPS
            reductions(rank, size, dtype, op, gloo if has else None)
    for dtype in (torch.bool, torch.complex64):
        copies(rank, size, dtype)
    refused = by_gloo(gloo, own(rank, torch.bfloat16), ReduceOp.SUM)
    assert refused is None, "Gloo has learnt bfloat16: say so in docs/TORCH.md"

    tensors = [own(rank, torch.float32, count) for count in (3, 0, 70000)]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        same(tensor, of_all(torch.float32, ReduceOp.SUM, tensor.numel()), "coalesced")
    got = [[torch.zeros(3), torch.zeros(5)] for _ in range(size)]
    dist.all_gather_coalesced(got, [own(rank, torch.float32, 3), own(rank, torch.float32, 5)])
    for other in range(size):
        same(got[other][0], own(other, torch.float32, 3), "coalesced")
        same(got[other][1], own(other, torch.float32, 5), "coalesced")
    dist.barrier()
    dist.destroy_process_group()


def scene_through_gloo():
    """What EPIC has nothing for."""
    rank, size = begin()
    left, right = (rank - 1) % size, (rank + 1) % size
    got = torch.zeros(10)
    requests = [dist.isend(own(rank, torch.float32), right), dist.irecv(got, left)]
    for request in requests:
        request.wait()
    same(got, own(left, torch.float32), "recv")
    lists = [torch.zeros(10) for _ in range(size)] if rank == 1 else None
    dist.gather(own(rank, torch.float32), lists, dst=1)
    if rank == 1:
        for other in range(size):
            same(lists[other], own(other, torch.float32), "gather")
    dist.scatter(got, [own(other, torch.float32) for other in range(size)] if rank == 2 else None, src=2)
    same(got, own(rank, torch.float32), "scatter")
    whole = torch.zeros(size)
    dist.all_to_all_single(whole, torch.arange(float(size)) + 10 * rank)
    same(whole, torch.arange(float(size)) * 10 + rank, "all_to_all_single")
    sparse = torch.sparse_coo_tensor([[rank]], [float(rank + 1)], (size,))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), torch.arange(1.0, size + 1), "sparse")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": other} for other in range(size)], objects
    said = [f"from {rank}", rank]
    dist.broadcast_object_list(said, src=3)
    assert said == ["from 3", 3], said
    dist.destroy_process_group()


def refused(call, *words):
    try:
        call()
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"not refused, though {words}")


def shared_results(rank, size):
    """Elements of results that share memory are refused, those that only lie between one another are not."""
    words = "more than one element"
    overlapping = torch.zeros(1).expand(5)
    refused(lambda: dist.all_reduce(overlapping), words)
    refused(lambda: dist.all_reduce(torch.zeros(9).as_strided((4, 3), (2, 1))), words)
    refused(lambda: dist.all_reduce(torch.zeros(9).as_strided((3, 2), (2, 4))), words)
    refused(lambda: dist.all_gather_into_tensor(torch.zeros(9).as_strided((size, 3), (2, 1)), torch.zeros(3)), words)
    one = torch.zeros(3)
    refused(lambda: dist.all_gather([one] * size, torch.zeros(3)), words)
    refused(lambda: dist.all_gather([torch.zeros(3) for _ in range(size - 2)] + [one, one[:3]], torch.zeros(3)), words)
    refused(lambda: dist.all_gather_coalesced([[one[:2], one[1:]] for _ in range(size)], [torch.zeros(2), torch.zeros(2)]), words)
    refused(lambda: dist.all_reduce_coalesced([one, torch.zeros(1), one[2:]]), words)

    total = of_all(torch.float32, ReduceOp.SUM, 4)
    odd = torch.zeros(9).as_strided((2, 2), (3, 2))  # 0, 2, 3 and 5
    odd.copy_(own(rank, torch.float32, 4).reshape(2, 2))
    dist.all_reduce(odd)
    same(odd, total.reshape(2, 2), "between one another")
    table = torch.zeros(3, size)
    dist.all_gather(list(table.unbind(1)), own(rank, torch.float32, 3))
    for other in range(size):
        same(table[:, other], own(other, torch.float32, 3), "a column")
    halves = own(rank, torch.float32, 8).reshape(4, 2).clone()
    dist.all_reduce_coalesced([halves[:, 0], halves[:, 1]])
    same(halves, of_all(torch.float32, ReduceOp.SUM, 8).reshape(4, 2), "columns")


def scene_tensors():
    """Tensors of any layout and size; what cannot be is refused before anything is sent."""
    rank, size = begin()
    total = of_all(torch.float32, ReduceOp.SUM, 12)
    # Layouts may differ from rank to rank.
    columns = own(rank, torch.float32, 12).reshape(4, 3)
    tensor = columns.t().contiguous().t() if rank % 2 else columns.clone()
    dist.all_reduce(tensor)
    same(tensor, total.reshape(4, 3), "transposed")
    wide = torch.zeros(24)
    wide[::2] = own(rank, torch.float32, 12)
    dist.all_reduce(wide[::2])
    same(wide[::2], total, "every second one")
    assert not wide[1::2].any()
    wide[::2] = own(rank, torch.float32, 12)
    dist.broadcast(wide[::2], 2)
    same(wide[::2], own(2, torch.float32, 12), "every second one")
    got = [torch.zeros(24)[::2] for _ in range(size)]
    dist.all_gather(got, own(rank, torch.float32, 24)[::2])
    same(got[3], own(3, torch.float32, 24)[::2], "every second one")
    parameter = torch.nn.Parameter(own(rank, torch.float32, 12).reshape(4, 3).t())
    dist.broadcast(parameter, 1)
    same(parameter.detach(), own(1, torch.float32, 12).reshape(4, 3).t(), "a parameter")

    for shape in ((0,), (3, 0)):
        dist.all_reduce(torch.zeros(shape))
        dist.broadcast(torch.zeros(shape), 0)
        dist.all_gather([torch.zeros(shape) for _ in range(size)], torch.zeros(shape))
        dist.reduce_scatter(torch.zeros(shape), [torch.zeros(shape) for _ in range(size)])
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    assert scalar.item() == sum(range(size))

    shared_results(rank, size)
    without_memory = torch.ones(5)
    without_memory.storage().resize_(0)
    refused(lambda: dist.all_reduce(without_memory), "no memory")
    refused(lambda: dist.all_gather([torch.ones(5) for _ in range(size)], without_memory), "no memory")
    if rank == 0:
        refused(lambda: dist.broadcast(torch.zeros(2, device="meta"), 0))
    refused(lambda: dist.broadcast(torch.zeros(2), size))
    refused(lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.zeros(2)), "elements")

    # A long one, in many packets; and one that its neighbour on the same memory must wait for.
    long = own(rank, torch.float32, 1 << 20)
    works = [dist.all_reduce(long, async_op=True), dist.all_reduce(long, async_op=True)]
    gathered = [torch.zeros(1 << 20) for _ in range(size)]
    dist.all_gather(gathered, long)
    for work in works:
        work.wait()
    expected = of_all(torch.float32, ReduceOp.SUM, 1 << 20) * size
    same(long, expected, "twice")
    same(gathered[1], expected, "what came after")
    dist.destroy_process_group()


def scene_own_deadline():
    """A call that could not be made has its own deadline, and leaves the group's to those after it."""
    rank, size = begin()
    if rank == 0:
        options = dist.BroadcastOptions()
        options.rootRank, options.timeout = 0, timedelta(milliseconds=200)
        refused(lambda: dist.group.WORLD.broadcast([torch.zeros(1).expand(1 << 50)], options), "memory")
    else:
        time.sleep(1)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1,), float(size)))
    dist.barrier()
    dist.destroy_process_group()


def scene_asynchronous():
    rank, size = begin()
    tensors = [torch.full((7,), float(rank + i)) for i in range(1500)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    works[-1].wait()
    assert all(work.is_completed() and work.is_success() for work in works)
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((7,), float(sum(range(size)) + i * size)), i)

    # Callbacks run in the order of the calls; one may make calls itself, if it does not wait for them.
    order, more = [], []

    def then(future):
        order.append(future.value()[0][0].item())
        more.append(dist.all_reduce(torch.ones(1), async_op=True))
        return 17

    works = [dist.all_reduce(torch.full((1,), float(i)), async_op=True) for i in range(20)]
    futures = [work.get_future().then(then) for work in works]
    assert [future.wait() for future in futures] == [17] * 20
    assert sorted(order) == order == [float(i * size) for i in range(20)], order
    for work in more:
        work.wait()
        same(work.result()[0], torch.full((1,), float(size)))

    lists = [torch.zeros(2) for _ in range(size)]
    value = dist.all_gather(lists, torch.full((2,), float(rank)), async_op=True).get_future().wait()
    assert [tensor[0].item() for tensor in value] == list(range(size)), value
    dist.barrier(async_op=True).wait()
    # Tensors that nobody else holds.
    futures = [dist.all_reduce(torch.full((50000,), float(rank)), async_op=True).get_future() for _ in range(5)]
    for future in futures:
        same(future.wait()[0], torch.full((50000,), float(sum(range(size)))))
    dist.destroy_process_group()


def scene_callbacks():
    """Callbacks that make calls of their group and wait for them, several of them at a time, also one within another."""
    rank, size = begin()
    total = float(sum(range(size)))

    def summed(depth):
        tensor = torch.full((3,), float(rank))
        future = dist.all_reduce(tensor, async_op=True).get_future()
        return (future if depth == 0 else future.then(lambda _: summed(depth - 1))).wait()

    futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _: summed(0)) for _ in range(2)]
    for future in futures:
        same(future.wait()[0], torch.full((3,), total), "in a callback")
    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _: summed(20))
    same(future.wait()[0], torch.full((3,), total), "within one another")

    # One that shares memory with a call that is under way, in a callback of another one before it.
    shared = torch.full((1 << 18,), float(rank))

    def again(_):
        dist.all_reduce(shared)
        return shared

    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(again)
    same(future.wait(), torch.full((1 << 18,), total), "shared memory")
    # A callback's own error is that of its future alone.
    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _: dist.broadcast(torch.ones(1), size))
    refused(future.wait, "invalid root rank")
    dist.barrier()
    dist.destroy_process_group()


def scene_groups():
    """Groups of some ranks, also while others are in use; made again after the end of all."""
    for _ in range(2):
        # Another store: ranks could still reach that of before.
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1000)
        rank, size = begin()
        pairs = [dist.new_group([0, 3]), dist.new_group([1, 2])]
        alone = [dist.new_group([other]) for other in range(size)]
        mine = pairs[0 if rank in (0, 3) else 1]
        tensor, all_of = torch.tensor([1 << (8 * rank)]), torch.tensor([1 << (8 * rank)])
        works = [dist.all_reduce(tensor, group=mine, async_op=True), dist.all_reduce(all_of, async_op=True)]
        dist.all_reduce(torch.ones(1), group=alone[rank])
        for work in works:
            work.wait()
        assert tensor.item() == (0x01000001 if rank in (0, 3) else 0x00010100), hex(tensor.item())
        assert all_of.item() == 0x01010101
        got = torch.full((2,), float(rank))
        dist.broadcast(got, 3 if rank in (0, 3) else 1, group=mine)
        assert got[0].item() == (3 if rank in (0, 3) else 1)
        dist.destroy_process_group(mine)
        dist.barrier()
        dist.destroy_process_group()
        # Nothing else holds groups.
        del mine, pairs, alone


def scene_quantised():
    """With EPIC_QUANTISE=int8: sums are rounded, within half of a 127th of each rank's largest number and of each sum of switches on
    two levels; as they are while the program turns that off, and so is all else."""
    rank, size = begin()
    count = 20_000
    numbers = torch.linspace(-1, 1, count)
    total = sum(range(1, size + 1))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        # Hosts round each of their sums to the type, besides.
        bits = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}[dtype]
        rounded = size * total / 2 ** bits
        for on in (True, False, True):
            torch_epic.quantise(on)
            tensor = (numbers * (rank + 1)).to(dtype)
            dist.all_reduce(tensor)
            off = (tensor.float() - numbers * total).abs().max().item()
            assert off <= rounded + (3 * total / 254 if on else 0), (dtype, on, off)
            assert not on or dtype != torch.float32 or off > 100 * rounded, off
    whole = torch.arange(count, dtype=torch.int32)
    dist.all_reduce(whole)
    same(whole, torch.arange(count, dtype=torch.int32) * size)
    dist.destroy_process_group()
