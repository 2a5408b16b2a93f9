"""epic-run --hosts: what ranks are told, and what is told of them."""

import os
import signal
import subprocess
import time

import pytest

from conftest import heeding
from epic_run import cli


def test_each_rank_knows_who_it_is_and_where_softnic_is(run, tmp_path):
    status, lines, errors = run("--hosts", "a:2,chatty,a", "sh", "-c", "echo $EPIC_RANK of $EPIC_SIZE, $EPIC_MANAGER; echo $LD_LIBRARY_PATH; pwd")
    assert (status, errors) == (0, "")
    expected = [(f"[{rank}] {rank} of 4, 192.0.2.1:7400", f"[{rank}] {tmp_path}/softnic", f"[{rank}] {os.getcwd()}") for rank in range(4)]
    assert lines == [line for three in expected for line in three]
    assert run("--no-softnic", "--hosts", "a", "sh", "-c", "echo $LD_LIBRARY_PATH.")[1] == ["[0] ."]
    assert run("--hosts=a", "-x", "LD_LIBRARY_PATH=/x", "sh", "-c", "echo $LD_LIBRARY_PATH")[1] == [f"[0] {tmp_path}/softnic:/x"]


def test_the_group_is_a_new_one_unless_somebody_says_which(run):
    def group(*options, **variables):
        lines = run("--hosts", "a,b", *options, "sh", "-c", "echo $EPIC_GROUP", variables=variables)[1]
        assert lines[0].split()[1] == lines[1].split()[1]
        return lines[0].split()[1]

    assert group() != group()
    assert group(EPIC_GROUP="theirs") == "theirs" and group("--group", "mine", EPIC_GROUP="theirs") == "mine"


def test_the_environment_of_ranks(run):
    """EPIC_'s and what is named go along, who we are and what is epic-run's alone do not; the host has its own."""
    status, lines, _ = run("--hosts", "a", "--manager", "m:1", "-x", "GIVEN=a b", "-x", "NAMED", "--devices", "eth7", "sh", "-c",
                           "env | grep -E 'EPIC|GIVEN|NAMED|OTHER|HOME'",
                           variables={"NAMED": "it", "OTHER": "not", "EPIC_TIMEOUT": "9", "EPIC_RANK": "7", "EPIC_SIZE": "8"})
    assert status == 0
    names = {line[4:].partition("=")[0]: line.partition("=")[2] for line in lines}
    home, group = names.pop("HOME"), names.pop("EPIC_GROUP")
    assert group.startswith("run-") and home != os.environ.get("HOME")
    assert names == {"EPIC_RANK": "0", "EPIC_SIZE": "1", "EPIC_MANAGER": "m:1", "EPIC_TIMEOUT": "9", "EPIC_SOFTNIC_DEVICES": "eth7",
                     "GIVEN": "a b", "NAMED": "it"}


def test_options_of_softnic_go_before_hosts_or_behind(run):
    options = ("--devices", "eth7", "--super-frames", "10.0.0.7")
    told = ("sh", "-c", "echo $EPIC_SOFTNIC_DEVICES $EPIC_SOFTNIC_SUPER_FRAMES")
    for argv in ((*options, "--hosts", "a"), ("--hosts", "a", *options)):
        assert run(*argv, *told) == (0, ["[0] eth7 10.0.0.7"], "")


def test_arguments_arrive_as_they_are(run):
    words = ["", "two  words", "it's", '"quoted"', "line\nbreak", "$HOME `id` \\ * ? ! ~", "--hosts", "-x", "--", "ü\udcff"]
    status, lines, _ = run("--hosts", "a", "/usr/bin/python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *words)
    assert (status, lines) == (0, ["[0] " + ascii(words)])


def test_the_folder(run, tmp_path):
    assert run("--hosts", "a", "--wdir", str(tmp_path), "pwd")[1] == [f"[0] {tmp_path}"]


def test_both_outputs_are_told_apart_and_a_last_line_without_an_end_is_kept(run):
    assert run("--hosts", "a", "sh", "-c", "echo out; echo err >&2; printf last") == (0, ["[0] out", "[0] last"], "[0] err\n")


def test_without_prefixes_output_is_as_it_comes(start):
    assert start("--hosts", "a", "--no-prefix", "printf", r"a\n\nb").end() == (0, "a\n\nb", "")


def test_more_ranks_than_connections_are_opened_at_a_time(run):
    assert run("--hosts", "a:20", "sh", "-c", "echo $EPIC_RANK") == (0, [f"[{rank:2}] {rank}" for rank in range(20)], "")


def test_much_output_is_whole(run):
    status, lines, _ = run("--hosts", "a,b", "seq", "200000")
    assert status == 0
    assert [[line[4:] for line in lines if line.startswith(f"[{rank}]")] for rank in (0, 1)] == [[str(n + 1) for n in range(200000)]] * 2


def test_rank_0_has_standard_input_and_the_others_have_none(start, tmp_path):
    sent = os.urandom(3 << 20)
    (tmp_path / "input").write_bytes(sent)
    with open(tmp_path / "input", "rb") as file:
        run = start("--hosts", "a,b", "sh", "-c", f"cat >{tmp_path}/got$EPIC_RANK", stdin=file)
        assert run.end()[0] == 0
    assert (tmp_path / "got0").read_bytes() == sent and (tmp_path / "got1").read_bytes() == b""


def test_input_that_nobody_reads_holds_nobody(start):
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        assert start("--hosts", "a", "sh", "-c", "exec <&-; echo fine", stdin=yes.stdout).end() == (0, "[0] fine\n", "")
        yes.kill()


def test_input_comes_while_it_is_typed(start):
    run = start("--hosts", "a", "sh", "-c", "while read line; do echo $line; done", stdin=subprocess.PIPE)
    for word in ("one", "two"):
        run.process.stdin.write(word + "\n")
        run.process.stdin.flush()
        assert run.lines(1) == [f"[0] {word}\n"]
    assert run.end()[0] == 0


@pytest.mark.parametrize("closed, output", [("<&-", "[0] out\n"), ("<&- >&-", ""), ("<&- 2>&-", "[0] out\n")])
def test_a_descriptor_that_is_missing_is_no_others(start, closed, output):
    run = start("--hosts", "a", "sh", "-c", "cat; echo out", through=("sh", "-c", f'exec "$@" {closed}', "sh"))
    assert run.end() == (0, output, "")


def test_output_without_a_place_does_not_go_into_the_connection(start, tmp_path):
    run = start("--hosts", "a", *heeding(f"print(*range(1000), sep='\\n', flush=True)\nopen('{tmp_path}/ready', 'w')", SIGUSR1=("heard", 5)),
                through=("sh", "-c", 'exec "$@" <&- >&-', "sh"))
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    assert run.end(signal.SIGUSR1)[:2] == (5, "")


LISTS = {"a": ["a"], "a,b": ["a", "b"], "a:2,b": ["a", "a", "b"], "a,b,a": ["a", "b", "a"], "u@a:2": ["u@a"] * 2, "10.0.0.1:1": ["10.0.0.1"],
         "[fd00::1],u@[fd00::2]:2": ["fd00::1", "u@fd00::2", "u@fd00::2"]}


@pytest.mark.parametrize("text", LISTS)
def test_a_list_of_hosts(text):
    assert cli.hosts(text) == LISTS[text]


@pytest.mark.parametrize("text, culprit", [("", "''"), ("a,,b", "''"), ("a,", "''"), ("-oProxyCommand=x", "'-oProxyCommand=x'"), ("a b", "'a b'"),
                                           ("@a", "'@a'"), (":2", "':2'"), ("a:0", "'0'"), ("a:x", "'x'"), ("a:", "''"), ("fd00::1", "':1'"),
                                           ("a:-1", "'-1'"), ("a:1025", "1025 ranks"), ("a:99999", "'99999'")])
def test_a_list_that_cannot_be(text, culprit):
    with pytest.raises(cli.UsageError, match="--hosts") as error:
        cli.hosts(text)
    assert culprit in str(error.value)


@pytest.mark.parametrize("options, said", [
    (("--hosts", "a,,b"), "--hosts a,,b: '' names no host"), (("--hosts",), "--hosts needs a value"),
    (("--group", "g"), "on which hosts? --hosts a,b,c"), (("--no-softnic",), "on which hosts? --hosts a,b,c"),
    (("--hosts", "a", "-x", "NOT_SET"), "-x NOT_SET: there is no such variable here. Set it, or say -x NOT_SET=VALUE"),
    (("--hosts", "a", "-x", "1=2"), "-x 1=2: '1' is no variable's name"),
    (("--hosts", "a", "--ssh", "x 'y"), "--ssh x 'y: No closing quotation"), (("--hosts", "a", "--ssh", " "), "--ssh: an empty command"),
    (("--hosts", "a", "--mpi"), "--hosts is none of --mpi's"), (("--hosts", "a", "--manager=", "--hosts", "a,b"), "which manager?")])
def test_what_cannot_be_meant_is_refused(run, options, said):
    status, lines, errors = run(*options, *(["true"] if options != ("--hosts",) else []))
    assert (status, lines) == (2, []) and errors.startswith("epic-run: ") and said in errors, errors


def test_without_a_program_one_is_asked_for(run):
    assert run("--hosts", "a")[2] == "epic-run: which program? See epic-run --help\n"


def test_the_help_has_every_option(run):
    text = "\n".join(run("--help")[1])
    assert all(word in text for word in ("--hosts", "--manager", "--group", "-x NAME", "--wdir", "--no-prefix", "--no-softnic", "--ssh", "EPIC_SSH"))
