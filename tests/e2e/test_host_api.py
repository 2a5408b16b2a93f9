"""The host library's interface over softnic: calls and requests, and what ends a group, by the ranks themselves."""

import re
import signal

import pytest

from host_api import (AT_ONCE_S, BED, Rank, anew, assert_ended_everywhere, assert_within, first_error, seconds_between,
                      start)

pytestmark = pytest.mark.endings

CALLS = ["allreduce:1000", "reduce:500,int32,max,2", "broadcast:30000,uint8,sum,1", "reducescatter:700,half,avg",
         "allgather:40001,bfloat16", "barrier"]


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*BED)


def test_every_collective_blocking_and_by_a_request(bed):
    by_request = [f"start-{call}" for call in CALLS] + ["test", "poll"] + ["wait"] * len(CALLS)
    no_group = ["async", "barrier", "destroy"]
    ranks = start(bed, *[[*no_group, "init", *CALLS, *by_request, "move", "async", "destroy", *no_group]] * 4)
    for rank in ranks:
        assert [line["did"] for line in rank.errors()] == [*no_group, "move", *no_group]
        assert {(line["error"], line["message"]) for line in rank.errors()} == {
            ("invalid argument", "the communicator is not initialised")}
        assert sum("wrong" in line for line in rank.told()) == 2 * len(CALLS)


def test_requests_outlive_what_they_came_from(bed):
    """Waited for after Destroy, which had waited; dropped while their calls go on; asked twice."""
    steps = ["init", "start-allreduce:50000", "forget", "start-allreduce:20000", "start-barrier", "poll", "destroy",
             "test", "wait", "wait"]
    for rank in start(bed, *[steps] * 4):
        assert rank.errors() == []
        assert rank.did("test")["ended"]


def test_registered_memory(bed):
    steps = ["init", "registered:100", "registered:60000,int32,min", "allreduce:60000", "destroy"]
    for rank in start(bed, *[steps] * 4):
        assert rank.errors() == []


REFUSED = {"no-sendbuff": "sendbuff is null", "no-recvbuff": "recvbuff is null", "overlap": "overlap",
           "size": "more than 64 TiB", "type": "unsupported type 77", "bytes": "bytes cannot be reduced",
           "operation": "unsupported operation 77", "root": "root 4", "no-request": "request is null",
           "no-memory": "nothing to register", "no-registration": "registration is null",
           "second-init": "initialised already", "forked-init": "fork before the first Init"}


def test_a_call_that_is_refused_leaves_the_communicator_usable(bed):
    """Only rank 0 is refused; were anything sent or counted, the next call would not fit the others'."""
    refused = [step for what in REFUSED for step in (f"refused:{what}", "allreduce:10")]
    others = ["allreduce:10"] * len(REFUSED)
    ranks = start(bed, ["init", *refused, "async", "destroy"], *[["init", *others, "destroy"]] * 3)
    for what, why in REFUSED.items():
        line = ranks[0].did(f"refused:{what}")
        kind = "unsupported" if what in ("type", "bytes", "operation") else "invalid argument"
        assert line["error"] == kind and why in line["message"], line
    for rank in ranks:
        assert [line for line in rank.errors() if "refused" not in line["did"]] == []


def test_more_outstanding_calls_than_there_may_be(bed):
    """kNoResource: the others make no call until rank 0 has been refused one; then all of its calls end well."""
    ranks = start(bed, ["init", "fill", "async", "wait", "allreduce:1000", "destroy"],
                  *[["init", "pause", *["barrier"] * 1024, "allreduce:1000", "destroy"]] * 3)
    ranks[0].wait_until_doing("wait")
    for rank in ranks[1:]:
        rank.signal()
    filled = ranks[0].did("fill")
    assert filled["started"] == 1024 and filled["error"] == "no resource" and "1024 calls" in filled["message"], filled
    for rank in ranks:
        assert [line for line in rank.errors() if line["did"] != "fill"] == []


# Who says rank 0's deadline, before it joins or then, and how it waits for the call that rank 3 does not make.
MS = 500
WAITS = (("option:0", ["allreduce:100"]),  # EPIC_TIMEOUT
         (f"option:{MS}", ["start-allreduce:101", "wait"]),
         ("option:60000", [f"timeout:{MS}", "start-allreduce:102", "poll", "wait"]),
         ("option:60000", [f"timeout:{MS}", "start-allreduce:103", "until-error", "wait"]))  # nobody waits


def test_a_deadline_is_a_timeout_there_and_aborted_elsewhere(bed):
    steps = [[] for _ in range(4)]
    for nth, (option, call) in enumerate(WAITS):
        group, later = bed.new_group(), ["allreduce:7", "start-barrier", "async", "destroy"]
        others = [f"init:{group}", f"allreduce:{100 + nth}", *later]
        idle = [f"init:{group}", f"until-error:{nth}", *later]
        for rank, own in enumerate(([option, f"init:{group}", f"pause:{nth}", *call, *later], others, others, idle)):
            steps[rank] += own
    again = anew(bed)[1:]
    ranks = start(bed, *[own + again for own in steps], first={"before": [f"EPIC_TIMEOUT={MS / 1000}"]})
    for nth in range(len(WAITS)):
        for rank, step in zip(ranks, ("pause:{}", "allreduce:10{}", "allreduce:10{}", "until-error:{}")):
            rank.wait_until_doing(step.format(nth))
        ranks[0].signal()
    for nth in range(len(WAITS)):
        assert_ended_everywhere(ranks, ["timeout", "aborted", "aborted", "aborted"], nth)
        timeout = first_error(ranks[0], nth)
        # Where nobody waits somebody looks once a second.
        assert_within(MS / 1000 + 1, seconds_between(ranks[0].did(f"pause:{nth}"), timeout))
        for rank in ranks[1:]:
            aborted = first_error(rank, nth)
            assert "did not end before its deadline" in aborted["message"], aborted
            assert_within(AT_ONCE_S, seconds_between(timeout, aborted))


@pytest.mark.parametrize("path", ["network", "hosts"])
def test_a_deadline_names_who_has_not_called(bed, path):
    """As far as switches and ranks answer before it: where the machine is busy, in a try with a longer one."""
    for ms in (2000, 4000, 8000, 16000):
        group = bed.new_group()
        steps = [["init", "pause", f"timeout:{ms}", "allreduce:100", "destroy"], *[["init", "allreduce:100", "destroy"]] * 2,
                 ["init", "until-error", "destroy"]]
        ranks = [Rank(bed, number, own, group, before=(f"EPIC_PATH={path}",)) for number, own in enumerate(steps)]
        for rank, step in zip(ranks, ("pause", "allreduce:100", "allreduce:100", "until-error")):
            rank.wait_until_doing(step)
        ranks[0].signal()
        messages = [first_error(rank)["message"] for rank in ranks]
        assert all("call 0 did not end before its deadline: " in message for message in messages), messages
        whom = (r"allreduce 0: waits for rank 3 \(h3\) since \d+\.\d s; ranks 0, 1, 2 have called; "
                r"rank 3 is in no call: it computes, or waits for something else")
        if all(re.search(whom, message) for message in messages):
            return
    assert not messages


def test_a_stopped_process_is_waited_for_until_a_deadline(bed):
    """Rank 3 stands still: nothing happens until it goes on; the second time rank 0 has a deadline."""
    again = anew(bed)
    steps = ["init", "barrier", "pause:1", "allreduce:100", "pause:2", "allreduce:200", *again]
    ranks = start(bed, [*steps[:5], f"timeout:{MS}", *steps[5:]], *[steps] * 3)
    for pause, call, until in (("pause:1", "allreduce:100", "doing"), ("pause:2", "allreduce:200", "did")):
        for rank in ranks:
            rank.wait_until_doing(pause)
        ranks[3].signal(signal.SIGSTOP)
        for rank in ranks:
            rank.signal()
        for rank in ranks[:3]:
            rank.program.wait_for(f'"{until}":"{call}"')
        ranks[3].signal(signal.SIGCONT)
    assert_ended_everywhere(ranks, ["timeout", "aborted", "aborted", "aborted"])
    assert "error" not in ranks[0].did("allreduce:100")


def test_abort_ends_the_calls_of_all_ranks_at_once(bed):
    """Rank 0 in a call, by another of its threads; 1 and 2 in calls, blocking and not; rank 3 is asked for nothing."""
    again = anew(bed)
    ranks = start(bed, ["init", "barrier", "abort-later:had enough", "allreduce:100", "async", *again],
                  ["init", "barrier", "allreduce:100", "async", *again],
                  ["init", "barrier", "start-allreduce:100", "until-error", "wait", "async", *again],
                  ["init", "barrier", "until-error", "allreduce:100", "async", *again])
    for rank, step in zip(ranks, ("allreduce:100", "allreduce:100", "until-error", "until-error")):
        rank.wait_until_doing(step)
    ranks[0].signal(signal.SIGUSR2)
    assert_ended_everywhere(ranks, ["aborted"] * 4)
    for rank in ranks:
        assert "had enough" in first_error(rank)["message"]
        assert_within(AT_ONCE_S, seconds_between(first_error(ranks[0]), first_error(rank)))
    assert "rank 0" in first_error(ranks[3])["message"]


def test_an_abort_without_calls_is_told_to_those_who_call_later(bed):
    again = anew(bed)
    ranks = start(bed, *[["init", "barrier", "until-error", "allreduce:100", *again]] * 3,
                  ["init", "barrier", "pause", "abort:of no use", "async", "allreduce:100", *again])
    for rank in ranks[:3]:
        rank.wait_until_doing("until-error")
    ranks[3].signal()
    assert_ended_everywhere(ranks, ["aborted"] * 4)


def test_a_communicator_dropped_without_destroy_is_an_abort(bed):
    """Its own request says so too, and the object works in another group."""
    again = anew(bed)
    ranks = start(bed, ["init", "barrier", "start-allreduce:90000", "pause", "drop", "wait", *again[1:]],
                  *[["init", "barrier", "allreduce:90000", "async", *again]] * 2,
                  ["init", "barrier", "until-error", "async", *again])
    for rank, step in zip(ranks, ("pause", "allreduce:90000", "allreduce:90000", "until-error")):
        rank.wait_until_doing(step)
    ranks[0].signal()
    assert [(line["did"], line["error"]) for line in ranks[0].errors()] == [("wait", "aborted")]
    assert_ended_everywhere(ranks[1:], ["aborted"] * 4)
    for rank in ranks[1:]:
        assert "dropped without Destroy" in first_error(rank)["message"]
        assert_within(AT_ONCE_S, seconds_between(ranks[0].did("drop"), first_error(rank)))


def test_destroy_waits_for_all_ranks_and_the_name_can_be_used_again(bed):
    group = bed.new_group()
    steps = ["init", "allreduce:100", "destroy", f"init:{group}", "allreduce:200", "destroy"]
    late = start(bed, *[steps] * 3, ["init", "allreduce:100", "pause", *steps[2:]], group=group)
    for rank in late[:3]:
        rank.wait_until_doing("destroy")
    late[3].signal()
    for rank in late:
        assert rank.errors() == []


def test_destroy_has_the_calls_deadline(bed):
    """Rank 3 goes on without the others, that have given up waiting for it: it is not left in its call."""
    again = anew(bed)[1:]
    ranks = start(bed, ["init", "barrier", f"timeout:{MS}", "destroy", *again],
                  *[["init", "barrier", "destroy", *again]] * 2,
                  ["init", "barrier", "pause", "allreduce:100", "destroy", *again])
    ranks[0].program.wait_for('"did":"destroy"')
    ranks[3].signal()
    assert (first_error(ranks[0])["did"], first_error(ranks[0])["error"]) == ("destroy", "timeout"), ranks[0].outcome()
    assert_within(MS / 1000, first_error(ranks[0])["us"] / 1e6)
    for rank in ranks[1:]:
        assert first_error(rank)["error"] == "aborted", rank.outcome()
        assert "has left" in first_error(rank)["message"], rank.outcome()
    for rank in ranks:
        assert [line for line in rank.groups()[-1] if "error" in line] == []
