"""tests/budget.json, and what scripts/lib/stage_pool/budget.py says of a run."""
import json
import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/lib"))
from stage_pool import budget, compiles, groups, ledger, stages, tasks  # noqa: E402  pylint: disable=wrong-import-position

COMMITTED = json.loads(budget.FILE.read_text(encoding="utf-8"))
BUDGET = {"reference": {"compile": 2.0, "seeds": 1.0}, "bounds": {}, "stages": {"softnic": 100.0}, "compiles": {"release": 200.0},
          "kernel": 0.0, "reasons": {"softnic tests/softnic/test_a.py::test_long": "it has a reason"}}
TIMES = {"tests": {"softnic tests/softnic/test_a.py::test_one": [1.0, 1.0], "softnic tests/softnic/test_a.py::test_long[x]": [12.0, 1.0]},
         "objects": {"release a.cc.o": 100.0, "release b.cc.o": 100.0}}


def a_run(tests=None, objects=None, reference=None, cached=False, beside=0.0):
    lines = {f"softnic {name}": {"stage": "softnic", "wall": wall, "cpu": cpu, "stalled": 0.0}
             for name, (wall, cpu) in (tests or {}).items()}
    cost = {"softnic": sum(line["cpu"] for line in lines.values())}
    return types.SimpleNamespace(tests=lines, trees={"release": objects} if objects else {}, reference=reference, cached=cached,
                                 beside=beside, cost=lambda: cost)


def wrong(run):
    return [line for line in budget.verdict(run, BUDGET, TIMES) if line.startswith("budget: ")]


def test_the_figures_add_up_to_no_more_than_their_bounds():
    for name, figure in budget.sums(COMMITTED).items():
        assert figure <= COMMITTED["bounds"][name], f"{name}: {figure:.0f} s; a new system gets its share from what others give up"


def test_every_test_that_is_known_to_take_long_has_a_reason():
    """Of those that are there: a machine decides nothing of it, as it does where a run is judged."""
    for name, taken in ledger.stored(ledger.COMMITTED)["tests"].items():
        stage = name.partition(" ")[0]
        if stage in stages.ALL and max(taken) > budget.LONG_S:
            assert any(name.startswith(reason) for reason in COMMITTED["reasons"]), f"{name} took {max(taken):.1f} s"


def test_every_stage_and_reason_of_the_budget_is_of_something_that_is_there():
    assert set(stages.ALL) <= set(COMMITTED["stages"])
    files = {f"{stage.name} {file}" for stage in stages.BEDS for file in stages.test_files(stage)}
    of_ctest = {stage.name for stage in stages.ALL.values() if stage.label}
    for name, reason in COMMITTED["reasons"].items():
        stage, _, test = name.partition(" ")
        assert stage in of_ctest or f"{stage} {test.partition('::')[0]}" in files, f"{name}: no such test"
        assert len(reason) > 10, name


def test_as_much_as_before_is_right():
    assert wrong(a_run({"tests/softnic/test_a.py::test_one": (5.0, 5.0)}, {"a.cc.o": 110.0, "b.cc.o": 110.0})) == []


def test_a_test_of_a_reason_may_take_long_but_not_longer_and_longer():
    assert wrong(a_run({"tests/softnic/test_a.py::test_long[x]": (20.0, 1.0)})) == []
    line, = wrong(a_run({"tests/softnic/test_a.py::test_long[x]": (42.0, 1.0)}))
    assert "test_long[x] took 42.0 s" in line and "it took 12.0 s" in line
    assert wrong(a_run({"tests/softnic/test_a.py::test_long[another row]": (42.0, 1.0)})) == [], "of it nothing is known"


def test_a_test_that_takes_long_by_a_hair_fails_no_run_but_is_named():
    run = a_run({"tests/softnic/test_a.py::test_one": (10.8, 1.0)})
    assert wrong(run) == [] and any("test_one took 10.8 s" in line for line in budget.verdict(run, BUDGET, TIMES))


def test_what_runs_beside_is_no_fault_of_the_run():
    tests = {f"tests/softnic/test_a.py::test_{n}": (9.0, 9.0) for n in range(14)}
    objects = {"a.cc.o": 140.0, "b.cc.o": 120.0}
    assert len(wrong(a_run(tests, objects, beside=0.01))) == 2
    assert wrong(a_run(tests, objects, beside=0.2)) == []
    assert len(wrong(a_run({name: (12.0, 12.0) for name in tests}, {"a.cc.o": 240.0, "b.cc.o": 120.0}, beside=0.2))) == 2, "not whatever it is"
    for seconds, lines in ((24.0, 0), (30.0, 1)):
        assert len(wrong(a_run({"tests/softnic/test_a.py::test_one": (seconds, 1.0)}, beside=0.2))) == lines, seconds


def test_what_others_take_of_the_machine_is_the_rest(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text("cpu  1000 100 5000 99999 7 1 2 300 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    assert groups.computed_by_machine(stat) == pytest.approx(14.0), "programs', and what the machine's host kept; the kernel's not"
    monkeypatch.setattr(ledger, "BEGUN", tmp_path / "begun.json")
    monkeypatch.setattr(ledger.os, "cpu_count", lambda: 2)
    assert ledger.beside() == 0.0, "where nothing has been counted"
    ledger.BEGUN.write_text(json.dumps({"at": 1000.0, "all": 500.0, "own": 20.0}))
    monkeypatch.setattr(ledger, "counted", lambda: {"at": 1100.0, "all": 650.0, "own": 150.0})
    assert ledger.beside() == pytest.approx(0.1), "20 s of 200"


def test_of_several_measurements_of_the_reference_the_slowest_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "REFERENCE", tmp_path / "reference.json")
    for spent, known in ((1.0, 1.0), (2.0, 2.0), (1.5, 2.0)):
        monkeypatch.setattr(ledger, "computed", lambda _, spent=spent: spent)
        ledger.reference()
        assert ledger.stored(ledger.REFERENCE) == {"compile": known, "seeds": known}


def test_the_guests_kernel_has_a_figure_as_stages_have():
    run = a_run()
    run.cost = lambda: {"guest-kernel": 40.0}
    line, = [line for line in budget.verdict(run, BUDGET | {"kernel": 30.0}, TIMES) if line.startswith("budget: ")]
    assert line.startswith("budget: guest-kernel computed 40 s, of 30")


def test_a_test_that_is_slowed_down_is_named():
    assert "test_one" in wrong(a_run({"tests/softnic/test_a.py::test_one": (30.0, 0.1)}))[0], "it waits for 30 s"
    assert "test_one (120.0 s, was 1.0)" in wrong(a_run({"tests/softnic/test_a.py::test_one": (130.0, 120.0)}))[0]


def test_waiting_for_a_processor_is_not_waiting():
    run = a_run({"tests/softnic/test_a.py::test_one": (30.0, 2.0)})
    next(iter(run.tests.values()))["stalled"] = 25.0
    assert wrong(run) == []


@pytest.mark.parametrize("cached, known", [(False, {"release a.cc.o": 190.0, "release b.cc.o": 100.0}), (True, TIMES["objects"])])
def test_what_a_cache_of_compiles_had_is_not_kept_as_what_they_take(cached, known):
    assert ledger.Run.known(a_run(objects={"a.cc.o": 190.0}, cached=cached), TIMES)["objects"] == known


def test_a_header_that_costs_much_is_seen_at_the_objects():
    line, = wrong(a_run(objects={"a.cc.o": 190.0, "b.cc.o": 105.0}))
    assert "a.cc.o (190.0 s, was 100.0)" in line
    line, = wrong(a_run(objects={"a.cc.o": 190.0}))
    assert "a.cc.o" in line, "of a tree that was compiled in part each object counts"
    assert wrong(a_run(objects={"a.cc.o": 190.0, "b.cc.o": 105.0}, cached=True)) == []


def test_objects_that_nobody_knows_count_in_the_whole_alone():
    assert wrong(a_run(objects={"a.cc.o": 100.0, "renamed.cc.o": 100.0})) == []
    line, = wrong(a_run(objects={"a.cc.o": 100.0, "new.cc.o": 140.0}))
    assert "2 objects of build/release took 240 s, of 200" in line and "new.cc.o (140.0 s, new)" in line


def test_a_turn_that_compiles_less_may_not_grow_to_what_the_dearest_takes():
    assert wrong(a_run(objects={"a.cc.o": 160.0}))[0].startswith("budget: 1 objects of build/release took 160 s, of 100")


def test_a_slow_machine_has_the_same_figures():
    slow = {"compile": 4.0, "seeds": 2.0}
    assert wrong(a_run({f"tests/softnic/test_a.py::test_{n}": (20.0, 20.0) for n in range(10)}, {"a.cc.o": 210.0, "b.cc.o": 200.0}, slow)) == []
    assert wrong(a_run({"tests/softnic/test_a.py::test_one": (24.0, 24.0)}, None, slow)), "of a test, too"


def test_a_stage_that_grew_is_told_from_a_machine_that_became_slow():
    figures = BUDGET | {"stages": {name: 100.0 for name in "abcdef"}}

    def found(cost):
        run = a_run()
        run.cost = lambda: cost
        return budget.verdict(run, figures, TIMES)
    assert found({name: 110.0 for name in "abcdef"}) == []
    all_slow = found({name: 140.0 for name in "abcdef"})
    assert len(all_slow) == 1 and "1.40 times" in all_slow[0] and not all_slow[0].startswith("budget: ")
    assert found({name: 160.0 for name in "abcdef"})[0].startswith("budget: "), "all is dearer"
    one, = found({name: 100.0 for name in "abcde"} | {"f": 130.0})
    assert one.startswith("budget: f computed 130 s, of 100")
    assert [line for line in found({name: 140.0 for name in "abcde"} | {"f": 190.0}) if line.startswith("budget: f ")]
    assert found({"a": 130.0})[0].startswith("budget: a "), "a stage by itself has nobody to be compared with"


@pytest.mark.parametrize("text, seconds", [("0m0.00s", 0.0), ("1m2.50s", 62.5)])
def test_what_the_shell_prints_of_times_is_read(text, seconds):
    assert compiles.seconds(text) == seconds


def test_of_an_object_that_was_compiled_twice_the_last_counts(tmp_path):
    file = tmp_path / "compile-times"
    file.write_text("0m1.00s 0m0.50s base/CMakeFiles/epic_base.dir/a.cc.o\n0m2.00s 0m0.50s base/CMakeFiles/epic_base.dir/a.cc.o\n")
    assert compiles.of_tree(file) == {"base/epic_base/a.cc.o": 2.5}


def test_a_task_is_known_by_its_file():
    known = tasks.Known({"softnic tests/softnic/test_a.py::test_one": [3.0, 1.0], "softnic tests/softnic/test_a.py::test_two": [4.0, 1.0],
                         "unit base_test": [2.0, 2.0]})
    assert known.of("softnic", "tests/softnic/test_a.py") == (7.0, 2.0) and known.of("unit", "base_test") == (2.0, 2.0)


def test_what_is_known_of_a_file_goes_where_its_tests_are_others_now():
    """As the rows of a cover, which turn with the commit: a tree would expect the rows of all commits of a run."""
    old = {"softnic a.py::t[1]": [1.0, 1.0], "softnic a.py::t[2]": [2.0, 1.0], "softnic b.py::t": [3.0, 1.0], "unit x_test": [4.0, 1.0],
           "threaded a.py::t[1]": [5.0, 1.0]}
    new = {"softnic a.py::t[3]": [6.0, 1.0], "unit x_test": [7.0, 1.0]}
    assert ledger.renewed(old, new) == {"softnic a.py::t[3]": [6.0, 1.0], "softnic b.py::t": [3.0, 1.0], "unit x_test": [7.0, 1.0],
                                        "threaded a.py::t[1]": [5.0, 1.0]}


def test_what_is_committed_is_without_the_wait_for_a_processor():
    assert ledger.alone({"wall": 60.0, "cpu": 10.0, "stalled": 35.0}) == 25.0
    # Several of its processes may have waited, each while another one went on.
    assert ledger.alone({"wall": 60.0, "cpu": 40.0, "stalled": 50.0}) == 40.0


def test_a_run_that_is_dearer_fails_unless_it_has_no_figures(tmp_path, monkeypatch, capsys):
    """As scripts/test asks for it: of --full and --stress what they took is told."""
    for name in ("STAGES", "TASKS", "TESTS", "REFERENCE", "BEGUN", "TIMES"):
        monkeypatch.setattr(ledger, name, tmp_path / name)
    monkeypatch.setattr(ledger.compiles, "of_trees", lambda: {})
    ledger.STAGES.write_text(json.dumps({"stage": "netns", "wall": 100, "cpu": 100.0}) + "\n")
    figures = json.loads(ledger.budget.FILE.read_text(encoding="utf-8"))
    monkeypatch.setattr(ledger.budget, "FILE", tmp_path / "FILE")
    ledger.budget.FILE.write_text(json.dumps({**figures, "judged": True}))
    assert ledger.report(told=True) == 0 and "budget: " not in capsys.readouterr().out
    assert ledger.report(told=False) == 1 and "budget: netns computed 100 s, of" in capsys.readouterr().out
    text = (ROOT / "scripts/test").read_text(encoding="utf-8")
    assert "[ $full$stress = 00 ] || told=(--told)" in text
