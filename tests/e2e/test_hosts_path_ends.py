"""What ends a group between the hosts, or keeps it waiting, while data flow by a ring, by doubling and by multicast; over
softnic."""

import signal
import time

import pytest

import epic_ranks
import host_api
import test_host_errors
import test_types
from epic_testbed import net
from host_api import AT_ONCE_S, Rank, assert_within, seconds_between

pytestmark = pytest.mark.endings

# More than any machine sends before it is asked how much it has sent, of which this much must have arrived.
LARGE, FLOWS_BYTES = {"ring": "allreduce:8000003", "doubling": "allreduce:8000003", "multicast": "allgather:4000003"}, 4_000_000
LATE_S, VERY_LATE_S, DEADLINE_MS, SWITCH_S = 3, 60, 1000, 5
HOSTS = ("EPIC_PATH=hosts",)
ENDED = 2  # the rank that dies, or aborts


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*test_types.BED)


@pytest.fixture(name="algorithm", params=list(LARGE))
def fixture_algorithm(request):
    return request.param


def start(bed, algorithm, *steps):
    group = bed.new_group()
    before = (*HOSTS, f"EPIC_ALGORITHM={algorithm}")
    return [Rank(bed, number, own, group, len(steps), before=before) for number, own in enumerate(steps)]


def received_bytes(bed, host):
    """By the host's port since it is there."""
    shown = net.run(["nsenter", f"--net=/run/netns/epic-{bed.name}-{host}", "--", "cat", "/proc/net/dev"])
    return int(next(line for line in shown.splitlines() if "vec0:" in line).split(":")[1].split()[0])


def wait_until_data_flow(bed, algorithm, rank, before):
    """Until its host has received so many bytes of the call, of which much more are to come."""
    rank.wait_until_doing(LARGE[algorithm])
    deadline = time.monotonic() + 60
    while received_bytes(bed, bed.hosts[rank.number]) < before + FLOWS_BYTES:
        assert time.monotonic() < deadline, rank.program.output


def in_a_large_call(bed, algorithm, *before):
    """Ranks in the midst of a large call; `before` are steps of the rank that ends."""
    steps = ["init", "barrier", "pause", LARGE[algorithm], "async", "barrier", "destroy"]
    ranks = start(bed, algorithm, *[[*before, *steps] if number == ENDED else steps for number in range(4)])
    for rank in ranks:
        rank.wait_until_doing("pause")
    received = received_bytes(bed, bed.hosts[ENDED])
    for rank in ranks:
        rank.signal()
    wait_until_data_flow(bed, algorithm, ranks[ENDED], received)
    return ranks


def assert_ended(rank, call, error, words):
    """The call, and all that follows."""
    assert rank.outcome() == [(step, "ok") for step in ("init", "barrier", "pause")] + [
        (step, error) for step in (call, "async", "barrier", "destroy")]
    assert words in rank.did(call)["message"], rank.did(call)


def test_a_rank_that_is_killed_while_data_flow(bed, algorithm):
    ranks, large = in_a_large_call(bed, algorithm), LARGE[algorithm]
    killed_us = time.monotonic() * 1e6
    ranks[ENDED].signal(signal.SIGKILL)
    for rank in ranks:
        if rank.number != ENDED:
            assert_ended(rank, large, "rank lost", f"rank {ENDED}")
            assert_within(AT_ONCE_S, (rank.did(large)["at_us"] - killed_us) / 1e6)
    ranks[ENDED].program.wait()
    assert f'"did":"{large}"' not in ranks[ENDED].program.output, "it was through with the call"


def test_an_abort_while_data_flow(bed, algorithm):
    ranks, large = in_a_large_call(bed, algorithm, "abort-later:enough"), LARGE[algorithm]
    aborted_us = time.monotonic() * 1e6
    ranks[ENDED].signal(signal.SIGUSR2)
    for rank in ranks:
        steps = rank.outcome()
        assert [step for step in steps if step[0] != "abort-later:enough"][3:] == [
            (step, "aborted") for step in (large, "async", "barrier", "destroy")], steps
        assert "enough" in rank.did(large)["message"], rank.did(large)
        assert_within(AT_ONCE_S, (rank.did(large)["at_us"] - aborted_us) / 1e6)


def test_a_deadline_ends_the_calls_of_all_ranks(bed, algorithm):
    """One rank has a deadline, one does not call."""
    call = "allgather:60000" if algorithm == "multicast" else "allreduce:200000"
    rest = [call, "async", "barrier", "destroy"]
    ranks = start(bed, algorithm, ["init", "barrier", f"timeout:{DEADLINE_MS}", *rest],
                  *[["init", "barrier", *rest]] * 2, ["init", "barrier", "pause", *rest])
    for rank in ranks[:3]:
        rank.program.wait_for(f'"did":"{call}"')
    ranks[3].signal()
    for rank, error in zip(ranks, ("timeout", "aborted", "aborted", "aborted")):
        assert rank.outcome()[-4:] == [(step, error) for step in rest], rank.outcome()
    waited_s = ranks[0].did(call)["us"] / 1e6
    assert waited_s >= DEADLINE_MS / 1000
    assert_within(DEADLINE_MS / 1000, waited_s)
    for rank in ranks[1:3]:
        assert_within(AT_ONCE_S, seconds_between(ranks[0].did(call), rank.did(call)))


@pytest.mark.parametrize("seconds", [LATE_S, pytest.param(VERY_LATE_S, marks=pytest.mark.slow)])
def test_a_rank_that_comes_late_to_a_call_is_waited_for(bed, algorithm, seconds):
    """All others are in the call, and with all on the way that may be; the next call finds everything in order."""
    calls = ["allgather:200000" if algorithm == "multicast" else "allreduce:200000", "allgather:5000,int32"]
    begin = ["init", f"timeout:{2000 * VERY_LATE_S}", "barrier"]
    ranks = start(bed, algorithm, *[[*begin, *calls, "destroy"]] * 3, [*begin, "pause", *calls, "destroy"])
    for rank in ranks[:3]:
        rank.wait_until_doing(calls[0])
    ranks[3].wait_until_doing("pause")
    time.sleep(seconds)
    ranks[3].signal()
    for rank in ranks:
        assert rank.errors() == []
        assert rank.number == 3 or rank.did(calls[0])["us"] >= seconds * 1e6


def test_an_algorithm_that_differs_is_named(bed):
    """All ranks must have the same: it says what goes between them. Whom the manager tells first has the bare words."""
    group, steps = bed.new_group(), ["init", "allreduce:1000", "destroy"]
    ranks = [Rank(bed, number, steps, group, 3, before=(*HOSTS, f"EPIC_ALGORITHM={algorithm}"))
             for number, algorithm in enumerate(["ring", "ring", "doubling"])]
    told = "rank 2 called with another algorithm than rank 0"
    others, own = f"{told} (rank 0: ring)", f"{told} (rank 0: ring, rank 2: doubling)"
    said = [rank.did("allreduce:1000") for rank in ranks]
    assert {line["error"] for line in said} == {"mismatch"}, said
    for line, words in zip(said, (others, others, own)):
        assert line["message"] in (words, told), said
    assert any(line["message"] != told for line in said), said


def test_a_switch_between_the_hosts_that_dies(bed):
    """Ends the groups whose hosts it is between, and no others."""
    crosses, beside = (bed.new_group() for _ in range(2))
    until_error = ["init", "barrier", "until-error", "destroy"]
    paused = ["init", "barrier", "pause", "allreduce:1000", "destroy"]
    ended = [Rank(bed, number, until_error, crosses, 2, host, before=HOSTS) for number, host in enumerate(["h0", "h2"])]
    goes_on = [Rank(bed, number, paused, beside, 2, host, before=HOSTS) for number, host in enumerate(["h0", "h1"])]
    for rank, step in [(rank, "until-error") for rank in ended] + [(rank, "pause") for rank in goes_on]:
        rank.wait_until_doing(step)
    killed_us = time.monotonic() * 1e6
    argv = bed.kill("root.engine")
    for rank in ended:
        line = rank.did("until-error")
        assert line["error"] == "switch lost" and "root" in line["message"], line
        assert_within(SWITCH_S, (line["at_us"] - killed_us) / 1e6)
    for rank in goes_on:
        rank.signal()
    for rank in goes_on:
        assert rank.errors() == []
    bed.revive("root.engine", argv)
    bed.wait_for_switch("root")


def test_a_port_that_carries_nothing_is_a_transport_error_that_names_the_rank(beds):
    """On whichever rank finds it first; the other one may hear of it, or find it too."""
    bed = beds.get(*host_api.BED)
    ranks = start(bed, "auto", *[["init", "barrier", "pause", "allreduce:1000", "destroy"]] * 2)
    for rank in ranks:
        rank.wait_until_doing("pause")
    with test_host_errors.cut(bed, "fabric", test_host_errors.port_of(bed, "h0")):
        for rank in ranks:
            rank.signal()
        lines = [rank.did("allreduce:1000") for rank in ranks]
    found = [line for line in lines if line["error"] == "transport"]
    assert found and all(line["error"] in ("transport", "aborted") for line in lines), lines
    words = [f"the connection with rank {rank} (10.10.0.{rank + 1}) failed: send: transport retry counter exceeded"
             for rank in range(2)]
    for line in lines:
        assert any(word in line["message"] for word in words), lines
        assert_within(test_host_errors.PORT_S, line["us"] / 1e6)


def test_nothing_remains(bed):
    bed.wait_clean()


def named(bed):
    """In a group of path hosts, with what each rank's Init is refused; in one of path auto, what `group show` has and
    what rank 0 is told of its path."""
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", "4", "--path", "hosts")
    refused = [rank.errors()[0] for rank in host_api.start(bed, *[["init"]] * 4, group=group)]
    group = bed.new_group()
    steps = ["init", "path", "allreduce:1000"]
    ranks = host_api.start(bed, [*steps, "pause", "destroy"], *[[*steps, "destroy"]] * 3, group=group)
    ranks[0].wait_until_doing("pause")
    shown = bed.manager_cli("group", "show", group).stdout
    ranks[0].signal()
    assert [rank.errors() for rank in ranks] == [[]] * 4
    path = ranks[0].did("path")
    return ([(line["error"], line["message"]) for line in refused],
            next(line for line in shown.splitlines() if line.startswith("path  ")), (path["path"], path["reason"]))


ROUTED = (*test_types.BED, "--fabric", "routed")


@pytest.mark.parametrize("what, words", [
    ("router", "a router is between leaf1 and root, which passes nothing for hosts"),
    ("port security", "port security between root and leaf2 passes their own addresses only")],
                         ids=["router", "port security"])
def test_hosts_that_do_not_reach_each_other_are_named(beds, tmp_path, what, words):
    """Both of them, at join. A group with switches goes through these all the same, and says what it cannot do."""
    secured = tmp_path / "secured.yaml"
    text = (epic_ranks.ROOT / "topologies" / "tree-3-2.yaml").read_text(encoding="utf-8")
    secured.write_text(text.replace("- root leaf2", "- {a: root, b: leaf2, port_security: true}"), encoding="utf-8")
    bed = beds.get(*(ROUTED if what == "router" else (str(secured), *test_types.BED[1:])))
    refused, line, path = named(bed)
    why = f"h0 does not reach h2: {words}"
    assert refused == [("no tree", why)] * 4
    assert line == f"path        network; calls that its switches lack are refused: {why} (auto was asked for)"
    assert path == ("network", "")
