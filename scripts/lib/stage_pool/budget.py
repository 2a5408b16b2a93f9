"""tests/budget.json, and whether a run has kept to it.

    {"reference": {"compile": S, "seeds": S},      what the reference took on the machine where the figures were taken
     "bounds": {"from nothing": S, "built": S},    what all may take together, compiles and the guests' kernel included or not
     "stages": {NAME: S},                          processor seconds of each stage, of its tests alone
     "compiles": {TREE: S},                        of all objects of a tree
     "kernel": S,
     "judged": whether a run that takes more fails; false while a run takes more than the figures,
     "reasons": {"STAGE TEST": "why it takes more than LONG_S"}}

A run on another machine is measured by the reference, which it runs itself: a figure times what that machine takes for it.
The reference is a moment, and a machine may be slower in the minutes after it. Then all stages are: a stage has become dearer
if it is above its figure by more than the middle one of all stages is.
"""
import statistics

from stage_pool import stages

FILE = stages.ROOT / "tests/budget.json"
MORE = 1.15  # above that something has become dearer
LONG_S = 10.0  # a test that takes more, of waiting or of a processor, has a reason
NAMED = 5  # of what has grown
WHOLE = 0.97  # of the objects of a tree that must have been compiled before their sum is compared
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


def over(figure, allowed):
    return figure > max(MORE * allowed, allowed + LEAST_S)


def of_stages(run, budget, times, scale):
    """A line for each stage that computed more than it may."""
    for stage, cpu in run.cost().items():
        if stage not in budget["stages"]:
            continue
        allowed = scale * budget["stages"][stage]
        if over(cpu, allowed):
            now = {name: line["cpu"] for name, line in run.tests.items() if line["stage"] == stage}
            before = {name: taken[1] for name, taken in times.get("tests", {}).items()}
            yield (f"budget: {stage} computed {cpu:.0f} s, of {allowed:.0f} that it may; grown most: "
                   f"{grown(now, before, scale) or 'no single test'}")


def of_compiles(run, budget, times, scale):
    """A line for each tree that was compiled as a whole and took more than it may."""
    for tree, objects in run.trees.items():
        if tree not in budget["compiles"]:
            continue
        before = {name.partition(" ")[2]: cpu for name, cpu in times.get("objects", {}).items() if name.startswith(tree + " ")}
        allowed = scale * budget["compiles"][tree]
        if len(objects) < WHOLE * len(before):
            # Of a part, each object by itself.
            allowed = sum(scale * before.get(name, 0.0) for name in objects)
        if over(sum(objects.values()), allowed):
            yield (f"budget: {len(objects)} objects of build/{tree} took {sum(objects.values()):.0f} s, of {allowed:.0f}; grown most: "
                   f"{grown(objects, before, scale)}")


def of_tests(run, budget, scale):
    """A line for each test that takes long without a reason. What it waited for a processor does not count."""
    for name, line in run.tests.items():
        taken = max(line["cpu"], line["wall"] - line["stalled"])
        if taken > LONG_S * scale and not any(name.startswith(known) for known in budget["reasons"]):
            yield (f"budget: {name} took {line['wall']:.1f} s, computed {line['cpu']:.1f} and waited {line['stalled']:.1f} for a processor: "
                   "more than 10 s without a reason in tests/budget.json, or the mark slow")


def verdict(run, budget, times):
    """Lines about what this run took; those that begin with "budget: " are what is wrong with it."""
    scale = scales(run.reference, budget["reference"])
    lines, slower = [], usual(run, budget, scale["seeds"])
    if slower > MORE:
        lines.append(f"{'budget: ' if slower > ALL_MORE else ''}the middle one of all stages took {slower:.2f} times its figure: all is "
                     "dearer, or this machine is slower than its reference says; a stage is compared with that")
    scale["seeds"] *= slower
    if run.reference:
        lines.append(f"this machine takes {scale['compile']:.2f} times the compile and {scale['seeds']:.2f} times the seeds of "
                     "tests/budget.json's")
    lines += of_stages(run, budget, times, scale["seeds"])
    if run.cached:
        lines.append("compiles went through ccache and are not compared")
    else:
        lines += of_compiles(run, budget, times, scale["compile"])
    return lines + list(of_tests(run, budget, scale["seeds"]))
