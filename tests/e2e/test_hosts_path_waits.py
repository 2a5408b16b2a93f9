"""What groups between the hosts wait for, and for how long, and groups of one rank and of very many; over softnic."""

import contextlib
import signal

import pytest

import host_api
import test_host_errors
from epic_testbed import net
from host_api import AT_ONCE_S, Rank, assert_within, seconds_between

pytestmark = pytest.mark.endings

HOSTS = ("EPIC_PATH=hosts",)
MANY = 65  # ranks at leaf1; a switch takes 64 children


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*host_api.BED)


def start(bed, *steps, before=HOSTS):
    group = bed.new_group()
    return [Rank(bed, number, own, group, len(steps), before=before) for number, own in enumerate(steps)]


@contextlib.contextmanager
def h0_without_an_answer(bed, last):
    """Four ranks whose hosts know nothing of each other, and h0 does not answer ARP; the last one has its own step."""
    ranks = start(bed, *[["init", "pause", step, "destroy"] for step in ("barrier", "barrier", "barrier", last)])
    for rank in ranks:
        rank.wait_until_doing("pause")
    for host in bed.hosts:
        net.run(["ip", "-n", f"epic-{bed.name}-{host}", "neigh", "flush", "dev", "vec0"])
    with test_host_errors.cut(bed, "fabric", test_host_errors.port_of(bed, "h0")):
        yield ranks


def test_a_host_that_does_not_answer_arp_is_named(bed):
    """When the first call makes the connections."""
    with h0_without_an_answer(bed, "barrier") as ranks:
        for rank in ranks:
            rank.signal()
        lines = [rank.did("barrier") for rank in ranks]
    assert all(line["error"] in ("transport", "aborted") for line in lines), lines
    assert "transport" in [line["error"] for line in lines]
    for line in lines:
        assert "no ARP answer from rank " in line["message"], line
        assert_within(test_host_errors.ARP_S, line["us"] / 1e6)


def test_an_abort_is_heard_while_a_connection_is_made(bed):
    """No answer is waited for for four seconds; what the ranks call ends at once all the same."""
    with h0_without_an_answer(bed, "abort:enough") as ranks:
        for rank in ranks[:3]:
            rank.signal()
        for rank in ranks[:3]:
            rank.wait_until_doing("barrier")
        ranks[3].signal()
        abort = ranks[3].did("abort:enough")
        for rank in ranks[:3]:
            line = rank.did("barrier")
            assert line["error"] == "aborted" and "enough" in line["message"], line
            assert_within(AT_ONCE_S, seconds_between(abort, line))


@contextlib.contextmanager
def stopped(bed, *before):
    """Four ranks of which the last one's process stands still while the others are in a call."""
    ranks = start(bed, *[["init", "barrier", "pause", "allreduce:200000", "destroy"]] * 4, before=(*HOSTS, *before))
    for rank in ranks:
        rank.wait_until_doing("pause")
    ranks[3].signal(signal.SIGSTOP)
    for rank in ranks:
        rank.signal()
    yield ranks
    ranks[3].signal(signal.SIGCONT)


def test_a_process_that_stands_still_takes_softnic_with_it(bed):
    """Nobody acknowledges what it is sent: a pause is waited for, one as long as a dead port's is taken for that."""
    with stopped(bed) as ranks:
        for rank in ranks[:3]:
            rank.wait_until_doing("allreduce:200000")
    assert [rank.errors() for rank in ranks] == [[]] * 4
    with stopped(bed) as ranks:
        lines = [rank.did("allreduce:200000") for rank in ranks[:3]]
    found = [line for line in lines if line["error"] == "transport"]
    assert found and all(line["error"] in ("transport", "aborted") for line in lines), lines
    for line in lines:
        assert "the connection with rank 3 (10.10.0.4) failed: send: transport retry counter exceeded" in line["message"]
        assert_within(test_host_errors.PORT_S, line["us"] / 1e6)
    assert ranks[3].did("allreduce:200000")["error"] in ("transport", "aborted")


@pytest.mark.parametrize("path", ["auto", "network", "hosts"])
def test_a_group_of_one_works_by_whatever_path(bed, path):
    """Nobody else is asked, as no manager serves there."""
    steps = ["init", "path", "allreduce:1000", "allgather:7,int32", "broadcast:0", "barrier", "destroy"]
    alone = Rank(bed, 0, steps, "one", 1, before=(f"EPIC_PATH={path}", f"EPIC_MANAGER={test_host_errors.NOWHERE}"))
    assert alone.errors() == []
    told = alone.did("path")
    assert (told["path"], told["reason"]) == ("hosts", "the group has one rank")


def test_more_ranks_than_a_switch_has_children_go_by_the_hosts(bed):
    """All of them at one switch; and they say why."""
    group, steps = bed.new_group(), ["init", "path", "allreduce:100", "reducescatter:3,int32", "barrier", "destroy"]
    ranks = [Rank(bed, number, steps, group, MANY, bed.hosts[number % 2], before=("EPIC_SPIN_US=0",))
             for number in range(MANY)]
    for rank in ranks:
        assert rank.errors() == []
        told = rank.did("path")
        assert (told["path"], told["reason"]) == (
            "hosts", f"leaf1 would have {MANY} children in this group; it takes at most {MANY - 1}")


def test_nothing_remains(bed):
    bed.wait_clean()
