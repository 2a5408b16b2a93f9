"""scripts/reproduce: the formulas are within their bounds and are those of the page, and a figure beyond its bounds is an error.
Runs in virtual time are the test `reproduce` of ctest."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
from reproduction import dsa, frame, multicast, netreduce, scin  # noqa: E402
from reproduction.papers import PAPERS  # noqa: E402

FORMULAS = [(paper, figure) for paper in PAPERS.values() for figure in paper.figures if not figure.by_program]


def ids(pair):
    return f"{pair[0].name} {pair[1].name}"


@pytest.fixture(name="page", scope="module")
def fixture_page():
    return (ROOT / "docs/REPRODUCED.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("pair", FORMULAS, ids=ids)
def test_a_formula_is_within_its_bounds_and_the_pages(pair, page):
    shown = frame.show(pair[1], "no build tree is needed")
    assert shown.out == []
    assert shown.text in page, f"scripts/reproduce {pair[0].name} --write"


@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
def test_the_page_has_each_figure_and_what_is_behind_them(paper, page):
    for figure in paper.figures:
        assert f"### {figure.name}: {figure.title}\n" in page, f"scripts/reproduce {paper.name} --write"
        assert figure.why in page
    assert frame.epilogue(paper) in page


def test_rows_beyond_their_bounds_are_named():
    figure = frame.Figure("Table 1", "t", lambda programs: [frame.Row("in", "1", 2, 1, 2), frame.Row("out", "1", 2.1, 1, 2)], "why")
    shown = frame.show(figure, "none")
    assert shown.out == ["Table 1: out"] and shown.text.count("OUT") == 1 and "| out | 1 | 2.10 | 1.00 to 2.00 | OUT |" in shown.text


def test_a_program_is_asked_once_and_its_command_is_told(tmp_path):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho x >> {tmp_path}/asked\n[ $1 != fail ] && echo '{{\"is\": \"'$1'\"}}'\n")
    program.chmod(0o755)
    programs = frame.Programs(tmp_path)
    assert [programs.run("program", 1)["is"] for _ in range(2)] == ["1", "1"] and programs.commands == ["program 1"] * 2
    assert (tmp_path / "asked").read_text() == "x\n"
    for wrong in (("program", "fail"), ("nothing",)):
        with pytest.raises(frame.NotBuilt, match=wrong[0]):
            programs.run(*wrong)


def test_what_takes_long_is_made_when_asked_for():
    def figure(name, **more):
        return frame.Figure(name, "t", list, "why", **more)
    paper = frame.Paper("p", "t", (figure("a"), figure("b", by_program=True), figure("c", by_program=True, is_long=True)), (), ())

    def names(**how):
        return [figure.name for figure in paper.chosen(**how)]
    assert names() == ["a", "b"] and names(long=True) == ["a", "b", "c"]
    assert names(only="c") == ["c"] and names(only="d") == []
    assert names(formulas=True) == names(formulas=True, long=True) == ["a"]


def test_the_exit_status():
    def run(*words):
        return subprocess.run([ROOT / "scripts/reproduce", *words], capture_output=True, text=True, check=False)
    assert run("netreduce", "--formulas").returncode == 0
    assert "netreduce" in run("--help").stdout
    for wrong in (("nothing",), ("netreduce", "--only", "Table 99"), ("netreduce", "--only", "Table 6", "--build", "/nowhere"),
                  ("netreduce", "--formulas", "--write")):
        assert run(*wrong).returncode == 2, wrong


def test_the_equations_have_the_papers_sums():
    """With n = 1 and Bintra = Binter (3) is alpha + M/B; Eq. (2)'s terms are those of its last line."""
    assert netreduce.parallel(1, 0.1, 1e-6, 10, 10) == pytest.approx(1e-6 + 0.01)
    n, P, M, alpha, b_inter, b_intra = 8, 64, 0.2, 5e-6, 12.5, 50
    last_line = ((n * n + 3 * n * 3 - 3 * n + 2 * P) / n * alpha
                 + (4 * (n - 1) * P * b_inter + 2 * (P - n) * n * b_intra) / (n * P * b_intra * b_inter) * M)
    assert netreduce.tencent(n, P, M, alpha, b_inter, b_intra) == pytest.approx(last_line)


def test_links_are_counted_as_on_a_drawing():
    """Four hosts on two leaves: 0 and 1, 2 and 3. And eight on four, two to a pod."""
    assert [multicast.links_between(0, b, 4, [2]) for b in range(4)] == [0, 2, 4, 4]
    assert [multicast.links_between(0, b, 8, [4, 2]) for b in range(8)] == [0, 2, 4, 4, 6, 6, 6, 6]
    assert multicast.by_multicast(4, [2]) == 6 and multicast.by_multicast(4, [1]) == 4
    assert multicast.by_multicast(8, [4, 2]) == 14
    assert multicast.ring_gather(4, [2]) == 3 * (2 + 4 + 2 + 4)
    # 188 hosts: 8 leaves of 16, and 4 of 15.
    assert multicast.ring_gather(188, [12]) == 74_800 and 188 * multicast.by_multicast(188, [12]) == 37_600
    assert multicast.places(5, 2) == [0, 0, 0, 1, 1]


def test_trees_of_hosts():
    assert [multicast.knomial_parent(r, 2) for r in range(1, 8)] == [0, 0, 2, 0, 4, 4, 6]
    assert [multicast.knomial_parent(r, 4) for r in range(1, 9)] == [0, 0, 0, 0, 4, 4, 4, 0]
    assert [multicast.heap_parent(r) for r in range(1, 7)] == [0, 0, 1, 1, 2, 2]
    assert multicast.tree_broadcast(4, [2], multicast.heap_parent) == 2 + 4 + 4


def test_slices_are_those_of_the_protocol():
    assert multicast.slices(188, 32, 1024, 4) == (1, 4, 8) and multicast.slices(188, 32, 2048, 4) == (2, 4, 4)
    assert multicast.slices(188, 32, 6144, 4) == (32, 0, 0), "all fit"
    assert multicast.slices(188, 32, 512, 4) == (1, 1, 32), "there is no room for two tokens"
    assert multicast.slices(4, 16, 7, 4) == (1, 1, 16), "nor for a slice beside that of the one"
    assert multicast.step_of_a_token(16 * 4 * 1500, 4, 16, 7) == pytest.approx(1.5)


def test_a_runs_options_are_the_programs():
    class Asked:
        def run(self, program, *words):
            return {"asked": [program, *words]}
    assert multicast.run(Asked(), hosts=4, slow_ns=6, lose_all=True)["asked"] == [
        multicast.PROGRAM, "--hosts", 4, "--slow-ns", 6, "--lose-all"]


def test_noise_is_that_of_so_many_quantisations():
    """By hand: of two ranks a ring with its own part exact has 1 + 2 halves of a rank's noise, ours 1 + 1 + 2."""
    assert scin.ring_exact(2) == pytest.approx((1 + 2) / 2) and scin.ring(2) == pytest.approx((1 + 1 + 2) / 2)
    assert scin.over_one_switch(scin.switches(2)) == pytest.approx(1.76, abs=0.01)
    assert [scin.over_one_switch(way(8)) for way in (scin.ring_exact, scin.ring, scin.doubling)] == pytest.approx(
        [3.52, 4.29, 3.01], abs=0.01)


def test_the_peak_of_one_number_is_its_variance():
    assert scin.mean_square_peak(1) == pytest.approx(1)
    # Of two, the larger one: 1 + 2 / pi.
    assert scin.mean_square_peak(2) == pytest.approx(1.6366, abs=1e-4)
    assert [scin.sqnr(block, 8) for block in scin.BLOCKS] == pytest.approx([42.3, 41.5, 40.75, 40.1, 39.6], abs=0.05)


def test_windows_of_a_paper_that_states_none():
    rows = {30_000: [{"completion": 300}], 60_000: [{"completion": 100}, {"completion": 140}], dsa.AIMD: [{"completion": 100}]}
    ours = {60_000: [{"completion": 100}], dsa.AIMD: [{"completion": 50}]}
    same = dsa.same("over", "1.9", rows, ours, dsa.completion, 1, 3)
    assert [(row.what, row.ours) for row in same] == [("over, both 60 KB", 1.2), ("over, both AIMD", 2)]
    near = dsa.nearest("over", "1.8", rows, ours, dsa.completion)
    assert near.what == "over, nearest: AIMD against DSA's AIMD: not met" and near.ours == 2
    assert dsa.nearest("over", "3.1", rows, ours, dsa.completion).what == "over, nearest: 30 KB against DSA's 60 KB: met"


def test_a_run_of_jobs_is_asked_by_windows_and_seeds():
    class Asked:
        words = None

        def run(self, program, *words):
            self.words = [program, *words]
            return {"rows": [{"pool": 5, "window": window, "seed": seed} for window in (30, 60) for seed in (1, 2)]}
    programs = Asked()
    found = dsa.asked(programs, "atp", windows=(30, 60), seeds="1,2", in_place=True, worker_loss="0.1")
    assert programs.words == [dsa.PROGRAM, "--system", "atp", "--dnn", "A", "--window", "30,60", "--seed", "1,2", "--in-place",
                              "--worker-loss", "0.1"]
    assert {key: len(rows) for key, rows in found.items()} == {(5, 30): 2, (5, 60): 2}
