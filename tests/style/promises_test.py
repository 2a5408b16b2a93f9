"""Each promise of the documents has tests that exist, or a line why not (scripts/promises); and what does not fit is named."""
import copy
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import promise_tests  # noqa: E402
import promises  # noqa: E402

TESTS = promises.Tests()
HOST = "docs/HOST.md"
ROW = "| folder | the one that you are in; `--wdir` |\n"
TABLE = "Ranks on several hosts"
FOLDER = f'{HOST}, {TABLE}: "folder"'
WDIR = "tests/epic_run/test_hosts.py::test_the_folder"
TORCH = "tests/torch/test_example.py::test_the_example_by_torchrun"


@pytest.fixture(name="data")
def fixture_data():
    return copy.deepcopy(promises.load())


def found(data, **changed):
    """What is wrong with this file, where pages are `changed` by name."""
    pages = promises.pages(data)
    pages |= {f"docs/{name}.md": text for name, text in changed.items()}
    return promises.findings(promises.Documents(data, pages), TESTS)


def page(name=HOST):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_tree_is_in_order(data):
    assert found(data) == []
    assert len(promises.Documents(data, promises.pages(data)).with_rules()) > 300


def test_the_command_says_so():
    done = subprocess.run([ROOT / "scripts/promises", "--missing"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line for line in done.stdout.splitlines() if " promises, " in line]
    assert [line.partition(":")[0] for line in heads] == [HOST, "docs/HOST-INTERNALS.md", "docs/MPI.md", "docs/SOFTNIC.md", "docs/RULES.md", "all"]
    assert "      without a test: " in done.stdout


def test_a_promise_without_a_test_is_named(data):
    rows = data["documents"][HOST][TABLE]["rows"]
    for nothing in ([], {"tests": []}):
        rows["folder"] = nothing
        assert found(data) == [f"{FOLDER} has no test"]
    rows["folder"] = {"without": "it cannot be"}
    assert found(data) == []
    rows["folder"] = {"tests": [WDIR], "without": "it cannot be"}
    assert found(data) == [f"{FOLDER} has tests, and a reason why it has none"]


@pytest.mark.parametrize("test", ["RankCoreTest.NotThere", "tests/epic_run/test_hosts.py::test_not_there", "tests/epic_run/test_gone.py::test_the_folder",
                                  "scenario not_there", "ctest not_there", "anything"])
def test_a_test_that_is_not_there_is_named(data, test):
    data["documents"][HOST][TABLE]["rows"]["folder"] = [WDIR, test]
    assert found(data) == [f"{FOLDER}: there is no test {test}"]


def test_a_test_that_nobody_runs_is_named(data):
    """Of another copy of the tree: a file that is of no program, a folder of no stage, a suite that pytest does not start."""
    rows = data["documents"][HOST][TABLE]["rows"]
    tests = promises.Tests()
    tests.of_gtest = {**TESTS.of_gtest, "A.B": ["base/of_no_program_test.cc"], "Verbs.X": ["tests/softnic/verbs_x_test.cc"],
                      "C.D": ["base/psn_test.cc", "roce/wire_test.cc"]}
    for test, why in {"A.B": "no program has A.B of base/of_no_program_test.cc", "Verbs.X": "no program has Verbs.X of tests/softnic/verbs_x_test.cc",
                      "C.D": "C.D is in several files: base/psn_test.cc, roce/wire_test.cc",
                      TORCH: f"no stage has {TORCH}"}.items():
        rows["folder"] = [test]
        documents = promises.Documents(data, promises.pages(data))
        assert [line for line in promises.findings(documents, tests) if "folder" in line][:1] == [f"{FOLDER}: {why}"]


def test_a_row_that_is_new_or_gone_is_named(data):
    assert ROW in page()
    new = page().replace(ROW, ROW + "| shell | none |\n")
    assert found(data, HOST=new) == [f'{HOST}, {TABLE}: the row "shell" is not in the file']
    gone = page().replace(ROW, "")
    assert found(data, HOST=gone) == [f'{HOST}, {TABLE}: there is no row "folder" any more']
    twice = page().replace(ROW, ROW + ROW)
    assert f'{HOST}, {TABLE}: two rows are "folder / the one that you are in; `--wdir`"' in found(data, HOST=twice)


def test_a_table_that_is_new_or_gone_is_named(data):
    new = page() + "\n## More\n\n| what | when |\n|---|---|\n| this | then |\n"
    assert found(data, HOST=new) == [f'{HOST}: the table "More" is not in the file: its rows, or why they are no promises']
    data["documents"][HOST]["Less"] = {"no promise": "it has gone"}
    assert found(data) == [f'{HOST}: there is no table "Less" any more']


def test_more_tests_than_three_need_a_reason(data):
    row = data["documents"][HOST][TABLE]["rows"]
    many = row["exit status"].pop("many")
    assert found(data) == [f'{HOST}, {TABLE}: "exit status" has 5 tests in a default run, and no reason for that']
    row["exit status"]["many"] = many
    row["exit status"]["tests"] = row["exit status"]["tests"][:3]
    assert found(data) == [f'{HOST}, {TABLE}: "exit status" has a reason for many tests, and 3 in a default run']
    # What only --full runs does not count.
    row["exit status"] = row["folder"] + ["tests/softnic/test_programs.py::test_path_mtu", "tests/softnic/test_programs.py::test_every_size"]
    assert found(data) == []


def test_a_rule_may_have_a_reason_too(data):
    rule = next(promise for promise in promises.Documents(data, promises.pages(data)).with_rules() if promise.document == promises.RULES)
    where = f'{promises.RULES}, {rule.table}: "{rule.key}"'
    data["rules"] = {rule.key: "each shows a half of it"}
    assert found(data) == [f"{where} has a reason for many tests, and {len(rule.tests)} in a default run"]
    data["rules"] = {"Nothing is a rule": "it has gone"}
    assert found(data) == [f'{promises.RULES}: there is no rule "Nothing is a rule" any more']


def test_tests_that_the_page_names_are_read_from_there(data):
    promise = "a process dies, also while data flow"
    new = page().replace("test_a_rank_that_is_killed_while_data_flow`", "test_a_rank_that_is_not_there`")
    where = f'{HOST}, Between the hosts: "{promise}"'
    assert found(data, HOST=new) == [f"{where}: there is no test tests/e2e/test_hosts_path_ends.py::test_a_rank_that_is_not_there"]
    without = new.replace("`test_hosts_path_ends.py::test_a_rank_that_is_not_there`", "")
    assert found(data, HOST=without) == [f"{where} has no test"]
    other = page().replace("| row | test |", "| row | by |")
    assert f'{HOST}: there is no column "test" of "Tests"' in found(data, HOST=other)


def test_hosts_of_end_to_end_tests_are_said(data):
    hosts = data["beds"].pop("test_host_page.py")
    test = "tests/e2e/test_host_page.py::test_all_ranks_are_started_by_ssh"
    assert found(data) == [f'{HOST}, {TABLE}: "device": "beds" does not say which hosts {test} has']
    data["beds"] |= {"test_host_page.py": hosts, "test_gone.py": ["softnic"]}
    assert found(data) == ['"beds": no promise names test_gone.py']


def test_levels_and_the_default_run():
    beds = promises.load()["beds"]
    for test, level, default in (
            ("PsnTest.WrapsAt2To24", "unit", True), ("WorldTest.PsnsWrap", "virtual time", True), ("CommHostsTest.CallsInSlices", "virtual time", True),
            ("ModelTest.AChannelIsAQueue", "proof", True), ("VerbsUc.SendsAndWritesArrive", "softnic", True), ("scenario psn_wrap", "unit", True),
            ("tests/softnic/test_programs.py::test_inline", "softnic", False), ("tests/softnic/test_interop_loss.py::test_every_size", "rdma_rxe guests", False),
            ("tests/e2e/test_hosts_path.py::test_a_call_longer_than_an_invocation_may_be", "softnic bed", False),
            ("tests/mpi/test_start.py::test_the_library_stands_on_the_c_library_alone", "MPI", True),
            ("tests/e2e/test_hosts_path_ends.py::test_a_rank_that_comes_late_to_a_call_is_waited_for", "softnic bed", True),  # of which one of two is slow
            ("tests/netns/test_daemon.py::test_tcp_passes", "namespaces", True), ("ctest install_test", "installed tree", True),
            ("tests/softnic/test_exactly_once.py::test_with_rxe", "rdma_rxe guests", True)):
        assert TESTS.wrong(test) is None and TESTS.levels(test, beds) == [level] and TESTS.in_default_run(test) == default, test
    assert TESTS.levels("tests/softnic/test_pyverbs.py::test_what_passes_on_rxe_passes_here", beds) == ["softnic", "rdma_rxe guests"]
    assert TESTS.levels("tests/e2e/test_modes_cli.py::test_refusals_say_why", beds) == ["softnic bed", "rdma_rxe bed"]
    assert set(promise_tests.LEVELS) >= set(promise_tests.FOLDERS.values())


def test_the_command_fails_with_what_it_has_found(data, capsys):
    data["documents"][HOST][TABLE]["rows"]["folder"] = []
    documents = promises.Documents(data, promises.pages(data))
    assert promises.main("", ["--document", "host", "--many"], documents, TESTS) == 1
    told = capsys.readouterr()
    assert told.err == f"promises: {FOLDER} has no test\n"
    assert "    exit status\n" in told.out and "    environment\n" not in told.out
    with pytest.raises(SystemExit) as ended:
        promises.main("", ["--document", "TORCH"], documents, TESTS)
    assert ended.value.code == 2 and "the documents are docs/HOST.md, docs/HOST-INTERNALS.md" in capsys.readouterr().err
