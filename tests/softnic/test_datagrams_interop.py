"""The host library's queue pairs for datagrams between two guests with the real rdma_rxe and a host on softnic. Needs root and
the guest kernel.
"""

import os
import subprocess
import sys

import pytest

import datagram_peers as peers
import pair as pairs
from epic_testbed import bed as beds
from epic_testbed import nodes

TESTBED = [sys.executable, str(pairs.ROOT / "scripts" / "testbed")]
GUESTS, SOFTNIC = ("h0", "h1"), "h2"
AT_ONCE = 50  # packets that a guest's device takes in without a loss


class Star(pairs.Hosts):
    """Three hosts on a Linux bridge."""

    def __init__(self):
        super().__init__({})
        self.name = f"dg{os.getpid() % 100000}"
        self._testbed("up", "star-3", "--bridge", "--hosts", f"softnic,{','.join(f'{g}=rxe' for g in GUESTS)}", "--guest-mem", "128")
        self._bed = beds.Bed(self.name)
        self._bed.require_up()

    def start(self, host, *argv):
        return self._begin(*nodes.command(self._bed, host, [str(a) for a in argv], 120, stdin=True))

    def close(self):
        super().close()
        self._testbed("down")

    def _testbed(self, command, *argv):
        subprocess.run(TESTBED + [command, "--name", self.name, *argv], check=True)


@pytest.fixture(name="all_star", scope="module")
def fixture_all_star():
    yield from pairs.closed_at_the_end(Star())


@pytest.fixture(name="star")
def fixture_star(all_star):
    yield all_star
    all_star.end_programs()


def joined(star, *hosts):
    all_peers = [peers.Peer(star, host, "vec0") for host in hosts]
    for peer in all_peers:
        peer.join()
    return all_peers


def test_every_member_gets_every_datagram(star):
    """Those on the sender's host and itself, too: Linux gives a host that is a member what it sends to the group."""
    members = joined(star, *GUESTS, GUESTS[0], SOFTNIC)
    for sender in members:
        peers.all_get_all(sender, members, 300, AT_ONCE)


def test_a_changed_key_drops(star):
    first, second, softnic = joined(star, *GUESTS, SOFTNIC)
    peers.another_key_is_another_group(softnic, first, second)


def test_the_guests_kernel_is_a_member_while_the_queue_pair_is(star):
    def memberships():
        return star.run(GUESTS[0], "cat", "/proc/net/igmp")

    group = "0107C0EF"  # 239.192.7.1
    guest, = joined(star, GUESTS[0])
    assert group in memberships()
    assert guest.ask("leave") == "left"
    assert group not in memberships()


def test_the_error_state_gives_every_receive_back(star):
    guests = joined(star, *GUESTS)
    peers.all_get_all(guests[1], guests, AT_ONCE, AT_ONCE)
    peers.every_receive_is_given_back(guests[0])
