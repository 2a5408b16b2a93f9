"""Atomics are executed exactly once, whatever the network does: fetches and adds of several queue pairs, while frames are
lost and repeated, leave a counter at their number, and each finds another value. Needs root, and the guest kernel."""

import os
import re

import pytest

from test_verbs import Peer

QPS = 4
# 5 % of the frames of each direction, both.
FAULTS = {"drop_ppm": 50_000, "duplicate_ppm": 50_000}
# 0.5 s: a guest on a busy machine may stand still for longer than the seven retries of a shorter time-out last. rdma_rxe,
# which retries without end, and softnic by itself have 67 ms.
GUEST_TIMEOUT, TIMEOUT, RETRIES = 17, 14, 7
COUNTS = [pytest.param(4_000), pytest.param(100_000, marks=pytest.mark.slow)]


def connect(one, other, timeout):
    (number, qpn, ip), (other_number, other_qpn, other_ip) = one.new(), other.new()
    assert one.tell(f"connect {number} {other_qpn} {other_ip} {timeout} {RETRIES}") == ["connected"]
    assert other.tell(f"connect {other_number} {qpn} {ip} {timeout} {RETRIES}") == ["connected"]


def counter(peer):
    """Value, address and key."""
    return re.fullmatch(r"counter (\d+) address (\d+) rkey (\d+)", peer.tell("counter")[0]).groups()


def add_and_count(pair, wire, count, requester, responder):
    wire.random_faults(0)
    adds, counts = Peer(pair, requester), Peer(pair, responder)
    for _ in range(QPS):
        connect(adds, counts, GUEST_TIMEOUT if responder == "rxe" else TIMEOUT)
    value, address, rkey = counter(counts)
    assert value == "0"
    seed = int(os.environ.get("EPIC_SEED", "1"))
    print(f"replay: EPIC_SEED={seed}")
    wire.random_faults(seed, **FAULTS)
    before = len(wire.log())
    assert adds.tell(f"add {count} {address} {rkey}", timeout_s=600) == [f"added {count} distinct {count}"]
    lost = len(wire.log()) - before
    wire.random_faults(0)
    print(f"{lost} frames were lost, and about as many repeated")
    assert lost > count * 0.05
    assert counter(counts)[0] == str(count)


@pytest.mark.parametrize("count", COUNTS)
def test_softnic_counts(lossy_pair, count):
    add_and_count(lossy_pair, lossy_pair.wire, count, "a", "b")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("requester,responder", [("softnic", "rxe"), ("rxe", "softnic")])
def test_with_rxe(lossy_guests, count, requester, responder):
    add_and_count(lossy_guests, lossy_guests.wire, count, requester, responder)
