"""What bench/perplexity rounds, against the formulas of docs/REPRODUCED.md ("SCIN"): dB of Gaussian numbers of eight ranks."""

import sys

import harness
import pytest
import torch_ranks

sys.path[:0] = [str(harness.ROOT / "bench" / "comparison"), str(harness.ROOT / "scripts" / "lib"), str(torch_ranks.MODULE)]

# pylint: disable=wrong-import-position
import perplexity  # noqa: E402
from reproduction import scin  # noqa: E402
from perplexity import torch  # noqa: E402


def db_of(way, parts, block, bits):
    exact = perplexity.exact(parts)
    return (10 * torch.log10(exact.square().mean() / (way(parts, block, bits) - exact).square().mean())).item()


@pytest.mark.parametrize("bits", perplexity.BITS)
@pytest.mark.parametrize("block", perplexity.BLOCKS)
def test_a_switch_rounds_once_more_than_its_ranks_and_a_ring_at_each_hop(block, bits):
    torch.manual_seed(5)
    parts = [torch.randn(64, 4096) for _ in range(perplexity.SHARES)]
    by_switch = db_of(perplexity.by_switch, parts, block, bits)
    assert abs(by_switch - scin.sqnr(block, bits)) < scin.TOLERANCE
    assert abs(by_switch - db_of(perplexity.by_ring, parts, block, bits) - scin.over_one_switch(scin.ring_exact(8))) < scin.TOLERANCE


def test_a_last_block_may_be_short_and_zeros_stay():
    numbers = torch.tensor([1.0, 0.5, 0.0, 0.0, 127.0])
    assert torch.equal(perplexity.rounded(numbers, 2, 8), torch.tensor([1.0, 64 / 127, 0.0, 0.0, 127.0]))


def test_what_is_not_as_in_the_paper_is_told():
    cells = {(bits, block, way): perplexity.Rounded(error, 5 + lost, lost / 10) for bits in (8, 4) for block in perplexity.BLOCKS
             for way, error, lost in (("ring", 2, 0.25), ("switch", 1, 0.125))}
    assert perplexity.shortcomings(cells) == []
    assert "| 4 | 32 | 2 | 1 | 0.025 | 0.0125 | 2.00 | 2.44 | 0.2500 | 0.1250 |" in perplexity.markdown(5, cells, {}, {"command": "x", "steps": 1})
    cells[8, 64, "switch"].error, cells[4, 32, "ring"].divergence = 2, 0.05
    assert perplexity.shortcomings(cells) == [
        "INT8, blocks of 64: the switch's error of the logits is not less than the ring's",
        "INT4, blocks of 32: a ring's predictions diverge 4.00 times as much, not 1.6 to 3.2 times"]


def test_what_diverges():
    logits = perplexity.torch.zeros(1, 2, 2)
    tested = [(None, perplexity.torch.zeros(1, 2, dtype=perplexity.torch.long))]
    assert perplexity.compared(logits, logits, tested) == perplexity.Rounded(0, pytest.approx(2), 0)
    # Of even odds, when one is told as 3 to 1: ln 2 - ln 3 / 2.
    got = perplexity.compared(logits + perplexity.torch.tensor([0, -1.0986123]), logits, tested)
    assert got.divergence == pytest.approx(0.1438410, abs=1e-6)
