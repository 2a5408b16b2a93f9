"""Scenes of DistributedDataParallel: every rank ends with the same bits, and those of a training without it."""

import contextlib

import torch
import torch.distributed as dist
from collectives_scenes import begin
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    """Has a buffer, and a branch that not every input takes."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Linear(20, 30, dtype=dtype), nn.Linear(30, 5, dtype=dtype)
        self.odd = nn.Linear(30, 30, dtype=dtype)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, inputs, odd=False):
        self.seen.add_(len(inputs))
        hidden = torch.relu(self.first(inputs))
        return self.last(self.odd(hidden) if odd else hidden)


def batch(rank, step, count=8, dtype=torch.float32):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(count, 20, generator=generator).to(dtype)


def same_bits_everywhere(model, rank):
    for tensor in [*model.parameters(), *model.buffers()]:
        bits = tensor.detach().reshape(-1).view(torch.uint8)
        got = [torch.zeros_like(bits) for _ in range(dist.get_world_size())]
        dist.all_gather(got, bits)
        assert all(torch.equal(other, bits) for other in got), f"rank {rank} differs"


def train(model, steps, dtype=torch.float32, odd=lambda step: False, accumulate=1):
    rank = dist.get_rank()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        last = step % accumulate == accumulate - 1
        with contextlib.nullcontext() if last else model.no_sync():
            model(batch(rank, step, dtype=dtype), odd(step)).square().mean().backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def alone(steps, odd=lambda step: False, accumulate=1):
    """The same training by one process with the batches of all ranks."""
    model, size = Model(), dist.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        for rank in range(size):
            (model(batch(rank, step), odd(step)).square().mean() / size).backward()
        if step % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return model


def close(model, expected):
    for got, tensor in zip(model.module.parameters(), expected.parameters()):
        torch.testing.assert_close(got, tensor, rtol=1e-4, atol=1e-5)


def scene_training():
    rank, size = begin()
    model = DistributedDataParallel(Model(), find_unused_parameters=True)
    train(model, 8, odd=lambda step: step % 2 == 1)
    same_bits_everywhere(model, rank)
    close(model, alone(8, odd=lambda step: step % 2 == 1))
    assert model.module.seen.item() == 8 * 8

    model = DistributedDataParallel(Model(), find_unused_parameters=True, bucket_cap_mb=0.001)
    train(model, 8, accumulate=4)
    same_bits_everywhere(model, rank)
    close(model, alone(8, accumulate=4))

    # Ranks with different numbers of batches.
    model = DistributedDataParallel(Model(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with Join([model]):
        for step in range(2 + rank):
            model(batch(rank, step)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    for parameter in model.parameters():
        got = [torch.zeros_like(parameter) for _ in range(size)]
        dist.all_gather(got, parameter.detach())
        assert all(torch.equal(other, got[0]) for other in got)

    # torch has the third of its hooks, of bfloat16, for NCCL alone.
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        model = DistributedDataParallel(Model(), find_unused_parameters=True)
        model.register_comm_hook(None, hook)
        train(model, 3)
        same_bits_everywhere(model, rank)

    # A hook whose callbacks wait for calls that they make, in order where there is one bucket. torch's batched one fails by itself.
    model = DistributedDataParallel(Model())
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(model, 6, odd=lambda step: True)
    same_bits_everywhere(model, rank)

    # Gloo refuses these gradients.
    model = DistributedDataParallel(Model(torch.bfloat16), find_unused_parameters=True)
    train(model, 3, dtype=torch.bfloat16)
    same_bits_everywhere(model, rank)
    dist.destroy_process_group()
