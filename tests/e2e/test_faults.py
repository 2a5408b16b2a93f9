"""One thing breaks under a running group: what the ranks' calls return, within the promised time (faults.py)."""

import os

import pytest

import covers
import faults
import modes

pytestmark = pytest.mark.endings

KINDS = ("softnic", "rxe")
# Of groups between the hosts, on every push; all of them with --full.
OFTEN = ("switch", "uplink", "rank", "manager")


def run(beds, kind, name, way, runs=1):
    fault = faults.FAULTS[name]
    bed = beds.get("tree-3-2", "--hosts", kind)
    for _ in range(runs):
        found = faults.run_fault(bed, fault, way)
        print("\n" + faults.line(kind, way, fault, found))
        assert faults.complaint(fault, found) is None
    bed.wait_clean()


@pytest.mark.parametrize("name", [name for name, fault in faults.FAULTS.items() if fault.error])
@pytest.mark.parametrize("kind", ["softnic", pytest.param("rxe", marks=pytest.mark.in_turn(2))])
def test_a_fault_ends_as_promised(beds, kind, name):
    # Between guests every other one, in turn: what finds a fault is the same but for a rank or its link. The modes take turns: what a mode could change is the transport, which the kinds of hosts differ in more.
    run(beds, kind, name, modes.NUMBERS[-1 - list(faults.FAULTS).index(name) % len(modes.NUMBERS)])


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("kind", KINDS)
def test_faults_that_nobody_is_to_notice(beds, kind):
    """At once, on groups of three modes side by side, which turn with the commit; each for itself with --full."""
    bed = beds.get("tree-3-2", "--hosts", kind)
    first = covers.turn(kind, len(modes.NUMBERS))
    struck = list(zip(faults.UNNOTICED, modes.NUMBERS[first:] + modes.NUMBERS[:first]))
    for (fault, way), found in zip(struck, faults.run_at_once(bed, struck)):
        print("\n" + faults.line(kind, way, fault, found))
        assert faults.complaint(fault, found) is None
    bed.wait_clean()


@pytest.mark.parametrize("name", OFTEN)
def test_a_fault_between_hosts_ends_as_promised(beds, name):
    run(beds, "softnic", name, faults.BY_HOSTS)


@pytest.mark.parametrize("name", ("switch", "uplink", "hostlink"))
def test_a_fault_ends_a_group_by_multicast_as_promised(beds, name):
    """While datagrams flow, or a neighbour is to be read from that is out of reach."""
    run(beds, "softnic", name, faults.MULTICAST)


@pytest.mark.parametrize("kind", ["softnic", pytest.param("rxe", marks=pytest.mark.in_turn(2))])
def test_ranks_are_the_witnesses_of_a_switch_without_neighbours(beds, kind):
    bed = beds.get("star-2", "--hosts", kind)
    # The hosts that it names are those that had had an echo before, at least one (docs/PROTOCOL.md, 7.1).
    fault = faults.Daemons("a lone switch killed", ["engine", "agent"], switch="s1", error="switch lost",
                           names=["switch s1 is lost: its agent is silent, and h", "no echo from it"], promised_s=faults.WHOLE_S)
    found = faults.run_fault(bed, fault, 2)
    print("\n" + faults.line(kind, 2, fault, found))
    assert faults.complaint(fault, found) is None
    agent = faults.Daemons("the agent of a lone switch killed", ["agent"], switch="s1")
    assert faults.complaint(agent, faults.run_fault(bed, agent, 2)) is None


@pytest.mark.slow
@pytest.mark.parametrize("way", (*modes.NUMBERS, faults.BY_HOSTS))
@pytest.mark.parametrize("name", faults.FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_ends_as_promised_each_time(beds, kind, name, way):
    run(beds, kind, name, way, runs=int(os.environ.get("EPIC_FAULT_RUNS", "10")))
