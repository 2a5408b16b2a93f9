"""epic-run --hosts: how runs end, and that nothing of them remains, however they do."""

import os
import signal
import time

import pytest
from conftest import heeding, wait_until_gone

# Its pid, and those of what it leaves in its session, in another one, and to nobody. None heeds what can be ignored.
STUBBORN = ("trap '' INT TERM HUP; sleep 1000 & echo $!; setsid sleep 1000 & echo $!; (setsid sh -c 'echo $$; sleep 1000' &); echo $$; "
            "while :; do sleep 0.05; done")
STUBBORN_PIDS = 4


def test_the_status_is_that_of_the_first_rank_that_failed(run):
    assert run("--hosts", "a,b,c", "true") == (0, [], "")
    status, _, errors = run("--hosts", "a,b,c", "sh", "-c", "[ $EPIC_RANK = 1 ] && exit 7; exec sleep 1000")
    assert status == 7 and errors == "epic-run: rank 1 (b) ended with status 7; the others are ended\n"
    assert run("--hosts", "a,b", "sh", "-c", "[ $EPIC_RANK = 1 ] && kill -9 $$; exec sleep 1000")[0] == 128 + signal.SIGKILL
    assert run("--hosts", "a", "sh", "-c", "exit 3") == (3, [], "")
    status, lines, _ = run("--hosts", "a,b", "sh", "-c", '[ $EPIC_RANK = 1 ] && exit 3; exec "$@"', "sh", *heeding(SIGTERM=("later", 9)))
    assert status == 3 and len(lines) <= 2 and lines[1:] in ([], ["[0] later"])  # less if it had not come so far


def test_a_program_that_there_is_not_is_said_in_words_of_ours(run, tmp_path):
    assert run("nosuch") == (127, [], "epic-run: there is no program nosuch\n")
    assert run("--mpi", "if") == (127, [], "epic-run: there is no program if\n")
    assert run("./nosuch") == (127, [], "epic-run: there is no program ./nosuch\n")
    (tmp_path / "text").touch()
    for name in (tmp_path, tmp_path / "text"):
        assert run(str(name)) == (126, [], f"epic-run: {name} cannot be run: it is a folder or not executable\n")


def test_ranks_that_end_well_leave_the_others_alone(start, tmp_path):
    run = start("--hosts", "a,b", "sh", "-c",
                f"[ $EPIC_RANK = 1 ] || {{ echo left; exit 0; }}; until [ -e {tmp_path}/on ]; do sleep 0.05; done; echo on")
    assert run.lines(1) == ["[0] left\n"]
    (tmp_path / "on").touch()
    assert run.end() == (0, "[1] on\n", "")


def test_a_rank_that_fails_ends_what_does_not_heed_it_either(start, tmp_path):
    run = start("--hosts", "a,b", "sh", "-c", f"[ $EPIC_RANK = 0 ] || {{ until [ -e {tmp_path}/on ]; do sleep 0.05; done; exit 4; }}; {STUBBORN}")
    pids = run.pids(STUBBORN_PIDS)
    (tmp_path / "on").touch()
    assert run.end()[0] == 4
    wait_until_gone(pids)


def test_ctrl_c_is_passed_on_and_ends_all(start):
    run = start("--hosts", "a,b", *heeding(SIGINT=("cleaned", 0)))
    run.pids(2)
    status, output, _ = run.end(signal.SIGINT)
    assert (status, sorted(output.splitlines())) == (128 + signal.SIGINT, ["[0] cleaned", "[1] cleaned"])


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_us_ends_all(start, signum):
    run = start("--hosts", "a,b", *heeding(SIGTERM=("told", 0)))
    pids = run.pids(2)
    status, output, _ = run.end(signum)
    assert (status, output.count("told")) == (128 + signum, 2)
    wait_until_gone(pids)


def test_who_heeds_no_signal_is_killed_with_all_that_it_has_started(start):
    run = start("--hosts", "a", "sh", "-c", STUBBORN)
    pids = run.pids(STUBBORN_PIDS)
    assert run.end(signal.SIGINT)[0] == 128 + signal.SIGINT
    wait_until_gone(pids)


def test_a_hangup_that_is_ignored_ends_nobody(start, tmp_path):
    """As nohup has it."""
    run = start("--hosts", "a", "sh", "-c", f"echo ready; until [ -e {tmp_path}/on ]; do sleep 0.05; done; echo on",
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert run.lines(1) == ["[0] ready\n"]
    run.process.send_signal(signal.SIGHUP)
    (tmp_path / "on").touch()
    assert run.end() == (0, "[0] on\n", "")


def test_other_signals_are_passed_on_and_end_nobody(start):
    run = start("--hosts", "a,b", *heeding(SIGUSR1=("one", None), SIGUSR2=("two", 0)))
    run.pids(2)
    run.process.send_signal(signal.SIGUSR1)
    assert run.lines(2) == ["[0] one\n", "[1] one\n"]
    assert run.end(signal.SIGUSR2)[0] == 0


def test_what_a_rank_leaves_in_the_background_ends_with_it(start):
    run = start("--hosts", "a", "sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & (sleep 1000 & echo $!); read line", stdin=-1)
    pids = run.pids(2)
    run.process.stdin.write("\n")
    assert run.end()[0] == 0
    wait_until_gone(pids)


def test_nothing_remains_when_epic_run_is_killed(start):
    run = start("--hosts", "a,b", "sh", "-c", STUBBORN)
    pids = run.pids(2 * STUBBORN_PIDS)
    run.end(signal.SIGKILL)
    wait_until_gone(pids)


def test_nothing_remains_when_ssh_is_killed(start):
    run = start("--hosts", "a,b", "sh", "-c", STUBBORN)
    pids = run.pids(2 * STUBBORN_PIDS)
    run.kill_ssh("b")
    status, _, errors = run.end()
    assert status == 255 and "epic-run: the connection to b has ended (status -9)" in errors, errors
    wait_until_gone(pids)


def test_a_program_ends_with_what_has_started_it(start):
    run = start("--hosts", "a", "sh", "-c", "echo $PPID; echo $$; exec sleep 1000")
    agent, program = (int(run.process.stdout.readline().split()[1]) for _ in range(2))
    os.kill(agent, signal.SIGKILL)
    status, _, errors = run.end()
    assert status == 255 and "epic-run: the connection to a has ended" in errors
    wait_until_gone([program])


def test_a_host_that_cannot_be_reached_is_named(run):
    status, _, errors = run("--hosts", "a,gone", "sleep", "1000")
    assert status == 255 and "[1] ssh: connect to host gone port 22: No route to host\n" in errors
    assert "epic-run: gone cannot be reached, or lets us not in (status 255): " in errors and "ssh gone true` is to work" in errors


def test_a_host_without_python_is_named(run):
    status, _, errors = run("--hosts", "bare", "true")
    assert status == 255 and "epic-run: bare has no python3" in errors


def test_a_host_that_does_not_answer_can_be_left(start):
    run = start("--hosts", "a,silent", "sh", "-c", "echo $$; exec sleep 1000")
    pids = run.pids(1)
    assert run.end(signal.SIGINT)[0] == 128 + signal.SIGINT
    wait_until_gone(pids)


def test_a_host_that_answers_no_more_can_be_left(start):
    """And when it is there again, nothing remains on it."""
    run = start("--hosts", "a", "sh", "-c", "echo $PPID; echo $$; exec sleep 1000")
    agent, program = (int(run.process.stdout.readline().split()[1]) for _ in range(2))
    os.kill(agent, signal.SIGSTOP)
    assert run.end(signal.SIGINT)[0] == 128 + signal.SIGINT
    os.kill(agent, signal.SIGCONT)
    wait_until_gone([agent, program])


def test_hosts_that_do_not_answer_can_be_left_also_if_more_would_be_asked(start, tmp_path):
    run = start("--hosts", "silent:20", "true")
    while not (tmp_path / "silent.pid").exists():
        time.sleep(0.01)
    assert run.end(signal.SIGINT)[0] == 128 + signal.SIGINT


def test_a_program_that_does_not_start_is_named(run, tmp_path):
    (tmp_path / "plain").touch()
    for program, status, why in (("./nothing", 127, "there is no program './nothing' in /"),
                                 (f"{tmp_path}/plain", 126, "does not start there: Permission denied")):
        assert run("--hosts", "a", program)[0] == status and why in run("--hosts", "a", program)[2]
    status, _, errors = run("--hosts", "a", "--wdir", "/nowhere", "true")
    assert status == 127 and "epic-run: a: there is no folder /nowhere there: make it, or say another with --wdir" in errors


def test_a_host_without_softnic_is_named(start, run, tmp_path):
    run("--hosts", "a", "true")
    hidden = tmp_path / "ssh"
    hidden.write_text(hidden.read_text().replace("case", f"mv {tmp_path}/softnic {tmp_path}/hidden 2>/dev/null; case", 1))
    status, _, errors = start("--hosts", "a", "true").end()
    assert status == 127 and f"epic-run: a: softnic is not in {tmp_path}/softnic there" in errors and "--no-softnic" in errors


def test_a_command_in_place_of_ssh_that_is_not_there(run):
    status, _, errors = run("--hosts", "a", "--ssh", "/no/ssh", "true")
    assert status == 255 and "epic-run: /no/ssh does not start: No such file or directory. Install openssh-client" in errors


def test_who_reads_no_further_does_not_hold_the_ranks(start):
    run = start("--hosts", "a", "seq", "100000")
    assert run.lines(1) == ["[0] 1\n"]
    run.process.stdout.close()
    assert run.process.wait(timeout=60) == 0 and run.process.stderr.read() == ""
