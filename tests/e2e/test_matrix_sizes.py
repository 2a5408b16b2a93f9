"""The matrix (test_matrix.py) on both paths in groups of 3, 4, 5 and 8 ranks, some of them on one host, over softnic;
between the hosts also by each algorithm alone."""

import pytest

import test_matrix
from test_matrix import COLLECTIVES, MISMATCHES, MODES

BED = ("tree-3-2", "--hosts", "softnic")
SIZES = (3, 4, 5, 8)
MOST = max(SIZES)
# Mode II in every run, all modes in a full one; `doubling` and `ring` are the hosts'.
WAYS = (2, "hosts")
FULL_WAYS = (*MODES, "hosts", "doubling", "ring")
RANDOM_CALLS = {False: 40, True: 1000}


def name_of(what, way, size):
    return test_matrix.group_name(f"{what}-of-{size}", way)


def asked_for(way):
    if way in ("doubling", "ring"):
        return {"path": "hosts", "algorithm": way}
    return test_matrix.asked_for(way)


def cases_of(collective, size, full):
    """All calls in a full run; else a few, others for each size."""
    calls = test_matrix.cases_of(collective, full, size)
    return calls if full else calls[SIZES.index(size)::16]


def random_calls(way, size, full):
    return test_matrix.random_calls(test_matrix.SEED + 100 * size + FULL_WAYS.index(way), RANDOM_CALLS[full], size)


def mismatched(field, way, size):
    return {**test_matrix.mismatched(field, "hosts"), **asked_for(way), "size": size,
            "group": name_of("mismatch-" + field, way, size)}


def groups_of(full):
    groups = []
    for size in SIZES:
        for way in FULL_WAYS if full else WAYS:
            of = {**asked_for(way), "size": size}
            groups += [{**of, "group": name_of(collective, way, size), "outstanding": 3,
                        "calls": cases_of(collective, size, full)} for collective in COLLECTIVES]
            groups.append({**of, "group": name_of("random", way, size), "outstanding": 6,
                           "calls": random_calls(way, size, full)})
            groups += [mismatched(field, way, size) for field in (MISMATCHES if full else list(MISMATCHES)[:5])]
    return groups


@pytest.fixture(name="told", scope="module")
def fixture_told(all_beds, request):
    """What each rank told of each group: told[rank][group]."""
    full = request.config.getoption("--full")
    return test_matrix.run_all(all_beds.get(*BED), MOST, groups_of(full), 3000 if full else 300)


def cases():
    """Ways and sizes; those of full runs alone are marked so."""
    return [pytest.param(way, size, marks=() if way in WAYS else pytest.mark.slow) for way in FULL_WAYS for size in SIZES]


@pytest.mark.parametrize("way, size", cases())
def test_every_collective(told, way, size, request):
    full = request.config.getoption("--full")
    for collective in COLLECTIVES:
        test_matrix.expect_right(told, name_of(collective, way, size), asked_for(way)["path"],
                                 cases_of(collective, size, full), size)


@pytest.mark.parametrize("way, size", cases())
def test_random_calls_in_one_group(told, way, size, request):
    calls = random_calls(way, size, request.config.getoption("--full"))
    test_matrix.expect_right(told, name_of("random", way, size), asked_for(way)["path"], calls, size)


@pytest.mark.parametrize("way, size", cases())
def test_mismatched_calls_end_in_the_same_error_everywhere(told, way, size, request):
    full = request.config.getoption("--full")
    for field in MISMATCHES if full else list(MISMATCHES)[:5]:
        test_matrix.expect_mismatch(told, name_of("mismatch-" + field, way, size), asked_for(way)["path"],
                                    field.partition(",")[0], size)


def test_nothing_remains(all_beds):
    all_beds.get(*BED).wait_clean()
