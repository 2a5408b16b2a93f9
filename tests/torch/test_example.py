"""examples/torch, as they are."""

import math
import os
import pathlib
import re
import shlex
import subprocess
import sys

import harness
import torch_ranks

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "torch" / "train.py"
SPLIT = EXAMPLE.with_name("tensor_parallel.py")
SIZE = ("--steps", 4, "--width", 64, "--layers", 2)


def told(done):
    """What rank 0 said of its training; the others say nothing."""
    assert done.statuses == [0] * 4, str(done)
    assert all("loss" not in output for output in done.outputs[1:]), str(done)
    line = re.search(r"^(?:\[default0\]:)?(\d+) parameters, 4 steps: loss ([\d.]+), [\d.]+ steps/s$", done.outputs[0], re.M)
    assert line, str(done)
    return int(line[1]), float(line[2])


def test_the_example_trains_as_with_gloo(bed, ranks):
    parameters, loss = told(ranks.finish(ranks.start(EXAMPLE, *SIZE)))
    by_gloo = told(ranks.finish(ranks.start(EXAMPLE, *SIZE, "--backend", "gloo")))
    assert by_gloo[0] == parameters and abs(by_gloo[1] - loss) < 1e-4, (loss, by_gloo)
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 60
    bed.wait_clean()


def test_layers_that_are_split_learn_as_in_one_process(bed, ranks):
    """By EPIC, by Gloo, and where one process has all four shares."""
    sys.path.insert(0, str(SPLIT.parent))
    sys.path.insert(0, str(torch_ranks.MODULE))
    import tensor_parallel  # pylint: disable=import-outside-toplevel,import-error
    text = harness.ROOT / "README.md"
    known, unknown = tensor_parallel.read([text])
    torch = tensor_parallel.torch
    torch.manual_seed(1)
    model = tensor_parallel.Model(128, shares=4, put_together=lambda parts: torch.stack(parts).sum(0))
    tensor_parallel.learn(model, known, 2)
    with torch.no_grad():
        loss = tensor_parallel.loss_of(model, *tensor_parallel.batch(torch.Generator().manual_seed(3), unknown, 32, 64))
    for backend in ("epic", "gloo"):
        done = ranks.finish(ranks.start(SPLIT, text, "--steps", 2, "--backend", backend))
        assert done.statuses == [0] * 4, str(done)
        told = re.search(r"^2 steps: perplexity ([\d.]+) of text", done.outputs[0], re.M)
        assert told and abs(math.log(float(told[1])) - loss.item()) < 1e-3, (str(done), loss)
    bed.wait_clean()


def test_the_example_by_torchrun(bed, ranks):
    """As docs/TORCH.md starts it; torchrun takes options from PET_ variables."""
    nodes = {rank: {"PET_NODE_RANK": rank} for rank in range(4)}
    told(ranks.finish(ranks.start("-m", "torch.distributed.run", "--redirects", 1, "--tee", 1, "--nnodes", 4, "--master_addr",
                                  torch_ranks.OUTSIDE + "1", EXAMPLE, *SIZE, of_rank=nodes)))
    bed.wait_clean()


def test_the_pages_first_lines(bed):
    """docs/TORCH.md, but for what builds, and brings a bed up and down; a smaller training."""
    page = (harness.ROOT / "docs" / "TORCH.md").read_text(encoding="utf-8")
    line, = re.findall(r"^    (scripts/testbed torchrun .*)$", page, re.M)
    done = subprocess.run([*shlex.split(line), *map(str, SIZE)], cwd=harness.ROOT, env={**os.environ, "TESTBED_NAME": bed.name},
                          capture_output=True, text=True, timeout=harness.END_S, check=False)
    assert done.returncode == 0 and re.search(r"^\[h0\] .*parameters, 4 steps: loss ", done.stdout, re.M), done.stdout + done.stderr
    bed.wait_clean()
