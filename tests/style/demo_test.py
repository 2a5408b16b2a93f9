"""What scripts/demo prints of the calls of a size, and how many it makes."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import demo_run  # noqa: E402 pylint: disable=wrong-import-position


def result(times, **more):
    halves = {"out_of_place": {"each_us": times, "wrong": 0}, "in_place": {"wrong": 0}}
    return {"collective": "allreduce", "size": 4096, **halves, **more}


def test_a_row_has_the_first_call_those_after_two_and_the_last_quarter():
    times = [9000, 5000] + 18 * [200] + 1000 * [400] + 340 * [85]
    assert demo_run.row(result(times)).split() == [
        "allreduce", "4", "KB", "9.00", "ms", "200", "us", "85", "us", "1021", "to", "1360", "0"]


def test_wrong_elements_are_those_of_both_halves_and_a_barrier_has_none_and_no_size():
    assert demo_run.row(result(24 * [1], in_place={"wrong": 3})).split()[-1] == "3"
    barrier = result(24 * [1], collective="barrier", out_of_place={"each_us": 24 * [1], "wrong": None})
    assert demo_run.row(barrier).split()[:3] == ["barrier", "1", "us"]


def test_each_size_has_more_than_the_calls_that_are_told_of_and_small_ones_over_a_thousand():
    assert demo_run.sizes_of("4K", "4M") == [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]
    for size in demo_run.sizes_of("1", "64M"):
        for softnic in (True, False):
            assert 24 <= demo_run.calls_of(size, softnic) <= 1300
    assert demo_run.calls_of(64 << 10) == 1300


def test_what_the_library_writes_before_is_not_read():
    assert demo_run.results_of('epic: group g: hosts\n{\n "results": [1]\n}\n') == [1]
    assert demo_run.results_of("cannot join") == []


def test_splits_are_those_of_the_groups_switches():
    pool = [{"name": "claims", "value": "7"}, {"name": "splits", "value": "5"}]
    assert demo_run.splits_of({"tree": [{"switch_name": "s1", "pool": pool}]}) == 5
    assert demo_run.splits_of({"tree": [{"switch_name": "s1"}]}) == demo_run.splits_of({}) == 0


def test_who_has_to_split():
    shown = {"message_packets": 8, "window_messages": 8, "path_mtu": 4096}
    assert demo_run.must_split(shown, 16, 64 << 10)
    assert not demo_run.must_split(shown, 16, 60 << 10)  # a call has room
    assert not demo_run.must_split(shown, 64, 4 << 20)   # what may be under way has
    assert not demo_run.must_split({}, 16, 4 << 20)      # nothing was shown
