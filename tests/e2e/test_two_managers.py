"""Whose a switch is: a second manager, whose agent was registered by mistake, takes nothing from groups that run; and what
somebody changes at a switch behind the manager's back is noticed."""

import contextlib
import json
import time

import pytest

import harness
from harness import assert_all_right, errors

pytestmark = pytest.mark.endings

SECOND = "10.255.0.1:7500"
SWITCH_CALL = harness.BUILD / "incengine" / "switch_call"
SILENT_S = 5  # after so long without a word of its manager a switch may be another one's, if that keeps no groups


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", *harness.ANY_HOSTS)


def command_of(bed, daemon, **options):
    """How it was started, with other values of these options."""
    pid = bed.record()["processes"][daemon]["pid"]
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        argv = file.read().split("\0")[:-1]
    for name, value in options.items():
        argv[argv.index(f"--{name}") + 1] = value
    return argv


@contextlib.contextmanager
def second_manager(bed):
    """A manager beside the bed's, and an agent of leaf1 that is registered there; yields the agent."""
    argv = command_of(bed, "leaf1.agent")
    listen = argv[argv.index("--listen") + 1].rpartition(":")[0] + ":7555"
    manager = bed.start("mgmt", *command_of(bed, "manager", listen=SECOND))
    agent = bed.start("leaf1", *command_of(bed, "leaf1.agent", manager=SECOND, listen=listen))
    try:
        yield agent
    finally:
        agent.end()
        manager.end()


def running_group(bed):
    """Its name, and its ranks, which go on."""
    group = bed.network_group()
    ranks = bed.loops("--until-signal", "--iterations", 1_000_000, "--counts", "1000,20000", "--pause-ms", 200, group=group)
    for rank in ranks:
        rank.wait_for("joined")
    return group, ranks


def test_a_second_manager_takes_no_switch_that_has_groups_of_the_first(bed):
    group, ranks = running_group(bed)
    with second_manager(bed) as agent:
        agent.wait_for("refuses this switch: fenced: it has contexts of cluster")
        assert "incmanager adopt leaf1" in agent.output
        time.sleep(SILENT_S + 2)  # the first one is not silent
        assert "registered at" not in agent.output
        bed.end_loops(ranks)
        bed.manager("group", "destroy", group)
        bed.wait_clean()
        agent.wait_for("registered at the manager")  # now there is nothing to be taken
    assert_all_right(bed.loops())


def test_an_operator_may_give_a_switch_to_another_manager(bed):
    group, ranks = running_group(bed)
    with second_manager(bed) as agent:
        agent.wait_for("refuses this switch: fenced")
        done = bed.run("mgmt", harness.MANAGER, "adopt", "leaf1", "--manager", SECOND)
        assert "is this manager's when its agent is heard next" in done
        agent.wait_for("removed group")
        # The first one hears of it by its own agent of that switch.
        for error in errors(ranks):
            assert error["error"] == "switch lost", error
            assert "switch leaf1 has no context of it any more" in error["message"], error
            assert "has that switch now" in error["message"], error
    bed.manager("group", "destroy", group)
    bed.wait_clean()
    assert_all_right(bed.loops())


def test_a_manager_without_a_store_that_is_started_again_has_its_switches_at_once(bed):
    _, ranks = running_group(bed)
    bed.revive("manager", bed.kill("manager"))
    bed.wait_for_manager()
    for switch in bed.switches:
        with open(f"/run/epic/{bed.name}/logs/{switch}.agent.log", encoding="utf-8") as log:
            assert "refuses this switch" not in log.read().rpartition("lost the manager")[2]
    for error in errors(ranks):
        assert error["error"] == "manager lost", error
    bed.wait_clean()
    assert_all_right(bed.loops())


def ask_engine(bed, switch, method, **request):
    """By the engine's own interface, in the name of its manager: others it refuses."""
    argv = command_of(bed, f"{switch}.agent")
    control = argv[argv.index("--engine") + 1]
    fence = json.loads(bed.run(switch, SWITCH_CALL, control, "describe"))["fence"]
    return json.loads(bed.run(switch, SWITCH_CALL, control, method, json.dumps({"fence": fence, **request})))


def events_of(bed, switch):
    return [event["text"] for event in bed.manager("events", "--switch", switch)["events"]]


def wait_until(is_so):
    deadline = time.monotonic() + harness.SOON_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_somebody_changes_at_a_switch_is_noticed(bed):
    # A forwarding table: all hosts are cut off until the manager sets it anew.
    ask_engine(bed, "root", "set-forwarding")
    said = "its forwarding table has been emptied, and is set anew"
    wait_until(lambda: any(said in event for event in events_of(bed, "root")))
    bed.run("h0", "ping", "-c", "1", "-w", "5", "10.10.0.4")
    # A context.
    group, ranks = running_group(bed)
    installed = bed.manager("group", "show", group)
    ask_engine(bed, "leaf2", "remove", group_id=installed["group_id"], generation=installed["generation"])
    for error in errors(ranks):
        assert error["error"] == "switch lost", error
        assert "switch leaf2 has no context of it any more, and its engine is the same" in error["message"], error
    bed.manager("group", "destroy", group)
    bed.wait_clean()
    assert_all_right(bed.loops())
