"""A switch that adds in FP32 what hosts send as INT8 or INT4: "A Switch-Centric In-Network Architecture for Accelerating LLM
Inference in Shared-Memory Network" (SCIN)."""
import math

from reproduction.frame import Figure, Paper, Row

PROGRAM = "reduce/epic-accuracy"

BLOCKS, BITS = (32, 62, 128, 256, 512), (8, 4)
# dB that ours may be away from a formula.
TOLERANCE = 0.3
# Table 1: perplexity without quantisation; by the length of a block, with INT4 around a ring and behind the switch.
EXACT = 5.4721
INT4 = {32: (5.7977, 5.6055), 64: (5.9782, 5.6695)}


# --- noise, in units of that of all ranks' own blocks together: of each block s^2/12, and s^2 grows with what is in it

def switches(levels):
    return 1 + levels


def ring_exact(ranks):
    """The k-th sum has the noise of k ranks; so has the first block, which is a rank's own."""
    return (ranks + 1) / 2


def ring(ranks):
    """The same, and all others' own blocks."""
    return (ranks + 1) / 2 + (ranks - 1) / ranks


def doubling(ranks):
    """Each round has the noise of all ranks."""
    return 1 + math.log2(ranks)


def over_one_switch(noise):
    """dB that a way loses."""
    return 10 * math.log10(noise / switches(1))


def mean_square_peak(block):
    """Of so many Gaussian numbers of variance 1: the integral of 2 t P(peak > t), by Simpson's rule."""
    steps, end = 4000, 12.0
    width = end / steps
    total = 0.0
    for i in range(steps + 1):
        t = i * width
        weight = 1 if i in (0, steps) else 4 if i % 2 else 2
        total += weight * 2 * t * (1 - math.erf(t / math.sqrt(2)) ** block)
    return total * width / 3


def sqnr(block, bits):
    """Of one switch, in dB, however many ranks; a scale is what the peak takes, not rounded."""
    largest = 2 ** (bits - 1) - 1
    return 10 * math.log10(6 * largest ** 2 / mean_square_peak(block))


# --- figures

def measured(programs, *words):
    return programs.run(PROGRAM, *words, "--json")["rows"]


def near(what, theory, ours, unit="dB"):
    return Row(what, f"{theory:.1f}", ours, theory - TOLERANCE, theory + TOLERANCE, 2, unit)


def section_3_4(programs):
    rows = [near(f"INT{row['bits']}, blocks of {row['block']}", sqnr(row["block"], row["bits"]), row["one_switch"])
            for row in measured(programs, "--distribution", "gaussian")]
    rows += [near(f"INT8, blocks of 62, {row['ranks']} ranks", sqnr(62, 8), row["one_switch"])
             for row in measured(programs, "--distribution", "gaussian", "--ranks", "2,4,16,32,64", "--block", 62, "--bits", 8)]
    return rows


def section_2_1(programs):
    rows = []
    for row in measured(programs, "--distribution", "gaussian", "--ranks", "2,4,8,16,64", "--block", 62, "--bits", 8):
        ranks = row["ranks"]
        ways = [("ring, own part exact", "ring_exact", ring_exact(ranks)), ("ring", "ring", ring(ranks)),
                ("doubling", "doubling", doubling(ranks))]
        if ranks > 2:
            ways.insert(0, ("two levels of switches", "two_levels", switches(2)))
        for what, name, noise in ways:
            rows.append(near(f"{ranks} ranks, {what}", over_one_switch(noise), row["one_switch"] - row[name]))
    return rows


def table_1(programs):
    rows = []
    for row in measured(programs, "--distribution", "gaussian", "--block", "32,64", "--bits", 4):
        around, behind = INT4[row["block"]]
        rows.append(Row(f"INT4, blocks of {row['block']}", f"{(around - EXACT) / (behind - EXACT):.2f}",
                        10 ** ((row["one_switch"] - row["ring_exact"]) / 10), 2.1, 2.4))
    return rows


def distributions(programs):
    rows = []
    bounds = {"laplace": (39.6, 40.2), "t3": (36, 38), "outliers": (32.3, 33.5)}
    for row in measured(programs, "--distribution", ",".join(bounds), "--block", 62, "--bits", 8):
        name = row["distribution"]
        rows.append(Row(f"{name}: one switch", "", row["one_switch"], *bounds[name], 2, "dB"))
        for what in ("two_levels", "ring_exact", "ring", "doubling"):
            rows.append(Row(f"{what.replace('_', ' ')} below it", "", row["one_switch"] - row[what], 1, 5, 2, "dB"))
    return rows


PAPER = Paper(
    "scin", "A Switch-Centric In-Network Architecture for Accelerating LLM Inference in Shared-Memory Network",
    (Figure("Section 3.4", "SQNR behind one switch, Gaussian numbers, eight ranks unless a row says otherwise", section_3_4,
            "The paper has no figures of this kind. The column has 6 L^2/m^2, with L = 127 or 7 and m^2 the mean square of a\n"
            "block's peak: the noise of one quantisation per rank, and as much of the switch's own. So the ratio does not depend\n"
            "on the number of ranks. The kernels make blocks of 62 INT8, plain code the others. The paper has blocks of 64\n"
            "numbers in 66 bytes, ours have 62 in 64 bytes, so that packets hold whole ones. Scales in BF16 are rounded up.", True),
     Figure("Section 2.1", "what other ways lose of it, blocks of 62 INT8", section_2_1,
            "A ring quantises in each round, so that errors add up: (N + 1)/4 of the switch's noise with N ranks. There a rank adds\n"
            "its own numbers as they are. Ours combines two blocks, and has the noise of its own block, too. Two levels of\n"
            "switches, the lower ones with two ranks each, have 3/2 of the noise of one, and each round of doubling half of it.\n"
            "The column has these formulas.", True),
     Figure("Table 1", "loss of perplexity around a ring, over that behind the switch", table_1,
            "The paper's is of a language model in eight parts. Ours is the ratio of noise, with eight ranks: 9/4. They agree as\n"
            "long as the loss is small. With blocks of 128 to 512 the paper's is 2.9 to 5.1. Its figures for INT8 differ by no more\n"
            "than their own noise: behind the switch, blocks of 128 lose less than those of 64.", True),
     Figure("Distributions", "other numbers than Gaussian ones, blocks of 62 INT8, eight ranks", distributions,
            "Not in the paper. A block has one scale, so that a few large numbers take the precision of all beside them. Of\n"
            "outliers, every hundredth number of each rank is twenty times as large.", True)),
    (),
    (("Table 1, perplexities themselves", "of a language model; of a small one: bench/perplexity"),
     ("Table 2", "of large language models"),
     ("Figures 3 and 8 to 12", "times; these are figures of accuracy")))
