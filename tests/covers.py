"""Pairwise covers of a product of axes, in place of the product: each two values of two axes meet in one row at least.

    rows = covers.cover({"way": WAYS, "type": TYPES, "in_place": [False, True]}, excluded=lambda row: ..., name="star-4")

What is wrong with one value, or with two that meet, a cover finds as the product does. Which rows they are follows from a
seed that turns with the commit, so that the runs of many commits see the product. `--full` takes `covers.product`.
"""

import functools
import itertools
import os
import pathlib
import random
import subprocess
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
VARIABLE = "EPIC_COVER_SEED"
MOST_ROWS = 500_000  # of a product: a larger one takes too long to look through
TRIES = 4            # rows that are built for each that is taken
made = []            # (name, rows of the cover, rows of the product) of each cover with a name, for pytest's report


@functools.cache
def seed():
    """The seed of this run: of the variable EPIC_COVER_SEED, else of the commit; 0 where there is no git."""
    if os.environ.get(VARIABLE):
        return int(os.environ[VARIABLE])
    try:
        done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0


def turn(name, count):
    """Which of `count` has its turn for what is called so: another one with the next commit, and not all names the same one."""
    return (seed() + zlib.crc32(name.encode())) % count


def replay():
    """What in front of the command line makes the same covers again."""
    return f"{VARIABLE}={seed()}"


def product(axes, excluded=lambda row: False):
    """All rows, as {axis: value}, but for those that are excluded."""
    size = 1
    for values in axes.values():
        size *= len(values)
    assert size <= MOST_ROWS, f"{size} rows of {list(axes)}: split the axes"
    rows = (dict(zip(axes, values)) for values in itertools.product(*axes.values()))
    return [row for row in rows if not excluded(row)]


def pairs(numbers):
    """The pairs of a row that is given as the places of its values: (axis, place, axis, place), axes in order."""
    return {(a, numbers[a], b, numbers[b]) for a, b in itertools.combinations(range(len(numbers)), 2)}


def cover(axes, excluded=lambda row: False, seed=None, name=None):  # pylint: disable=redefined-outer-name
    """Rows of product(axes, excluded) in which each pair of values is that any of its rows has. The same seed gives the
    same rows; without one it is that of this run. With a name pytest's report says how many of the product these are."""
    chance = random.Random(globals()["seed"]() if seed is None else seed)
    allowed = product(axes, excluded)
    rows = [allowed[number] for number in _chosen(_places(axes, allowed), chance)]
    if name:
        made.append((name, len(rows), len(allowed)))
    return rows


def _places(axes, rows):
    """The rows by the places of their values, which need not be hashable, in their axes."""
    return [tuple(next(place for place, value in enumerate(values) if value is row[axis] or value == row[axis])
                  for axis, values in axes.items()) for row in rows]


def _chosen(rows, chance):
    """Numbers of rows that together have each pair: the best of some that are built around a pair that is missing."""
    missing = {pair: None for row in rows for pair in sorted(pairs(row))} if rows and len(rows[0]) > 1 else {}
    with_value = {}
    for number, row in enumerate(rows):
        for axis, place in enumerate(row):
            with_value.setdefault((axis, place), []).append(number)
    if not missing:  # of a single axis: each value once
        return sorted({numbers[0] for numbers in with_value.values()})
    chosen = []
    while missing:
        wanted = chance.choices(list(missing), k=TRIES)
        built = [_built_around(pair, rows, with_value, missing, chance) for pair in wanted]
        best = max(built, key=lambda number: sum(pair in missing for pair in pairs(rows[number])))
        chosen.append(best)
        for pair in pairs(rows[best]):
            missing.pop(pair, None)
    return chosen


def _built_around(pair, rows, with_value, missing, chance):
    """The number of a row with this pair, its other values chosen one by one as each brings most missing pairs."""
    a, at_a, b, at_b = pair
    fewer, axis, place = min((with_value[a, at_a], b, at_b), (with_value[b, at_b], a, at_a), key=lambda entry: len(entry[0]))
    left = [number for number in fewer if rows[number][axis] == place]
    fixed = {a: at_a, b: at_b}
    others = [axis for axis in range(len(rows[0])) if axis not in fixed]
    chance.shuffle(others)
    for axis in others:
        by_place = {}
        for number in left:
            by_place.setdefault(rows[number][axis], []).append(number)

        def gain(place, axis=axis):
            return sum(((axis, place, other, at) if axis < other else (other, at, axis, place)) in missing
                       for other, at in fixed.items())
        gains = {place: gain(place) for place in by_place}
        most = max(gains.values())
        fixed[axis] = chance.choice([place for place in by_place if gains[place] == most])
        left = by_place[fixed[axis]]
    return chance.choice(left)
