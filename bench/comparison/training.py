"""What bench/train measures: examples/torch/train.py, a rank on each host, by one backend of torch.distributed or another."""
import dataclasses
import re
import statistics

import rounds
from systems import RANKS, ROOT, Failed, epic_ranks

PROGRAM = ROOT / "examples" / "torch" / "train.py"
# Each backend on the test bed that it needs. Gloo's traffic, and torch's own, goes by the same links as EPIC's. "hosts" is
# EPIC around the ring of hosts.
BACKENDS = {"epic": "switches", "gloo": "bridges", "hosts": "switches"}
# What one rank may differ from the other in after STEPS steps; sums in another order have other last bits.
STEPS, TOLERANCE = 50, 1e-4
# The same as a share of the loss, against the ring of hosts: the bound of NetReduce's Figure 12.
SHARE_AGAINST_HOSTS = 0.002
# How many times as many steps as Gloo EPIC has to make, in the median of rounds, over links of 100 Mbit/s.
LEAST_RATIO = 1.25
_TIMEOUT_S = 900
_TOLD = re.compile(r"^(\d+) parameters, (\d+) steps: loss ([\d.]+), ([\d.]+) steps/s$", re.M)


@dataclasses.dataclass
class Training:
    """What rank 0 told of one training."""
    parameters: int
    loss: float
    steps_per_s: float


def command(bed, backend, rank, port, steps, mode=None):
    """What starts a rank: torchrun's variables, and that EPIC is to go through the switches, in this mode, or not at all."""
    path = {"EPIC_PATH": "hosts" if backend == "hosts" else "network"}
    if mode and backend == "epic":
        path["EPIC_MODE"] = mode
    variables = {"MASTER_ADDR": bed.addresses[0], "MASTER_PORT": port, "RANK": rank, "WORLD_SIZE": RANKS,
                 "GLOO_SOCKET_IFNAME": "vec0", **path, "OMP_NUM_THREADS": 1,
                 "PYTHONPATH": epic_ranks.BUILD / "pytorch" / "lib", "PYTHONDONTWRITEBYTECODE": 1}
    return ["env", *(f"{name}={value}" for name, value in variables.items()), "/usr/bin/python3", "-u", PROGRAM,
            "--backend", "gloo" if backend == "gloo" else "epic", "--steps", steps]


def train(bed, backend, port, steps, mode=None):
    """Trains once."""
    results = epic_ranks.run_ranks(bed.name, bed.hosts, lambda rank: command(bed, backend, rank, port, steps, mode),
                                   _TIMEOUT_S)
    told = _TOLD.search(results[0].output)
    if any(result.status != 0 for result in results) or not told:
        raise Failed(f"training by {backend}: "
                     + "\n".join(f"rank {r}: status {result.status}\n{result.output}" for r, result in enumerate(results)))
    return Training(int(told[1]), float(told[3]), float(told[4]))


def _other(trainings):
    """The backend beside EPIC's."""
    return next(backend for backend in trainings if backend != "epic")


def _ratios(trainings):
    """How many times as many steps EPIC makes, by round."""
    return [ours.steps_per_s / theirs.steps_per_s for ours, theirs in zip(trainings["epic"], trainings[_other(trainings)])]


def _share(spread):
    return f" ±{50 * spread:.1f} %"


def markdown(trainings, run):
    """The report of {backend: [Training of each round]}. run: what was measured, see bench/train."""
    other = _other(trainings)
    ours, theirs = trainings["epic"], trainings[other]
    ratios = _ratios(trainings)
    mb = 4 * ours[0].parameters / 1e6
    lines = [f"`{run['command']}`: {ours[0].parameters} parameters, {RANKS} ranks, {run['topology']}, links of {run['rate']}, "
             f"{run['rounds']} rounds of {run['steps']} steps by turns; {run['machine']}. ± is half the distance of the quartiles, "
             "of the median.", ""]
    if run["rounds"] < rounds.ENOUGH_ROUNDS:
        lines += [f"**Fewer than {rounds.ENOUGH_ROUNDS} rounds**: for a first look, not to be quoted.", ""]
    if run["busy"] > rounds.QUIET:
        lines += [f"**The machine was not quiet**: up to {100 * run['busy']:.0f} % of it was busy with other things.", ""]
    lines += [f"| backend | steps/s | links alone, steps/s | loss after {run['steps']} steps |", "|---|---:|---:|---:|"]
    # What each host sends of the gradients in a step: all of them, or, in a ring, 2(n - 1)/n times as much.
    for backend, rows, carries in (("epic", ours, 1), (other, theirs, 2 * (RANKS - 1) / RANKS)):
        speeds = [row.steps_per_s for row in rows]
        bound = run["mbit"] / 8 / (mb * carries)
        lines.append(f"| `{backend}` | {statistics.median(speeds):.3f}{_share(rounds.spread(speeds))} | {bound:.3f} "
                     f"| {statistics.median(row.loss for row in rows):.6f} |")
    lines += ["", f"`epic` makes {statistics.median(ratios):.2f} times as many steps{_share(rounds.spread(ratios))} "
              f"({min(ratios):.2f} to {max(ratios):.2f}); the losses differ by {difference(trainings):.1e} at most, "
              f"{100 * difference(trainings) / statistics.median(row.loss for row in theirs):.3f} %."]
    return "\n".join(lines)


def difference(trainings):
    """The most that the losses of two trainings are apart, of whatever backend."""
    losses = [row.loss for rows in trainings.values() for row in rows]
    return max(losses) - min(losses)


def shortcomings(trainings, steps, least_ratio):
    """What a run does not come up to, a line each. After more steps losses may differ by more."""
    ratio, apart = statistics.median(_ratios(trainings)), difference(trainings)
    lines = []
    if ratio < least_ratio:
        lines.append(f"epic makes {ratio:.3f} times as many steps as {_other(trainings)}, fewer than {least_ratio:g} times")
    most = TOLERANCE
    if _other(trainings) == "hosts":
        most = SHARE_AGAINST_HOSTS * statistics.median(row.loss for row in trainings["hosts"])
    if steps <= STEPS and apart > most:
        lines.append(f"the losses differ by {apart:.1e}, more than {most:g}")
    return lines
