"""Ports that cannot be jammed: daemons with 1,024 descriptors, as systemd gives them, answer while and after somebody does to
them what nobody should (flood.py), and a group that runs notices nothing of it."""

import os
import pathlib
import sys
import time

import pytest

import harness
from test_host_daemon import MANAGER, Daemon

FLOOD = pathlib.Path(__file__).with_name("flood.py")
KINDS = ("silent", "half", "garbage", "settings", "streams", "resets")
# Of an agent and an engine, which have the same code in front of them, in a short run.
FEW_KINDS = ("half", "resets")
FEW = ("prlimit", "--nofile=1024:1024")
# A host that is silent for longer is in doubt (docs/PROTOCOL-CONTROL.md, section 7.1); what a test is late itself is more.
HEARD_MS = 2000
AGENT = "10.255.0.{}:7401"


@pytest.fixture(name="seconds")
def fixture_seconds(request):
    """How long each flood goes on."""
    return 60 if request.config.getoption("--full") else 0.5


@pytest.fixture(name="bed")
def fixture_bed(beds):
    bed = beds.get("star-4", "--hosts", "softnic")
    daemons = ("s1.engine", "s1.agent", "manager")
    commands = {daemon: bed.kill(daemon) for daemon in daemons}
    for daemon in daemons:
        bed.revive(daemon, [*FEW, *commands[daemon]])
    bed.wait_for_manager()
    yield bed
    for daemon in daemons:
        bed.kill(daemon)
        bed.revive(daemon, commands[daemon])
    bed.wait_for_manager()


def descriptors(bed, daemon):
    return len(os.listdir(f"/proc/{bed.record()['processes'][daemon]['pid']}/fd"))


def flooded(bed, kind, address, seconds, node="h3"):
    """Floods from a host; meanwhile the manager answers and hears its switch. The switch is asked for its tables, by its agent
    and its engine."""
    flood = bed.start(node, sys.executable, FLOOD, kind, address, seconds)
    flood.wait_for("begun")
    end, asked = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        switches = bed.manager("switches")["switches"]
        assert [switch["state"] for switch in switches] == ["up"], kind
        assert switches[0].get("last_heartbeat_ms_ago", 0) < HEARD_MS, kind
        assert bed.tables("s1")["info"]["name"] == "s1"
        asked += 1
    assert flood.wait() == 0, flood.output
    assert asked > 0
    return int(flood.output.split()[-1])


def test_a_flood_of_each_kind_leaves_manager_agent_and_engine_answering(bed, seconds):
    ranks = bed.loops_until_told("--counts", "1000", "--pause-ms", "20")
    engine = next(argument for argument in bed.record()["processes"]["s1.engine"]["argv"] if argument.endswith("s1.sock"))
    agent = next(argument for argument in bed.record()["processes"]["s1.agent"]["argv"] if argument.endswith(":7401"))
    before = {daemon: descriptors(bed, daemon) for daemon in ("manager", "s1.agent", "s1.engine")}
    for address in (MANAGER, agent, f"unix:{engine}"):
        for kind in KINDS if address == MANAGER or seconds > 1 else FEW_KINDS:
            assert flooded(bed, kind, address, seconds, "h3" if address == MANAGER else "mgmt") > 0, (kind, address)
    bed.end_loops(ranks)
    harness.assert_all_right(bed.loops())
    bed.assert_clean()
    # What is left open are the last ones: silent ones are closed after 10 s.
    deadline = time.monotonic() + harness.SOON_S
    while any(descriptors(bed, daemon) > count + 20 for daemon, count in before.items()):
        assert time.monotonic() < deadline, {daemon: descriptors(bed, daemon) for daemon in before}
        time.sleep(0.1)


def test_refused_joins_delay_nobody_and_displace_no_event(bed, seconds):
    bed.manager("group", "create", "kept", "--size", "2")
    refused = flooded(bed, "joins", MANAGER, seconds)
    assert refused > 100 * max(1, seconds), refused
    events = bed.manager("events", "--last", "0")["events"]
    assert any(event["about"] == "group kept" for event in events)
    of_flood = [event for event in events if event["about"] == "host flood"]
    assert sum(event.get("times", 1) for event in of_flood) > 100, of_flood
    bed.manager("group", "destroy", "kept")


def test_ranks_reach_a_hosts_daemon_while_somebody_floods_its_socket(bed, seconds, tmp_path):
    daemon = Daemon(bed, "h0", tmp_path)
    daemon.program.wait_for("registered at the manager")
    for kind in ("silent", "resets"):
        flood = bed.start("h3", sys.executable, FLOOD, kind, f"unix:{daemon.socket}", seconds)
        flood.wait_for("begun")
        group = bed.new_group()
        ranks = [bed.start(host, "env", *(daemon.before if host == "h0" else ()), harness.LOOP, "--group", group, "--rank", rank,
                           "--size", len(bed.hosts)) for rank, host in enumerate(bed.hosts)]
        harness.assert_all_right(ranks)
        assert flood.wait() == 0, flood.output
    daemon.program.end()
