"""tests/budget.json, and whether a run has kept to it.

    {"reference": {"compile": S, "seeds": S},      what the reference took on the machine where the figures were taken
     "bounds": {"from nothing": S, "built": S},    what all may take together, compiles and the guests' kernel included or not
     "stages": {NAME: S},                          processor seconds of each stage, of its tests alone, in its dearest turn
     "compiles": {TREE: S},                        of all objects of a tree, in its dearest turn
     "kernel": S,
     "judged": whether a run that takes more fails; false while a run takes more than the figures,
     "reasons": {"STAGE TEST": "why it takes more than LONG_S"}}

What a machine does to the figures is no fault of a commit's, and fails no run:

- Another machine has the reference, which the run measures itself, before its tests and after them: the slower one counts. A figure
  is times what that takes there, but never less than it is.
- A machine may be slower in between. Then all stages are: a stage has become dearer if it is above its figure by more than
  the middle one of all stages is.
- What computes beside the run takes caches and half of a core from it, perhaps from some of its stages alone. If that is more than
  BESIDE of the processors' time, the bound is BESIDE_MORE times a figure, in place of MORE times, and that of a test without a
  reason BESIDE_LONG_S.
- What a test waited for a processor, it did not take.
"""
import statistics

from stage_pool import stages

FILE = stages.ROOT / "tests/budget.json"
MORE = 1.15  # above that something has become dearer
BESIDE, BESIDE_MORE = 0.05, 1.5
LONG_S = 10.0  # a test that takes more, of waiting or of a processor, has a reason
BESIDE_LONG_S = 25.0  # and fails the run above this, where much runs beside: beds come up slowly, and others' disks are waited for
SLOWER = 1.5  # times what is known of a test that has one, and LONG_S: above that it has become slower
NAMED = 5  # of what has grown
LEAST_S = 3.0  # what a small stage may vary by
JUDGED_S, JUDGED = 20.0, 5  # stages of such a figure tell how slow a machine is, so many of them
ALL_MORE = 1.5  # above that all has become dearer: no machine is so much slower than it was a moment before


def scales(measured, committed):
    """How much slower this machine is than that of the figures: for compiles, and for all else. Never below 1: a figure
    is not a smaller one because the reference ran in a cache."""
    if not measured:
        return {"compile": 1.0, "seeds": 1.0}
    return {what: max(1.0, measured[what] / committed[what]) for what in ("compile", "seeds")}


def sums(budget):
    """{"from nothing": S, "built": S}: what the figures add up to."""
    built = sum(budget["stages"].values())
    return {"built": built, "from nothing": built + sum(budget["compiles"].values()) + budget["kernel"]}


def grown(now, before, scale):
    """"NAME (S instead of S)" of what has grown most."""
    differences = sorted(((cpu - scale * before.get(name, 0.0), name) for name, cpu in now.items()), reverse=True)
    return ", ".join(f"{name} ({now[name]:.1f} s, was {before[name]:.1f})" if name in before else f"{name} ({now[name]:.1f} s, new)"
                     for more, name in differences[:NAMED] if more > 0.3)


def usual(run, budget, scale):
    """How many times its figure the middle one of all stages took, at least 1; 1 if too few were run."""
    taken = [cpu / (scale * budget["stages"][stage]) for stage, cpu in run.cost().items()
             if budget["stages"].get(stage, 0.0) >= JUDGED_S]
    return max(1.0, statistics.median(taken)) if len(taken) >= JUDGED else 1.0


def over(figure, allowed, more):
    return figure > max(more * allowed, allowed + LEAST_S)


def figures(budget):
    """{stage: processor seconds}, with the kernel's, which scripts/test makes in a stage of its own."""
    return budget["stages"] | {"guest-kernel": budget["kernel"]}


def of_stages(run, budget, times, scale, more):
    """A line for each stage that computed more than it may."""
    known = figures(budget)
    for stage, cpu in run.cost().items():
        allowed = scale * known.get(stage, 0.0)
        if stage in known and over(cpu, allowed, more):
            now = {name: line["cpu"] for name, line in run.tests.items() if line["stage"] == stage}
            before = {name: taken[1] for name, taken in times.get("tests", {}).items()}
            yield (f"budget: {stage} computed {cpu:.0f} s, of {allowed:.0f} that it may; grown most: "
                   f"{grown(now, before, scale) or 'no single test'}")


def of_compiles(run, budget, times, scale, more):
    """A line for each tree that took more than it may, or whose objects took more than is known of these: a turn that compiles
    less than the dearest may not grow either, nor what is compiled of a tree that is there. New ones count in the whole alone."""
    for tree, objects in run.trees.items():
        if tree not in budget["compiles"]:
            continue
        before = {name.partition(" ")[2]: cpu for name, cpu in times.get("objects", {}).items() if name.startswith(tree + " ")}
        same = objects.keys() & before.keys()
        for some, allowed in ((objects.keys(), budget["compiles"][tree]), (same, sum(before[name] for name in same))):
            taken = sum(objects[name] for name in some)
            if over(taken, scale * allowed, more):
                yield (f"budget: {len(some)} objects of build/{tree} took {taken:.0f} s, of {scale * allowed:.0f}; grown most: "
                       f"{grown(objects, before, scale)}")
                break


def of_tests(run, budget, times, scale, more):
    """A line for each test that takes long without a reason, or much longer than it did. What it waited for a processor does
    not count."""
    for name, line in run.tests.items():
        taken, known = max(line["cpu"], line["wall"] - line["stalled"]), times.get("tests", {}).get(name)
        said = f"{name} took {line['wall']:.1f} s, computed {line['cpu']:.1f} and waited {line['stalled']:.1f} for a processor"
        if any(name.startswith(reason) for reason in budget["reasons"]):
            if known and taken > SLOWER * more / MORE * scale * max(known) + LONG_S:
                yield f"budget: {said}: it took {max(known):.1f} s"
        elif taken > scale * (most := MORE * LONG_S if more == MORE else BESIDE_LONG_S):
            yield f"budget: {said}: more than 10 s without a reason in tests/budget.json, or the mark slow"
        elif taken > scale * LONG_S:
            yield f"{said}: above 10 s a test needs a reason in tests/budget.json; above {scale * most:.1f} it fails the run"


def verdict(run, budget, times):
    """Lines about what this run took; those that begin with "budget: " are what is wrong with it."""
    scale = scales(run.reference, budget["reference"])
    lines, slower, more = [], usual(run, budget, scale["seeds"]), MORE
    if run.beside > BESIDE:
        more = BESIDE_MORE
        lines.append(f"what ran beside took {100 * run.beside:.0f} % of the processors' time: a figure may be exceeded by "
                     f"{100 * (more - 1):.0f} %, and not by {100 * (MORE - 1):.0f}")
    if slower > MORE:
        lines.append(f"{'budget: ' if slower > ALL_MORE and more == MORE else ''}the middle one of all stages took {slower:.2f} times its "
                     "figure: all is dearer, or this machine is slower than its reference says; a stage is compared with that")
    scale["seeds"] *= slower
    if run.reference:
        lines.append(f"this machine takes {scale['compile']:.2f} times the compile and {scale['seeds']:.2f} times the seeds of "
                     "tests/budget.json's")
    lines += of_stages(run, budget, times, scale["seeds"], more)
    if run.cached:
        lines.append("compiles went through ccache and are not compared")
    else:
        lines += of_compiles(run, budget, times, scale["compile"], more)
    return lines + list(of_tests(run, budget, times, scale["seeds"], more))
