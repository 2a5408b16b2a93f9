"""What a group and ordinary traffic notice of what goes on beside them on one switch: bounds against collapse.

Everything shares this machine's processors, and other programs may run on them. So nothing is compared with a time, only
with the same beside as busy a group at another switch, measured in the same run by turns.
"""

import bench_isolation
import pytest

# pool: alone

# Far beyond what is measured (docs/PERFORMANCE.md), far below what starving would show.
FACTOR = 5


@pytest.fixture(name="figures", scope="module")
def fixture_figures(all_beds, pytestconfig):
    bed = all_beds.get(str(bench_isolation.TOPOLOGY), "--hosts", "softnic")
    calls, rounds = (1000, 3) if pytestconfig.getoption("--full") else (200, 2)
    figures = bench_isolation.measure(bed.name, calls=calls, seconds=1, rounds=rounds, failures=1,
                                      besides=(bench_isolation.BASE, "big calls", "failures"))
    # Of a test that passes, too: how far from the bound?
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + bench_isolation.table(figures))
    return figures


@pytest.mark.parametrize("beside", ("big calls", "failures"))
def test_small_calls_are_not_slowed_down_by_another_group(figures, beside):
    # Not the median: with more to do than processors most calls of a run, or hardly any, wait for a turn of the scheduler's,
    # which takes twenty times as long. A switch that starved small calls would slow all of them.
    ratio = figures[beside]["p10"] / figures[bench_isolation.BASE]["p10"]
    assert ratio < FACTOR, f"p10 beside {beside} is {ratio:.1f} times that beside {bench_isolation.BASE}"


def test_ordinary_traffic_is_not_crowded_out_by_a_group(figures):
    ratio = figures[bench_isolation.BASE]["iperf3"] / figures["big calls"]["iperf3"]
    assert ratio < FACTOR, f"iperf3 beside big calls has 1/{ratio:.1f} of its rate beside {bench_isolation.BASE}"


@pytest.mark.parametrize("way", bench_isolation.WAYS)
def test_the_group_beside_has_failed_in_each_way(figures, way):
    assert figures["failures"]["failures"][way] >= 1
