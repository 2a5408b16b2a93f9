"""What bench/train measures: examples/torch/train.py, a rank on each host, by one backend of torch.distributed or another."""
import dataclasses
import re
import statistics

import rounds
from systems import RANKS, ROOT, Failed, epic_ranks

PROGRAM = ROOT / "examples" / "torch" / "train.py"


@dataclasses.dataclass(frozen=True)
class Backend:
    """Who makes a training's calls."""
    bed: str  # the kind of test bed that it needs; Gloo's traffic, and torch's own, goes by the same links as EPIC's
    torch: str  # torch's name for it
    carries: float  # how much of the gradients' bytes a host sends in a step
    path: str = "network"
    variables: dict = dataclasses.field(default_factory=dict)


# A ring, as Gloo's, sends 2(n - 1)/n of the gradients; blocks of INT8 have 64 bytes for 62 numbers of FP32.
_RING = 2 * (RANKS - 1) / RANKS
BACKENDS = {"epic": Backend("switches", "epic", 1),
            "epic-int8": Backend("switches", "epic", 64 / (62 * 4), variables={"EPIC_QUANTISE": "int8"}),
            "hosts": Backend("switches", "epic", _RING, path="hosts"),
            "gloo": Backend("bridges", "gloo", _RING)}
STEPS = 50
# Who is judged beside whom: how many times as many steps one has to make, in the median of rounds, over links of 100 Mbit/s; and,
# after STEPS steps or fewer, what the losses may differ by. Sums in another order have other last bits: so much, or the share of the
# loss that NetReduce's Figure 12 has against a ring of hosts. Blocks of INT8 are rounded.
LEAST_RATIO = {("epic", "gloo"): 1.25, ("epic", "hosts"): 1.25, ("epic-int8", "epic"): 1.4}
TOLERANCE = {("epic", "gloo"): 1e-4}
SHARE = {("epic", "hosts"): 0.002, ("epic-int8", "epic"): 0.01}
_TIMEOUT_S = 900
_TOLD = re.compile(r"^(\d+) parameters, (\d+) steps: loss ([\d.]+), ([\d.]+) steps/s$", re.M)


@dataclasses.dataclass
class Training:
    """What rank 0 told of one training."""
    parameters: int
    loss: float
    steps_per_s: float
    seed: int = 1


def command(bed, backend, rank, port, steps, mode=None, seed=1):
    """What starts a rank: torchrun's variables, and that EPIC is to go through the switches, in this mode, or not at all."""
    who = BACKENDS[backend]
    path = {"EPIC_PATH": who.path, **who.variables}
    if mode and who.torch == "epic" and who.path == "network":
        path["EPIC_MODE"] = mode
    variables = {"MASTER_ADDR": bed.addresses[0], "MASTER_PORT": port, "RANK": rank, "WORLD_SIZE": RANKS,
                 "GLOO_SOCKET_IFNAME": "vec0", **path, "OMP_NUM_THREADS": 1,
                 "PYTHONPATH": epic_ranks.BUILD / "pytorch" / "lib", "PYTHONDONTWRITEBYTECODE": 1}
    return ["env", *(f"{name}={value}" for name, value in variables.items()), "/usr/bin/python3", "-u", PROGRAM,
            "--backend", who.torch, "--steps", steps, "--seed", seed]


def train(bed, backend, port, steps, mode=None, seed=1):
    """Trains once."""
    results = epic_ranks.run_ranks(bed.name, bed.hosts, lambda rank: command(bed, backend, rank, port, steps, mode, seed),
                                   _TIMEOUT_S)
    told = _TOLD.search(results[0].output)
    if any(result.status != 0 for result in results) or not told:
        raise Failed(f"training by {backend}: "
                     + "\n".join(f"rank {r}: status {result.status}\n{result.output}" for r, result in enumerate(results)))
    return Training(int(told[1]), float(told[3]), float(told[4]), seed)


def _pairs(trainings):
    """Who is compared: the first with each of the others."""
    first, *others = trainings
    return [(first, other) for other in others]


def _ratios(trainings, pair):
    """How many times as many steps the first makes as the other, by round."""
    return [ours.steps_per_s / theirs.steps_per_s for ours, theirs in zip(*(trainings[backend] for backend in pair))]


def _share(spread):
    return f" ±{50 * spread:.1f} %"


def markdown(trainings, run):
    """The report of {backend: [Training of each round]}, of whom the first is compared with the others. run: what was measured, see
    bench/train."""
    parameters = next(iter(trainings.values()))[0].parameters
    mb = 4 * parameters / 1e6
    lines = [f"`{run['command']}`: {parameters} parameters, {RANKS} ranks, {run['topology']}, links of {run['rate']}, "
             f"{run['rounds']} rounds of {run['steps']} steps by turns; {run['machine']}. ± is half the distance of the quartiles, "
             "of the median.", ""]
    if run["rounds"] < rounds.ENOUGH_ROUNDS:
        lines += [f"**Fewer than {rounds.ENOUGH_ROUNDS} rounds**: for a first look, not to be quoted.", ""]
    if run["busy"] > rounds.QUIET:
        lines += [f"**The machine was not quiet**: up to {100 * run['busy']:.0f} % of it was busy with other things.", ""]
    lines += [f"| backend | steps/s | links alone, steps/s | loss after {run['steps']} steps |", "|---|---:|---:|---:|"]
    for backend, rows in trainings.items():
        speeds = [row.steps_per_s for row in rows]
        bound = run["mbit"] / 8 / (mb * BACKENDS[backend].carries)
        lines.append(f"| `{backend}` | {statistics.median(speeds):.3f}{_share(rounds.spread(speeds))} | {bound:.3f} "
                     f"| {statistics.median(row.loss for row in rows):.6f} |")
    for first, other in _pairs(trainings):
        ratios, apart = _ratios(trainings, (first, other)), difference(trainings, (first, other))
        lines += ["", f"`{first}` makes {statistics.median(ratios):.2f} times as many steps as `{other}`{_share(rounds.spread(ratios))} "
                  f"({min(ratios):.2f} to {max(ratios):.2f}); the losses differ by {apart:.1e} at most, "
                  f"{100 * apart / statistics.median(row.loss for row in trainings[other]):.3f} %."]
    return "\n".join(lines)


def difference(trainings, pair):
    """The most that the losses of two trainings of one seed are apart, of either backend or of both."""
    seeds = {}
    for backend in pair:
        for row in trainings[backend]:
            seeds.setdefault(row.seed, []).append(row.loss)
    return max(max(losses) - min(losses) for losses in seeds.values())


def shortcomings(trainings, steps, least_ratio=None):
    """What a run does not come up to, a line each. least_ratio: in place of LEAST_RATIO's. After more steps losses may differ by more."""
    lines = []
    for pair in _pairs(trainings):
        if pair not in LEAST_RATIO:
            continue
        first, other = pair
        least = LEAST_RATIO[pair] if least_ratio is None else least_ratio
        ratio, apart = statistics.median(_ratios(trainings, pair)), difference(trainings, pair)
        if ratio < least:
            lines.append(f"{first} makes {ratio:.3f} times as many steps as {other}, fewer than {least:g} times")
        most = TOLERANCE.get(pair) or SHARE[pair] * statistics.median(row.loss for row in trainings[other])
        if steps <= STEPS and apart > most:
            lines.append(f"the losses of {first} and {other} differ by {apart:.1e}, more than {most:g}")
    return lines
