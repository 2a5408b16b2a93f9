"""Brings small test beds up and down: needs root, namespaces and veth pairs, but no guests and no daemons."""

import os
import pathlib
import signal
import socket
import subprocess
import sys

from epic_testbed import net, procs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def up(testbed, *arguments, check=True):
    return testbed("up", *arguments, "--hosts", "none", "--bridge", check=check)


def test_hosts_reach_each_other_with_the_whole_mtu(testbed):
    up(testbed, "tree-3-2")
    ping = testbed("exec", "h0", "--", "ping", "-c", "1", "-w", "20", "-M", "do", "-s", "4148", "10.10.0.4")
    assert "1 received" in ping.stdout
    ping = testbed("exec", "h0", "--", "ping", "-c", "1", "-M", "do", "-s", "4200", "10.10.0.4", check=False)
    assert ping.returncode != 0
    testbed("exec", "h3", "--", "ping", "-c", "1", "-w", "20", "10.255.0.1")


def test_up_twice_is_fine_and_another_topology_is_refused(testbed):
    up(testbed, "star-2")
    assert "already" in up(testbed, "star-2").stderr
    other = up(testbed, "star-3", check=False)
    assert other.returncode == 1 and "testbed down" in other.stderr


def test_exec_passes_on_status_environment_and_timeout(testbed):
    up(testbed, "star-2")
    assert testbed("exec", "h1", "--", "sh", "-c", "exit 7", check=False).returncode == 7
    shown = testbed("exec", "--env", "X=5", "h1", "--", "sh", "-c", "echo $EPIC_MANAGER $EPIC_IFNAME $X")
    assert shown.stdout == "10.255.0.1:7400 vec0 5\n"
    assert testbed("exec", "h1", "sh", "-c", "echo -- $0", "a", "--", "b").stdout == "-- a\n"
    assert testbed("exec", "--timeout", "0.2", "h1", "--", "sleep", "30", check=False).returncode == 124
    unknown = testbed("exec", "h9", "--", "true", check=False)
    assert unknown.returncode == 1 and "no host or switch 'h9'" in unknown.stderr


def test_each_host_has_a_name_of_its_own_and_knows_the_others(testbed):
    up(testbed, "star-2")
    assert [testbed("exec", host, "hostname").stdout for host in ("h0", "h1", "s1")] == ["h0\n", "h1\n", f"{socket.gethostname()}\n"]
    script = f"{testbed.path('rsh')} -x -l root h1 'hostname; getent hosts h0 mgmt; getent hosts nobody || echo no such name; echo $HERE'"
    shown = testbed("exec", "--env", "HERE=h0", "h0", "sh", "-c", script)
    assert [line.split() for line in shown.stdout.splitlines()] == [["h1"], ["10.10.0.1", "h0"], ["10.255.0.1", "mgmt"], ["no", "such", "name"], []]
    nobody = testbed("exec", "h0", testbed.path("rsh"), "h2", "true", check=False)
    assert nobody.returncode == 255 and "which host" in nobody.stderr


def test_down_ends_commands_that_still_run(testbed):
    up(testbed, "star-2")
    argv = testbed.argv("exec", "s1", "--", "sh", "-c", "echo here; exec sleep 1000")
    command = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert command.stdout.readline() == "here\n"
    testbed("down")
    assert command.wait(timeout=10) == -signal.SIGTERM


def test_up_removes_what_a_killed_up_left_behind(testbed):
    up(testbed, "star-2")
    # As a killed `up` leaves it: namespaces without a record.
    os.unlink(testbed.path("record.json"))
    assert "left behind" in up(testbed, "star-3").stderr
    testbed("exec", "h2", "--", "ping", "-c", "1", "-w", "20", "10.10.0.1")


def test_a_links_offloads_are_as_they_are_asked_for(testbed):
    names = [testbed.namespace(end) for end in "ab"]
    net.add_namespaces(names)
    devices = net.Devices()
    devices.veth((names[0], "plain"), (names[1], "plain"), 4200)
    devices.veth((names[0], "super"), (names[1], "super"), 4200, super_frames=True)
    devices.make()

    def on(device):
        told = subprocess.run(["ip", "netns", "exec", names[1], "ethtool", "-k", device], capture_output=True, text=True, check=True).stdout
        return {line.split(":")[0].strip() for line in told.splitlines() if ": on" in line}

    wanted = {"tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload", "tx-udp-segmentation"}
    assert on("plain") & wanted == set() and on("super") & wanted == {"tx-checksumming", "tx-udp-segmentation"}
    assert not [name for device in ("plain", "super") for name in on(device) if name.startswith("tx-tcp")]


def test_bridges_on_redundant_paths_are_refused(testbed):
    refused = up(testbed, "fat-tree-4", check=False)
    assert refused.returncode == 1 and "loop" in refused.stderr
    assert not testbed.remains()


def test_capture_sees_a_ping(testbed):
    up(testbed, "star-2")
    capture = subprocess.Popen(testbed.argv("capture", "s1:swp2", "-c", "2", "--", "icmp"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "listening on swp2" not in capture.stderr.readline():
        assert capture.poll() is None
    testbed("exec", "h0", "--", "ping", "-c", "1", "-w", "20", "10.10.0.2")
    assert "10.10.0.1 > 10.10.0.2: ICMP echo request" in capture.communicate(timeout=10)[0]


def test_up_starts_the_daemons_and_waits_for_the_switches(testbed, build):
    done = testbed("up", "star-2", "--hosts", "none", "--build", str(build))
    assert "1 switch registered" in done.stderr
    shown = testbed("status").stdout
    assert "engine up, agent up" in shown and "manager up" in shown


def test_a_host_that_lends_has_its_daemon(testbed, build):
    """On softnic, whose library is an empty file here."""
    assert "h1 lends 64M" in testbed("up", "star-2", "--build", str(build), "--lend", "h1=64M").stderr
    said = testbed("logs", "h1.inchost").stdout
    assert "--name h1" in said and "--fallback 64M --fallback-interface vec0" in said


def test_up_fails_with_the_log_of_a_daemon_that_ends(testbed, build):
    (build / "incagent" / "incagent").write_text("#!/bin/sh\necho no such engine >&2\nexit 1\n")
    (build / "incmanager" / "incmanager").write_text("#!/bin/sh\n[ $1 = serve ] && exec sleep 1000\nexit 3\n")
    done = testbed("up", "star-2", "--hosts", "none", "--build", str(build), check=False)
    assert done.returncode == 1
    assert "s1.agent ended" in done.stderr and "no such engine" in done.stderr
    assert not testbed.remains()


def test_a_build_tree_without_daemons_is_refused(testbed, tmp_path):
    done = testbed("up", "star-2", "--hosts", "none", "--build", str(tmp_path), check=False)
    assert done.returncode == 1 and "--no-daemons" in done.stderr
    assert not testbed.remains()


def test_a_program_that_is_ended_while_it_brings_one_up_leaves_nothing(testbed, build):
    # Its manager knows of no switch: `up` waits for them.
    (build / "incmanager" / "incmanager").write_text("#!/bin/sh\n[ \"$1\" = serve ] && exec sleep 1000\necho '{\"switches\": []}'\n")
    program = f"""
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
import epic_ranks
epic_ranks.testbed("up", "star-2", "--name", "{testbed.name}", "--hosts", "none", "--build", "{build}")
"""
    with subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT / "scripts" / "lib")}) as process:
        while not os.path.exists(testbed.path("record.json")):
            assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=60) == 143
    assert not testbed.remains()


def test_a_socket_answers_when_somebody_listens_there(tmp_path):
    """Not when its file is there: that is so from bind on, and after the end of who listened."""
    path = str(tmp_path / "socket")
    assert not procs.answers(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert not procs.answers(path)
        server.listen()
        assert procs.answers(path)
    assert os.path.exists(path) and not procs.answers(path)


def test_six_test_beds_come_up_at_once_each_with_its_own(testbed):
    """And of one bed two `up`s take turns."""
    beds = [type(testbed)(f"{testbed.name[:11]}{letter}") for letter in "abcdef"]
    try:
        ups = [subprocess.Popen(bed.argv("up", "star-2", "--hosts", "none", "--bridge"), stderr=subprocess.PIPE, text=True)
               for bed in [*beds, beds[0]]]
        said = [process.communicate(timeout=180)[1] for process in ups]
        assert [process.returncode for process in ups] == [0] * len(ups), said
        assert "is up already" in said[0] + said[-1], said
        for bed in beds:
            bed("exec", "h0", "--", "ping", "-c", "1", "-w", "20", "10.10.0.2")
    finally:
        for bed in beds:
            bed("down")
    assert not [path for bed in beds for path in bed.remains()]
