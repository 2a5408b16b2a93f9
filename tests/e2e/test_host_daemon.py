"""inchost: ranks that reach the manager by their host's daemon, beside one with a stream of its own."""

import os
import signal
import time

import pytest

import harness
import host_api

INCHOST = harness.BUILD / "inchost" / "inchost"
BY_DAEMON = 3  # hosts with one; h3 has none
MANAGER = "10.255.0.1:7400"


class Daemon:
    """inchost on a host of the bed, on a socket of its own: the hosts share this machine's files."""

    def __init__(self, bed, host, folder, *options, manager=MANAGER):
        self.host, self.socket = host, folder / f"{host}.sock"
        self.program = bed.start(host, INCHOST, "--manager", manager, "--socket", self.socket, *options)
        self.program.wait_for("serving programs")

    def pid(self):
        """Softnic's hosts share this machine's process numbers."""
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/cmdline", "rb") as file:
                        argv = file.read().split(b"\0")
                except OSError:
                    continue
                if argv[0] == bytes(INCHOST) and bytes(self.socket) in argv:
                    return int(entry)
        raise AssertionError(f"inchost of {self.host} does not run")

    def signal(self, signum):
        os.kill(self.pid(), signum)

    @property
    def before(self):
        return (f"EPIC_MANAGER=unix:{self.socket}",)


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*host_api.BED)


@pytest.fixture(name="daemons")
def fixture_daemons(bed, tmp_path):
    """Daemons of h0, h1 and h2, registered."""
    wait_for_hosts(bed, [])  # those of the test before are gone
    daemons = [Daemon(bed, host, tmp_path) for host in bed.hosts[:BY_DAEMON]]
    for daemon in daemons:
        daemon.program.wait_for("registered at the manager")
    yield daemons
    for daemon in daemons:
        daemon.program.end()


def registered(bed):
    return {host["info"]["name"]: host for host in bed.manager("hosts").get("hosts", [])}


def wait_for_hosts(bed, names):
    deadline = time.monotonic() + harness.SOON_S
    while sorted(registered(bed)) != names:
        assert time.monotonic() < deadline, registered(bed)
        time.sleep(0.1)


def names_heard(bed, switch, port):
    """What hosts at a switch's port say that they are."""
    ports = {known["name"]: known for known in bed.tables(switch)["info"]["ports"]}
    return [heard["name"] for heard in ports[port].get("neighbours", []) if heard.get("name")]


def start(bed, daemons, *steps):
    """Ranks 0 to 3 of a group, those with a daemon by it."""
    group = bed.new_group()
    return [host_api.Rank(bed, rank, own, group, before=daemons[rank].before if rank < BY_DAEMON else ())
            for rank, own in enumerate(steps)]


def test_ranks_compute_by_their_daemons_and_beside_them(bed, daemons):
    ranks = start(bed, daemons, *[["init", "allreduce:300", "pause", "allreduce:300", "destroy"]] * 4)
    for rank in ranks:
        rank.wait_until_doing("pause")
    hosts = registered(bed)
    assert sorted(hosts) == ["h0", "h1", "h2"]
    for host in bed.topology()["hosts"][:BY_DAEMON]:
        told = hosts[host["name"]]
        assert told["sessions"] == 1, told
        assert told["info"]["ports"][0]["ip"] == host["address"], told
    # Its switch hears who it is.
    deadline = time.monotonic() + harness.SOON_S
    for host in bed.record()["hosts"][:BY_DAEMON]:
        while names_heard(bed, host["switch"], host["port"]) != [host["name"]]:
            assert time.monotonic() < deadline, bed.tables(host["switch"])
            time.sleep(0.1)
    table = bed.manager_cli("hosts").stdout
    assert "10.10.0.1" in table and "h2" in table, table
    for rank in ranks:
        rank.signal()
    assert [rank.errors() for rank in ranks] == [[]] * 4
    assert all(host["sessions"] == 0 for host in registered(bed).values() if "sessions" in host)


def test_a_killed_rank_is_lost_at_once_and_a_stopped_one_is_late(bed, daemons):
    ranks = start(bed, daemons, ["init", "barrier", "pause"], *[["init", "barrier", "allreduce:100", "destroy"]] * 3)
    ranks[0].wait_until_doing("pause")
    for rank in ranks[1:]:
        rank.wait_until_doing("allreduce:100")
    ranks[0].signal(signal.SIGSTOP)
    # Longer than a host may be silent.
    time.sleep(6)
    assert all(rank.program.json_lines()[-1].get("doing") == "allreduce:100" for rank in ranks[1:]), "a stopped rank is not lost"
    killed_us = time.monotonic() * 1e6
    ranks[0].signal(signal.SIGKILL)
    for rank in ranks[1:]:
        error = host_api.first_error(rank)
        assert error["error"] == "rank lost" and error["message"].startswith("rank 0 on "), error
        host_api.assert_within(host_api.AT_ONCE_S, (error["at_us"] - killed_us) / 1e6)


def ranks_in_a_call(bed, daemons):
    """Ranks 0 to 2 are in a call that waits for rank 3."""
    calls = ["init", "barrier", "allreduce:100", "destroy"]
    ranks = start(bed, daemons, calls, calls, calls, ["init", "barrier", "pause", "allreduce:100", "destroy"])
    for rank in ranks[:3]:
        rank.wait_until_doing("allreduce:100")
    ranks[3].wait_until_doing("pause")
    return ranks


def wait_for_event(bed, text):
    deadline = time.monotonic() + harness.SOON_S
    while text not in bed.manager_cli("events", "--last", 50).stdout:
        assert time.monotonic() < deadline, bed.manager_cli("events", "--last", 50).stdout
        time.sleep(0.1)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
def test_a_daemon_that_is_started_anew_ends_nothing(bed, daemons, tmp_path, signum):
    ranks = ranks_in_a_call(bed, daemons)
    daemons[0].signal(signum)
    daemons[0].program.wait()
    wait_for_event(bed, "its host's daemon is gone; 1 rank may come back within 60 s")
    daemons[0] = Daemon(bed, bed.hosts[0], tmp_path)
    daemons[0].program.wait_for("registered at the manager")
    ranks[3].signal()
    assert [rank.errors() for rank in ranks] == [[]] * 4
    wait_for_hosts(bed, ["h0", "h1", "h2"])


def test_a_daemon_that_stands_still_ends_nothing(bed, daemons):
    ranks = ranks_in_a_call(bed, daemons)
    daemons[0].signal(signal.SIGSTOP)
    wait_for_event(bed, "host h0: nothing heard of its daemon for 4 s")
    daemons[0].signal(signal.SIGCONT)
    wait_for_event(bed, "host h0: its daemon is heard again")
    ranks[3].signal()
    assert [rank.errors() for rank in ranks] == [[]] * 4


@pytest.mark.slow
def test_a_daemon_that_stands_still_for_long_ends_nothing(bed, daemons):
    """Longer than its streams are kept by those who ping them."""
    ranks = ranks_in_a_call(bed, daemons)
    daemons[0].signal(signal.SIGSTOP)
    time.sleep(25)
    daemons[0].signal(signal.SIGCONT)
    ranks[3].signal()
    assert [rank.errors() for rank in ranks] == [[]] * 4


def test_a_rank_that_is_killed_while_its_daemon_is_away_is_lost(bed, daemons, tmp_path):
    ranks = ranks_in_a_call(bed, daemons)
    daemons[0].signal(signal.SIGKILL)
    daemons[0].program.wait()
    ranks[0].signal(signal.SIGKILL)
    daemons[0] = Daemon(bed, bed.hosts[0], tmp_path)
    back_us = time.monotonic() * 1e6
    for rank in ranks[1:3]:
        error = host_api.first_error(rank)
        assert error["error"] == "rank lost" and error["message"].startswith("rank 0 on "), error
        assert "it has not come back since its host's daemon was gone" in error["message"], error
        host_api.assert_within(7, (error["at_us"] - back_us) / 1e6)
    ranks[3].signal()


@pytest.mark.parametrize("signum, says", [(signal.SIGKILL, "its host's daemon is gone, and the host does not answer"),
                                          (signal.SIGSTOP, "nothing heard of its host for 6 s, and it does not answer")], ids=["gone", "silent"])
def test_a_host_that_does_not_answer_without_its_daemon_is_lost(bed, daemons, signum, says):
    """As one that is switched off: the host's kernel answers no ARP any more."""
    ranks = ranks_in_a_call(bed, daemons)
    ignore = "/proc/sys/net/ipv4/conf/all/arp_ignore"
    bed.run(bed.hosts[0], "sh", "-c", f"echo 8 > {ignore}")
    try:
        since_us = time.monotonic() * 1e6
        daemons[0].signal(signum)
        for rank in ranks[1:3]:
            error = host_api.first_error(rank)
            assert error["error"] == "rank lost" and error["message"].startswith("rank 0 on ") and says in error["message"], error
            host_api.assert_within(7, (error["at_us"] - since_us) / 1e6)
    finally:
        bed.run(bed.hosts[0], "sh", "-c", f"echo 0 > {ignore}")
    if signum == signal.SIGSTOP:
        daemons[0].signal(signal.SIGCONT)
    ranks[3].signal()
    # What ends with it disturbs nobody else: the others' daemons carry the next group.
    hosts = bed.hosts[1:]
    group = bed.new_group()
    anew = [host_api.Rank(bed, number, ["init", "allreduce:300", "destroy"], group, 3, host,
                          before=daemons[number + 1].before if number < 2 else ()) for number, host in enumerate(hosts)]
    assert [rank.errors() for rank in anew] == [[]] * 3
    if signum == signal.SIGSTOP:
        wait_for_hosts(bed, ["h0", "h1", "h2"])


def test_who_is_refused_is_told_whose_name_it_is(bed, daemons, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    second = Daemon(bed, bed.hosts[0], other)
    assert "it refuses this host: address: 10.10.0.1 of h0 is also that of host h0" in second.program.wait_for("waiting for the manager")
    taken = bed.start(bed.hosts[0], INCHOST, "--manager", MANAGER, "--socket", daemons[0].socket)
    assert taken.wait() == 1 and f"inchost: socket: {daemons[0].socket}: another process listens there" in taken.output
    # The first one goes: its address is free.
    daemons[0].program.end()
    second.program.wait_for("registered at the manager")
    second.program.end()


def test_a_manager_that_does_not_answer_is_said_to_the_rank(bed, tmp_path):
    """The daemon's patience and the rank's are told apart: behind the daemon only its own counts."""
    daemon = Daemon(bed, bed.hosts[0], tmp_path, "--manager-timeout", 2, manager="10.255.0.1:7499")
    before = (*daemon.before, "EPIC_MANAGER_TIMEOUT=1")
    rank = host_api.Rank(bed, 0, ["init"], bed.new_group(), before=before)
    error, = rank.errors()
    assert error["error"] == "manager unreachable", error
    assert "cannot reach the manager at 10.255.0.1:7499 within 2 s: it does not answer" in error["message"], error
    daemon.program.end()
    none = host_api.Rank(bed, 0, ["init"], bed.new_group(), before=before)
    error, = none.errors()
    assert "within 1 s" in error["message"], error
    assert "is inchost running there?" in error["message"], error


def test_a_program_that_nobody_tells_finds_its_hosts_daemon(bed):
    # A file system of its own: the path is one for the whole machine.
    group = bed.new_group()
    script = ("mkdir -p /run/epic; mount -t tmpfs none /run/epic; \"$1\" --manager \"$EPIC_MANAGER\" & daemon=$!; "
              "while ! [ -S /run/epic/host.sock ]; do kill -0 $daemon || exit 9; sleep 0.1; done; shift; "
              "env -u EPIC_MANAGER \"$@\"; status=$?; kill $daemon; wait $daemon; exit $status")
    first = bed.start(bed.hosts[0], "unshare", "-m", "sh", "-c", script, "sh", INCHOST, harness.LOOP, "--group", group, "--rank", 0, "--size", 2)
    second = bed.loop(1, group=group, size=2)
    harness.assert_all_right([first, second])
    wait_for_hosts(bed, [])
