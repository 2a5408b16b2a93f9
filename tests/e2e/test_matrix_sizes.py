"""The matrix (test_matrix.py) on both paths in groups of 3, 4, 5 and 8 ranks, some of them on one host, over softnic;
between the hosts also by each algorithm alone. Where ranks share a host, a word may overtake a datagram, and its chunk is read."""

import pytest

import covers
import test_matrix
from test_matrix import COLLECTIVES, MISMATCHES, MODES

BED = ("tree-3-2", "--hosts", "softnic")
HOSTS, SIZES = 4, (3, 4, 5, 8)
# Mode II and between the hosts in every run, each with half of the sizes, by turns with the commit; all in a full one, where
# `doubling`, `ring` and `multicast` are the hosts'.
WAYS = (2, "hosts")
FULL_WAYS = (*MODES, "hosts", "doubling", "ring", "multicast")
RANDOM_CALLS = {False: 40, True: 1000}
# Elements of all shares together; as many for each of eight shares keep two cores busy for hours.
MOST_ELEMENTS = max(test_matrix.LARGE)


def name_of(what, way, size):
    return test_matrix.group_name(f"{what}-of-{size}", way)


def asked_for(way):
    if way in ("doubling", "ring"):
        return {"path": "hosts", "algorithm": way}
    return test_matrix.asked_for(way)


def fit(call, size):
    """The call with as many elements together as one without shares has at most."""
    shares = size if call["collective"] in ("reducescatter", "allgather") else 1
    return call if "count" not in call else {**call, "count": min(call["count"], MOST_ELEMENTS // shares)}


def cases_of(collective, size, full):
    """All calls in a full run; else a few, others for each size."""
    calls = [fit(call, size) for call in test_matrix.cases_of(collective, full, size)]
    return calls if full else calls[SIZES.index(size)::7]


def random_calls(way, size, full):
    return test_matrix.random_calls(test_matrix.SEED + 100 * size + FULL_WAYS.index(way), RANDOM_CALLS[full], size)


def mismatched(field, way, size):
    return {**test_matrix.mismatched(field, "hosts"), **asked_for(way), "size": size,
            "group": name_of("mismatch-" + field, way, size)}


def fields(full):
    return list(MISMATCHES) if full else list(MISMATCHES)[:5]


def groups_of(way, size, full):
    of = {**asked_for(way), "size": size}
    groups = [{**of, "group": name_of(collective, way, size), "outstanding": 3,
               "calls": cases_of(collective, size, full)} for collective in COLLECTIVES]
    groups.append({**of, "group": name_of("random", way, size), "outstanding": 6,
                   "calls": random_calls(way, size, full)})
    return groups + [mismatched(field, way, size) for field in fields(full)]


def share_hosts(size):
    return size > HOSTS


def cases(full):
    """Ways and sizes. In a default run each size goes one way, and the other with the next commit."""
    turn = covers.turn("sizes of the matrix", len(WAYS))
    return [(way, size) for way in (FULL_WAYS if full else WAYS) for number, size in enumerate(SIZES)
            if full or WAYS[(number + turn) % len(WAYS)] == way]


def pytest_generate_tests(metafunc):
    if "run" in metafunc.fixturenames:
        metafunc.parametrize("run", cases(metafunc.config.getoption("--full")), ids=lambda case: f"{case[0]}-{case[1]}", indirect=True,
                             scope="module")


@pytest.fixture(name="run", scope="module")
def fixture_run(all_beds, request):
    """A way, a size, and what each rank told of each group there: told[rank][group]."""
    way, size = request.param
    full = request.config.getoption("--full")
    return way, size, test_matrix.run_all(all_beds.get(*BED), size, groups_of(way, size, full), 1800 if full else 300)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_type_and_operation(run, collective, request):
    way, size, told = run
    test_matrix.expect_right(told, name_of(collective, way, size), asked_for(way)["path"],
                             cases_of(collective, size, request.config.getoption("--full")), size, share_hosts(size))


def test_random_calls_in_one_group(run, request):
    way, size, told = run
    calls = random_calls(way, size, request.config.getoption("--full"))
    test_matrix.expect_right(told, name_of("random", way, size), asked_for(way)["path"], calls, size, share_hosts(size))


def test_mismatched_calls_end_in_the_same_error_everywhere(run, request):
    way, size, told = run
    for field in fields(request.config.getoption("--full")):
        test_matrix.expect_mismatch(told, name_of("mismatch-" + field, way, size), asked_for(way)["path"],
                                    field.partition(",")[0], size)


def test_nothing_remains(all_beds):
    all_beds.get(*BED).wait_clean()
