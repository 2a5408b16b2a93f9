"""Guests with the real rdma_rxe on a star of one Linux bridge: boot, exec, RDMA, TCP.

Needs root and the guest kernel.
"""

import os
import signal
import subprocess
import time

import pytest

GUEST_KERNEL = [os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "guest-kernel"), "--path"]


@pytest.fixture(name="start", scope="module")
def fixture_start(module_testbed):
    """start("h0", "program", ...) starts a program on a guest."""
    # A test that cannot run has not passed.
    if subprocess.run(GUEST_KERNEL, capture_output=True, check=False).returncode != 0:
        pytest.fail("no guest kernel: run scripts/guest-kernel")
    module_testbed("up", "star-2", "--hosts", "rxe", "--bridge", "--guest-mem", "128")

    def start(host, *argv, options=()):
        return subprocess.Popen(module_testbed.argv("exec", *options, host, "--", *argv), text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return start


@pytest.fixture(name="run", scope="module")
def fixture_run(start):
    """run("h0", "program", ...) is status, output and errors of a program on a guest."""

    def run(host, *argv, options=("--timeout", "30")):
        process = start(host, *argv, options=options)
        out, err = process.communicate()
        return process.returncode, out, err

    return run


def test_rxe_is_ready_with_the_whole_mtu(run):
    assert "active_mtu:		4096" in run("h0", "ibv_devinfo")[1]
    assert run("h1", "cat", "/sys/class/infiniband/rxe0/ports/1/gids/1")[1].strip().endswith("ffff:0a0a:0002")
    assert run("h1", "sh", "-c", "ulimit -l")[1] == "unlimited\n"


def test_rdma_between_guests(start, run):
    server = start("h1", "ibv_rc_pingpong", "-e", "-g", "1", "-m", "4096", "-n", "200", "-s", "65536", "-c",
                   options=("--timeout", "30"))
    client = "until ibv_rc_pingpong -e -g 1 -m 4096 -n 200 -s 65536 -c h1; do sleep 0.1; done"
    status, out, err = run("h0", "sh", "-c", client)
    assert status == 0 and "200 iters" in out, err
    assert "200 iters" in server.communicate()[0] and server.returncode == 0


def test_tcp_packets_are_whole_on_the_wire(start, run, module_testbed):
    # As the switch receives them: what it sends, the kernel has cut and summed.
    argv = ["h0", "-c", "50", "--", "-v", "-Q", "in", "tcp", "port", "5201"]
    capture = subprocess.Popen(module_testbed.argv("capture", *argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "listening on" not in capture.stderr.readline():
        assert capture.poll() is None
    server = start("h1", "iperf3", "-s", "-1")
    client = "until iperf3 -c h1 -n 4M; do sleep 0.1; done"
    assert run("h0", "sh", "-c", client)[0] == 0
    server.communicate()
    shown = capture.communicate(timeout=20)[0]
    assert "correct" in shown and "incorrect" not in shown


def test_output_is_live_and_status_is_passed_on(start):
    process = start("h0", "sh", "-c", "echo one; read line; echo $line >&2; exit 7", options=("-i",))
    assert process.stdout.readline() == "one\n"
    _, err = process.communicate("two\n")
    assert err == "two\n" and process.returncode == 7


def test_several_commands_run_at_the_same_time(start, run):
    # Each waits for the other's file.
    script = "touch /tmp/$0; until [ -e /tmp/$1 ]; do sleep 0.02; done"
    first = start("h0", "sh", "-c", script, "a", "b", options=("--timeout", "20"))
    assert run("h0", "sh", "-c", script, "b", "a")[0] == 0
    first.communicate()
    assert first.returncode == 0


def test_interrupt_reaches_the_command(start):
    script = "trap 'echo got it; exit 5' INT; echo ready; while :; do sleep 0.1; done"
    process = start("h0", "sh", "-c", script)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "got it\n"
    assert process.returncode == 5


def test_timeout_ends_also_what_ignores_sigterm(run):
    script = "trap '' TERM; while :; do sleep 0.1; done"
    assert run("h0", "sh", "-c", script, options=("--timeout", "0.5"))[0] == 124


def test_a_killed_client_takes_its_command_with_it(start, run):
    process = start("h1", "sh", "-c", "echo $$; exec sleep 1000")
    pid = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while run("h1", "test", "-e", f"/proc/{pid}")[0] == 0:
        assert time.monotonic() < deadline


def test_a_background_process_does_not_hold_the_exec(run):
    status, out, _ = run("h0", "sh", "-c", "sleep 1000 & echo left it")
    assert status == 0 and out == "left it\n"


def test_what_cannot_start_is_said(run):
    status, _, err = run("h0", "no-such-program")
    assert status == 127 and "no-such-program" in err


def test_root_is_read_only_and_the_share_is_not(run, module_testbed):
    assert run("h0", "touch", "/etc/x")[0] != 0
    assert run("h0", "sh", "-c", "echo hello >$TESTBED_SHARE/file")[0] == 0
    with open(module_testbed.path("share", "file"), encoding="ascii") as file:
        assert file.read() == "hello\n"
