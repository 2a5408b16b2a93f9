"""scripts/lib/stages.sh and the options of scripts/test: what fails is said to have failed. Nothing is built or run."""

import os
import signal
import subprocess
import time

import pytest

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
# What was started in the background ignores SIGINT, and so would its children.
BASH = ["env", "--default-signal=INT", "bash", "-c"]
BEGIN = 'set -euo pipefail\nlogs=$1\nsource scripts/lib/stages.sh\n'


def run(script, logs, **environment):
    return subprocess.run([*BASH, BEGIN + script, "bash", os.fspath(logs)], cwd=REPO, text=True, check=False,
                          capture_output=True, env=os.environ | environment, timeout=60)


@pytest.mark.parametrize("verbose", ["0", "1"])
def test_a_stage_ends_at_the_first_command_that_fails(tmp_path, verbose):
    done = run('several() { echo first; false; echo second; }\nstage several several\necho went on', tmp_path, verbose=verbose)
    assert done.returncode == 1
    assert "FAILED" in done.stdout and "went on" not in done.stdout and "second" not in done.stdout
    assert (tmp_path / "several.log").read_text() == "first\n"


@pytest.mark.parametrize("verbose", ["0", "1"])
def test_output_is_in_the_log_and_shown_if_asked_for(tmp_path, verbose):
    done = run("stage speaks echo word", tmp_path, verbose=verbose)
    assert done.returncode == 0 and "ok" in done.stdout
    assert (tmp_path / "speaks.log").read_text() == "word\n"
    assert ("\nword\n" in done.stdout) == (verbose == "1")


def test_lanes_run_side_by_side_and_their_stages_in_turn(tmp_path):
    # Each of the first stages waits for the other's file; the last looks for that of the one before it.
    done = run('a() { touch "$logs/a"; until [ -e "$logs/b" ]; do sleep 0.05; done; }\n'
               'b() { touch "$logs/b"; until [ -e "$logs/a" ]; do sleep 0.05; done; }\n'
               'c() { [ -e "$logs/a" ]; echo last; }\n'
               'side_by_side "a=a c=c" "b=b" ""\nprint_stage_times', tmp_path)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "c.log").read_text() == "last\n"
    assert all(f" {name} " in done.stdout.splitlines()[-1] for name in "abc")


def test_a_stage_that_fails_stops_those_beside_it(tmp_path):
    done = run('bad() { until [ -e "$logs/pid" ]; do sleep 0.05; done; false; }\n'
               'endless() { echo $BASHPID >"$logs/new"; mv "$logs/new" "$logs/pid"; while :; do sleep 1; done; }\n'
               'side_by_side "bad=bad" "endless=endless"', tmp_path)
    assert done.returncode == 1 and "bad" in done.stdout
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")


def test_with_keep_going_a_failure_is_noted_and_the_rest_runs(tmp_path):
    done = run('bad() { false; }\nside_by_side "bad=bad good=true"\necho "failed: ${failed_stages[*]}"', tmp_path, keep_going="1")
    assert done.returncode == 0 and "failed: bad" in done.stdout and "good" in done.stdout


def test_an_interrupt_reaches_the_stage(tmp_path):
    script = ('trap "stop_stages; exit 130" INT\n'
              'waits() { trap \'echo cleaned; exit 1\' INT; echo ready; while :; do sleep 0.1 || :; done; }\nstage waits waits')
    process = subprocess.Popen([*BASH, BEGIN + script, "bash", os.fspath(tmp_path)], cwd=REPO, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while not (tmp_path / "waits.log").exists() or "ready" not in (tmp_path / "waits.log").read_text():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130 and "cleaned" in (tmp_path / "waits.log").read_text()


@pytest.mark.parametrize("said, status", [("CMake Warning at x:1 (y):", 1), ("CMake Warning (dev) at x:1:", 1),
                                          ("CMake Deprecation Warning at x:1:", 1), ("-- Configuring done", 0)])
def test_what_cmake_warns_of_fails_the_stage(tmp_path, said, status):
    (tmp_path / "cmake").write_text(f'#!/bin/sh\n[ "$*" = "--preset some" ] && echo "{said}" >&2\n')
    (tmp_path / "cmake").chmod(0o755)
    done = run("build() { configure some; echo built; }\nstage build build", tmp_path,
               PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == status, done.stdout
    log = (tmp_path / "build.log").read_text()
    assert said in log and ("built" in log) == (status == 0)


def script_test(*arguments):
    return subprocess.run(["scripts/test", *arguments], cwd=REPO, text=True, check=False, capture_output=True, timeout=60)


def test_only_of_what_is_no_stage_is_refused_before_anything_runs():
    done = script_test("--only", "softnik")
    assert done.returncode == 2 and "softnik" in done.stderr and "softnic" in done.stderr and not done.stdout
    assert script_test("--quick", "--only", "softnic").returncode == 2


def test_options_are_checked():
    assert script_test("--stress", "often").returncode == 2 and script_test("--stress", "0").returncode == 2
    assert script_test("--no-such-option").returncode == 2
    assert "end-to-end" in script_test("--list").stdout.split()
