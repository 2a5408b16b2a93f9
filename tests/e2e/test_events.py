"""What `incmanager events` says of joins, placements, refusals and losses."""

import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

import harness
import host_api
import modes

LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (?P<about>\S+ \S+|manager): (?P<text>.*)$")


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "softnic")


def told(bed, *options):
    """(about, text) of each line."""
    lines = bed.manager_cli("events", *options).stdout.splitlines()
    matches = [LINE.match(line) for line in lines]
    assert all(matches), lines
    return [(match["about"], match["text"]) for match in matches]


def test_the_life_of_a_group(bed):
    group = bed.network_group()
    harness.assert_all_right(bed.loops(group=group))
    bed.manager("group", "destroy", group)
    texts = [text for about, text in told(bed, "--group", group, "--last", 0) if about == f"group {group}"]
    assert texts[0] == "reserved for 4 ranks"
    assert sorted(re.match(r"rank (\d) of 4 joined from \S+ \(pid \d+\) at h\d", text)[1] for text in texts[1:5]) == ["0", "1", "2", "3"]
    assert texts[5].startswith("running with 4 ranks over 3 switches, root root, path MTU "), texts
    assert texts[6:] == ["all 4 ranks have left", "removed", "destroyed"], texts
    # The same in JSON, by their numbers; and the newest alone.
    events = bed.manager("events", "--group", group, "--last", "0")["events"]
    assert [event["text"] for event in events] == texts
    numbers = [int(event["number"]) for event in events]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)
    assert told(bed, "--group", group, "--last", 1) == [(f"group {group}", "destroyed")]


def test_why_a_group_was_refused_or_goes_by_the_hosts(bed):
    group = bed.new_group()
    ranks = [host_api.Rank(bed, number, ["init", "destroy"], group, before=("EPIC_PATH=hosts",)) for number in range(4)]
    assert [rank.errors() for rank in ranks] == [[]] * 4
    texts = [text for _, text in told(bed, "--group", group)]
    assert any(re.fullmatch(r"running with 4 ranks by the hosts, path MTU \d+: asked for by rank \d", text) for text in texts), texts

    bed.manager("group", "create", group, "--size", "4", "--path", "network")
    refused = host_api.Rank(bed, 1, ["init"], group, before=("EPIC_PATH=hosts",))
    assert len(refused.errors()) == 1
    assert told(bed, "--group", group, "--last", 1)[0][1].endswith(f"refused: path: rank 1 asks for path hosts, the group {group} has path network")
    bed.manager("group", "destroy", group)


# Of rank 1, when it pauses.
COMPUTES = "; rank 1 is in no call: it computes, or waits for something else"


def why_until(bed, group, pattern):
    """What `why` says of the group, once it is this."""
    deadline = time.monotonic() + harness.SOON_S
    while True:
        said = bed.manager_cli("why", group).stdout
        match = re.fullmatch(rf"group {group}: {pattern}\n", said)
        if match:
            return match
        assert time.monotonic() < deadline, f"{said!r} is not {pattern!r}"
        time.sleep(0.1)


def test_a_group_that_has_ended_says_how(bed):
    group = bed.new_group()
    ranks = [host_api.Rank(bed, number, ["init", "pause"] if number == 1 else ["init", "allreduce:300"], group) for number in range(4)]
    ranks[1].wait_until_doing("pause")
    why_until(bed, group, r"allreduce 0: waits for rank 1 \(h1\) since \d+\.\d s; ranks 0, 2, 3 have called" + COMPUTES)
    ranks[1].signal(signal.SIGKILL)
    for rank in (ranks[0], ranks[2], ranks[3]):
        assert host_api.first_error(rank)["error"] == "rank lost"
    for rank in ranks:
        rank.program.wait()
    bed.wait_clean()
    assert bed.groups() == []
    how = rf"failed: rank 1 on \S+ \(pid \d+\) is gone: its session broke"
    assert re.fullmatch(rf"group {group} ended \d+\.\d s ago: {how}\n", bed.manager_cli("why", group).stdout)
    shown = bed.manager_cli("group", "show", group).stdout
    assert re.search(rf"\nended       \d+\.\d s ago: {how}\n", shown) and "\nstate       ended\n" in shown, shown
    assert [text for _, text in told(bed, "--group", group) if re.fullmatch(how, text)]
    for why in (bed.manager("why", group), bed.manager("group", "show", group)):
        assert why["state"] == "ended" and why["last_end"]["failure"]["code"] == "ERROR_RANK_LOST", why
        assert re.fullmatch(how, why["last_end"]["how"]) and int(why["last_end"]["ms_ago"]) >= 0, why
    for command in (("why",), ("group", "show")):
        nobody = bed.manager_cli(*command, "nobody")
        assert (nobody.returncode, nobody.stdout) == (1, ""), nobody
        assert nobody.stderr == "incmanager: there is no group nobody, and none of this name has ended lately\n"


@pytest.mark.parametrize("mode", [mode.numeral for mode in modes.OWN_MEMORY])
def test_whom_a_group_waits_for(bed, mode):
    """A rank that computes for long, in one call; and one that makes no call any more."""
    group = bed.network_group("--mode", mode)
    ranks = [host_api.Rank(bed, number, ["init", "allreduce:300", *(["pause"] if number == 1 else []), "allreduce:300000", "destroy"], group)
             for number in range(4)]
    said = why_until(bed, group, r"allreduce (\d+): waits for rank 1 \(h1\) since (\d+\.\d) s; ranks 0, 2, 3 have called" + COMPUTES)
    assert int(said[1]) >= 1 and float(said[2]) < 60, said
    shown, text = bed.manager("group", "show", group), bed.manager_cli("group", "show", group).stdout
    assert shown["wait"]["for_ranks"] == [1] and shown["wait"]["others"] == [0, 2, 3], shown["wait"]
    assert (shown["wait"]["why"], shown["wait"]["collective"]) == ("WHY_NOT_CALLED", "allreduce"), shown["wait"]
    assert f"\nwaits       {shown['wait']['words']}"[:40] in text, text
    assert bed.manager("why", group)["wait"]["call"] == shown["wait"]["call"]
    ranks[1].signal()
    assert [rank.errors() for rank in ranks] == [[]] * 4
    bed.manager("group", "destroy", group)


@pytest.mark.parametrize("way", [*(mode.numeral for mode in modes.OWN_MEMORY), "hosts"])
def test_what_a_rank_does_that_a_group_waits_for(bed, way):
    """One that computes, one that is stopped, one that waits in another group whose ranks wait in this one."""
    groups = [bed.new_group() if way == "hosts" else bed.network_group("--mode", way) for _ in range(2)]
    one, other = groups
    begin = ["init", "swap", f"init:{other}", "swap"]
    end = ["swap", "allreduce:303", "swap", "destroy", "swap"]
    waiting = [*begin, "allreduce:300", "allreduce:301", "allreduce:302", *end, "allreduce:304", "destroy"]
    waited_for = [*begin, "pause:computes", "allreduce:300", "pause:stopped", "allreduce:301", *end, "broadcast:304", "destroy"]
    steps = [["abort-later:enough", *waiting], waited_for, waiting, waiting]
    ranks = [host_api.Rank(bed, number, own, one, before=("EPIC_PATH=hosts",) if way == "hosts" else ())
             for number, own in enumerate(steps)]
    since, hosts = r"since \d+\.\d s", way == "hosts"
    whom = rf"waits for rank 1 \(h1\) {since}; ranks 0, 2, 3 have called"
    why_until(bed, one, f"allreduce 0: {whom}{COMPUTES}")
    ranks[1].signal()
    ranks[1].wait_until_doing("pause:stopped")
    ranks[1].signal(signal.SIGSTOP)
    as_it_seems = ", as it seems," if hosts else ""
    why_until(bed, one, rf"allreduce 1: {whom}; rank 1 does not answer: stopped, or without a processor".replace("waits", f"waits{as_it_seems}", 1))
    ranks[1].signal(signal.SIGCONT)
    ranks[1].signal()
    why_until(bed, one, rf"allreduce 2: {whom}; rank 1 waits in group {other} \(allreduce 0 {since}\)")
    why_until(bed, other, rf"allreduce 0: waits for ranks 0 \(h0\), 2 \(h2\), 3 \(h3\) {since}; rank 1 has called; "
                          rf"ranks 0, 2, 3 wait in group {one} \(allreduce 2 {since}\)")
    ranks[0].signal(signal.SIGUSR2)
    # The other group goes on when they come to it; its next calls are not the same ones.
    for rank in ranks:
        assert "error" not in rank.did("allreduce:303"), rank.outcome()
        last = rank.did("broadcast:304" if rank.number == 1 else "allreduce:304")
        assert last["error"] == "mismatch", rank.outcome()
        assert re.match(r"rank 1 called with another collective than rank 0\b", last["message"]), last


def test_a_switch_that_comes_and_goes_is_told_as_it_happens(bed):
    follower = bed.start("mgmt", harness.MANAGER, "events", "--switch", "leaf2", "--last", 1, "--follow",
                         "--manager", "10.255.0.1:7400")
    follower.wait_for("switch leaf2: ")
    argv = bed.kill("leaf2.engine")
    follower.wait_for("switch leaf2: engine stopped")
    bed.revive("leaf2.engine", argv)
    bed.wait_for_switch("leaf2")
    follower.wait_for("switch leaf2: up")
    follower.end(signal.SIGTERM)
    assert all(LINE.match(line) for line in follower.output.splitlines()), follower.output


def test_a_name_of_which_nothing_is_kept_is_told(bed):
    """A slip looks else like a group to which nothing has happened. --json has no words."""
    for option, about in (("--group", "group typo"), ("--switch", "switch typo")):
        done = bed.manager_cli("events", option, "typo")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", f"incmanager: no event is kept that names the {about}\n"), done
        done = bed.manager_cli("events", option, "typo", "--json")
        assert (done.returncode, done.stderr, json.loads(done.stdout)["events"]) == (0, "", []), done
    switch = bed.switches[0]
    assert bed.manager_cli("events", "--switch", switch).stderr == ""


def test_a_manager_that_ends_under_a_follower_is_told(bed):
    follower = bed.start("mgmt", harness.MANAGER, "events", "--last", 1, "--follow", "--manager", "10.255.0.1:7400")
    follower.wait_for("switch ")
    argv = bed.kill("manager")
    assert follower.wait() == 3
    said = follower.output.splitlines()[-1]
    assert re.match(r"incmanager: no manager answers at 10.255.0.1:7400 \(--manager, EPIC_MANAGER\): (it has ended|nothing listens there)", said), said
    bed.revive("manager", argv)
    bed.wait_for_manager()


def test_what_cannot_be_asked_for_is_refused(bed):
    both = bed.manager_cli("events", "--group", "a", "--switch", "b")
    assert both.returncode != 0 and "--group" in both.stderr, both
    assert told(bed, "--group", "nobody") == []
    nobody = subprocess.run([harness.MANAGER, "events", "--manager", "127.0.0.1:1"], capture_output=True, text=True, timeout=60, check=False)
    assert nobody.returncode != 0 and "no manager answers at 127.0.0.1:1" in nobody.stderr, nobody


@pytest.mark.parametrize("address,status,said", [
    ("http://127.0.0.1:7400", 2, "no scheme stands before it; HOST:PORT would be right"),
    ("127.0.0.1:0", 2, "'0' is not a port from 1 to 65535"),
    ("127.0.0.1", 3, "no manager answers at 127.0.0.1:7400 (--manager, EPIC_MANAGER): nothing listens there"),
    ("-.-", 3, "this machine knows no host -.-")])
def test_a_managers_address_by_which_nobody_answers(address, status, said):
    for argv, env in ((["--manager", address], {}), ([], {"EPIC_MANAGER": address})):
        done = subprocess.run(["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "-", harness.MANAGER, "switches", *argv],
                              env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == status and said in done.stderr, done
        assert ("EPIC_MANAGER" if env else "--manager") in done.stderr, done


def test_a_manager_that_takes_connections_and_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = subprocess.run([harness.MANAGER, "switches", "--manager", f"127.0.0.1:{silent.getsockname()[1]}"],
                              capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3 and done.stderr.endswith("no answer within 5 s\n"), done


@pytest.mark.parametrize("command, named", [
    (("store", "backup", ""), "file"), (("store", "restore", ""), "file"), (("store", "check", "--store", ""), "--store"),
    (("serve", "--store", ""), "--store"), (("serve", "--topology", ""), "--topology"), (("policy", "set", ""), "policy"),
    (("group", "create", "", "--size", "2"), "name"), (("group", "show", ""), "name"), (("events", "--group", ""), "--group")])
def test_empty_words_are_refused(command, named):
    done = subprocess.run([harness.MANAGER, *command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[0]) == (2, "", f"{named}: it is empty"), done


def test_windows_longer_than_a_rank_takes_are_refused():
    """Else the manager would choose one, and each rank refuse its group."""
    done = subprocess.run([harness.MANAGER, "serve", "--window-packets", "257"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "--window-packets" in done.stderr and "256" in done.stderr, done


@pytest.mark.parametrize("command", [("events",), ("group", "list"), ("switches", "--json")])
def test_output_that_cannot_be_written_is_an_error_in_one_line(bed, command):
    """However short it is."""
    argv = ["nsenter", f"--net=/run/netns/epic-{bed.name}-mgmt", "--", harness.MANAGER, *command, "--manager", "10.255.0.1:7400"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "incmanager: standard output: No space left on device\n"), done
