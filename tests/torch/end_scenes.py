"""Scenes in which a rank, or a child of one, ends."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch_epic
from collectives_scenes import begin, refused
from torch.utils.data import DataLoader, Dataset


def sums_right():
    tensor = torch.tensor([1 << (8 * dist.get_rank())])
    dist.all_reduce(tensor)
    assert tensor.item() == 0x01010101, hex(tensor.item())


def scene_killed():
    """Rank 2 dies; the others' call ends with an exception that names it, and so do later ones."""
    rank, _ = begin()
    sums_right()
    if rank == 2:
        print(f"killed at {time.monotonic()} s", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    refused(lambda: dist.all_reduce(torch.ones(5)), "rank 2")
    print(f"called at {began} s, told at {time.monotonic()} s", flush=True)
    refused(dist.barrier, "rank 2")
    future = None
    try:
        future = dist.all_reduce(torch.ones(5), async_op=True).get_future()
    except RuntimeError as error:
        assert "rank 2" in str(error), error
    assert future is None
    dist.destroy_process_group()


def scene_raises():
    """Rank 1 ends by an error of its own."""
    rank, _ = begin()
    sums_right()
    if rank == 1:
        raise ValueError("no such batch")
    refused(lambda: dist.all_reduce(torch.ones(5)), "rank 1", "no such batch")


def scene_leaves():
    """Rank 3 ends as if all were done while others have calls to make."""
    rank, _ = begin()
    sums_right()
    if rank != 3:
        refused(lambda: dist.all_reduce(torch.ones(5)), "mismatch", "a rank that leaves its group calls Barrier")


def scene_differs():
    rank, _ = begin()
    refused(lambda: dist.all_reduce(torch.ones(6 if rank == 1 else 5)), "mismatch", "another count", "rank")
    dist.destroy_process_group()


def scene_no_destroy():
    """The interpreter ends by itself; a call that nobody waits for is under way."""
    begin()
    sums_right()
    dist.new_group([0, 1])
    dist.all_reduce(torch.ones(1 << 18), async_op=True)


def scene_destroyed_under_a_call():
    """Gloo's thread ends a call of tensors that nobody else holds any more while it is waited for."""
    _, size = begin()
    dist.all_to_all_single(torch.zeros(size), torch.ones(size), async_op=True)
    dist.destroy_process_group()


def scene_refused(*words):
    """init_process_group says why, on every rank."""
    refused(begin, *words)
    assert not dist.is_initialized()


def scene_dies_joining():
    """Rank 2 dies before it has joined: the others are told, and do not wait for its word."""
    if os.environ["RANK"] == "2":
        torch_epic._C.ProcessGroupEpic._join = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    torch_epic._TELLING_S = 5
    refused(begin, "no group of 4 ranks", "join timeout", "2")


def scene_late():
    """A deadline of the group's, and one of a wait, when other ranks do not call."""
    rank, _ = begin()
    group = dist.new_group(timeout=timedelta(seconds=2))
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        refused(lambda: work.wait(timedelta(milliseconds=50)), "timed out")
        refused(work.wait, "EPIC: timeout:", "waits for ranks 1 (h1), 2 (h2), 3 (h3)")
        refused(lambda: dist.barrier(group), "EPIC: timeout:")
    dist.barrier()
    dist.destroy_process_group()


class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.tensor(index)


def child_ends(how):
    """Forks, and returns how the child ended."""
    child = os.fork()
    if child == 0:
        how()
        sys.exit(0)  # through the child's own end of the interpreter
    deadline = time.monotonic() + 60
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the child does not end")
        time.sleep(0.01)


def ends_without_leaving():
    """In a child: what its end must not do is its end."""
    torch_epic._C.leave_all = lambda *_: os._exit(7)


def makes_a_group():
    ends_without_leaving()
    refused(dist.new_group, "a child of fork")


def begins_anew():
    ends_without_leaving()
    dist.destroy_process_group()
    refused(lambda: dist.init_process_group("epic", store=dist.HashStore(), rank=0, world_size=1), "a child of fork")


def fails():
    sys.stderr.close()
    raise ValueError("a child's own error")


def scene_forks():
    """Children neither use nor end the group, however they end."""
    begin()
    group = dist.group.WORLD
    work = dist.all_reduce(torch.ones(3), async_op=True)
    ends = {lambda: None: 0, lambda: os._exit(3): 3, lambda: os.kill(os.getpid(), signal.SIGKILL): -9,
            dist.destroy_process_group: 0,
            lambda: refused(lambda: dist.all_reduce(torch.ones(1)), "child of fork"): 0,
            lambda: refused(lambda: group.send([torch.ones(1)], 0, 0), "child of fork"): 0,
            makes_a_group: 0, begins_anew: 0}
    for how, expected in ends.items():
        assert child_ends(how) == expected
        sums_right()
    child = os.fork()
    if child == 0:
        try:
            fails()
        finally:
            # As multiprocessing's children end.
            os._exit(1)
    os.waitpid(child, 0)
    work.wait()
    for workers in (2, 0):
        got = [number.item() for number in DataLoader(Numbers(), batch_size=None, num_workers=workers)]
        assert got == list(range(12))
        sums_right()
    # Workers of which one is killed.
    loader = iter(DataLoader(Numbers(), batch_size=None, num_workers=2, persistent_workers=True))
    next(loader)
    os.kill(loader._workers[0].pid, signal.SIGKILL)
    loader._workers[0].join()
    try:
        list(loader)
    except RuntimeError:
        pass
    del loader
    assert subprocess.run(["true"], check=True).returncode == 0
    sums_right()
    dist.barrier()
    dist.destroy_process_group()
