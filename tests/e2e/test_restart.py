"""A manager that is killed and comes back with its store: what operators have asked for is there again, and groups go on."""

import json
import os
import random
import signal
import subprocess
import time

import pytest

import harness
from harness import assert_all_right, errors

pytestmark = pytest.mark.endings


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store") / "epic"


@pytest.fixture(name="bed")
def fixture_bed(beds, folder):
    return beds.get("tree-3-2", *harness.ANY_HOSTS, f"--manager-arg=--store={folder}")


def store(*args):
    """incmanager store ...: the finished process."""
    return subprocess.run([harness.MANAGER, "store", *map(str, args)], capture_output=True, text=True, check=False)


def events(bed):
    return [event["text"] for event in bed.manager("events", "--last", "0")["events"]]


def test_a_killed_manager_comes_back_with_what_was_reserved(bed, folder):
    bed.manager("tenant", "set", "red", "--limit-groups", "1")
    bed.manager("policy", "set", "spatial")
    bed.manager("group", "create", "kept", "--size", str(len(bed.hosts)), "--tenant", "red", "--path", "network")
    bed.manager("group", "create", "gone", "--size", "2")
    bed.manager("group", "destroy", "gone")
    before = events(bed)
    time.sleep(1.5)  # they are promised to be kept within a second
    held = store("check", "--store", folder)
    assert held.returncode == 1 and "it is held by process" in held.stderr, held
    bed.revive("manager", bed.kill("manager"))
    bed.wait_for_manager()
    groups = {group["name"]: group for group in bed.manager("group", "list")["groups"]}
    assert groups["kept"]["state"] == "reserved" and groups["kept"]["placement"]["policy"] == "spatial", groups
    assert "gone" not in groups
    assert [t["tenant"]["name"] for t in bed.manager("tenant", "show")["tenants"]] == ["red"]
    assert bed.manager("policy", "show")["policy"] == "spatial"
    after = events(bed)
    assert after[:len(before)] == before
    assert any("epoch 2, 1 reserved group, 1 tenant" in text for text in after), after
    assert_all_right(bed.loops(group="kept"))
    bed.manager("group", "destroy", "kept")
    bed.wait_clean()


# Of each mode, and between the hosts: (options of `group create`)
GROUPS = {"one": ("--mode", "1"), "two": ("--mode", "2"), "three": ("--mode", "3"), "hosts": ("--path", "hosts")}


def create_groups(bed, suffix=""):
    """One of each way, reserved: {way: name}."""
    names = {way: way + suffix for way in GROUPS}
    for way, name in names.items():
        path = () if way == "hosts" else ("--path", "network")
        bed.manager("group", "create", name, "--size", str(len(bed.hosts)), *GROUPS[way], *path)
    return names


def start_groups(bed, names, *more):
    """Loops of each that go on; all ranks have joined: {way: ranks}."""
    ranks = {way: bed.loops("--until-signal", "--iterations", 1_000_000, "--counts", "1000,20000", "--pause-ms", 200, *more, group=name)
             for way, name in names.items()}
    for rank in (rank for of_one in ranks.values() for rank in of_one):
        rank.wait_for("joined")
    return ranks


def destroy_groups(bed, names):
    for name in names.values():
        bed.manager("group", "destroy", name)
    bed.wait_clean()


def test_calls_go_on_while_the_manager_is_killed(bed):
    names = create_groups(bed)
    ranks = start_groups(bed, names)
    before = {name: bed.manager("group", "show", name)["group_id"] for name in names.values()}
    # One that waits for its first rank meanwhile.
    half = bed.new_group()
    late = [bed.loop(rank, group=half) for rank in range(1, len(bed.hosts))]
    for rank in range(1, len(bed.hosts)):
        bed.wait_for_rank(half, rank)
    for turn in range(2):
        argv = bed.kill("manager")
        if turn == 1:  # and again as soon as it is back, with a switch's agent
            bed.revive("manager", argv)
            agent = bed.kill("leaf1.agent")
            bed.kill("manager")
            bed.revive("leaf1.agent", agent)
        bed.revive("manager", argv)
        bed.wait_for_manager()
        # New groups at once, beside those that go on.
        assert_all_right(bed.loops())
    assert_all_right([bed.loop(0, group=half)] + late)
    for way, name in names.items():
        shown = bed.manager("group", "show", name)
        assert shown["state"] == "running" and shown["group_id"] == before[name], shown
        # Destroy waits while the manager is away, too.
        bed.end_loops(ranks[way])
    destroy_groups(bed, names)


def test_a_switch_that_has_lost_its_contexts_meanwhile_ends_its_groups_alone(bed):
    names = create_groups(bed)
    ranks = start_groups(bed, names)
    argv = bed.kill("manager")
    bed.revive("leaf1.engine", bed.kill("leaf1.engine"))
    bed.revive("manager", argv)
    bed.wait_for_manager()
    bed.end_loops(ranks.pop("hosts"))
    for of_one in ranks.values():
        for error in errors(of_one):
            assert error["error"] == "switch lost" and "leaf1" in error["message"], error
    destroy_groups(bed, names)


def test_ranks_that_leave_while_the_manager_is_away_are_told_when_it_is_back(bed):
    ranks = bed.loops_until_told("--counts", "1000")
    argv = bed.kill("manager")
    bed.release(ranks[:1])
    bed.revive("manager", argv)
    assert_all_right(ranks)
    bed.wait_clean()


def test_a_rank_behind_its_hosts_daemon_comes_back_through_it(bed):
    socket, group = f"/run/{harness.NAME}.sock", bed.new_group()  # in a guest, too
    daemon = bed.start(bed.hosts[0], harness.BUILD / "inchost" / "inchost", "--manager", "10.255.0.1:7400", "--socket", socket)
    daemon.wait_for("registered at the manager")
    options = ("--until-signal", "--iterations", 1_000_000, "--counts", "1000")
    ranks = [bed.start(bed.hosts[0], "env", f"EPIC_MANAGER=unix:{socket}", harness.LOOP, "--group", group, "--rank", 0, "--size",
                       len(bed.hosts), *options)]
    ranks += [bed.loop(rank, *options, group=group) for rank in range(1, len(bed.hosts))]
    for rank in ranks:
        rank.wait_for("joined")
    bed.revive("manager", bed.kill("manager"))
    bed.wait_for_manager()
    bed.end_loops(ranks)
    bed.wait_clean()
    daemon.end()


def waiting_loops(bed, group, away_s):
    """As bed.loops_until_told, whose manager may be away for so long."""
    ranks = [bed.start(host, "env", f"EPIC_MANAGER_AWAY={away_s}", harness.LOOP, "--group", group, "--rank", rank, "--size",
                       len(bed.hosts), "--until-signal", "--iterations", 1_000_000) for rank, host in enumerate(bed.hosts)]
    for rank in ranks:
        rank.wait_for("joined")
    return ranks


def test_who_does_not_wait_for_its_manager_loses_it(bed):
    ranks = waiting_loops(bed, bed.new_group(), 0)
    argv = bed.kill("manager")
    for error in errors(ranks):
        assert error["error"] == "manager lost", error
    bed.revive("manager", argv)
    bed.wait_for_manager()
    bed.wait_clean()


def test_a_store_is_looked_at_copied_and_put_back(bed, folder):
    bed.manager("group", "create", "kept", "--size", "2")
    argv = bed.kill("manager")
    try:
        copy = folder.parent / "copy"
        assert store("backup", copy, "--store", folder).returncode == 0
        rows = [json.loads(line) for line in store("dump", "--store", folder).stdout.splitlines()]
        assert [row["value"]["group"]["world_size"] for row in rows if row["kind"] == "reserved"] == [2]
        (folder / "store.sqlite").write_bytes(b"x" * 5000)
        check = store("check", "--store", folder)
        assert check.returncode == 1 and f"{folder}/store.sqlite: file is not a database" in check.stderr, check
        restored = store("restore", copy, "--store", folder)
        assert restored.returncode == 0 and "what was there is in" in restored.stdout, restored
    finally:
        bed.revive("manager", argv)
    bed.wait_for_manager()
    assert [g["name"] for g in bed.manager("group", "list")["groups"] if g["state"] == "reserved"] == ["kept"]
    bed.manager("group", "destroy", "kept")
    assert_all_right(bed.loops())


def test_a_full_disk_refuses_changes_and_groups_run_on(bed, folder):
    # A disk of its own, which is mounted before the manager starts, and has room for the store alone.
    argv = bed.kill("manager")
    small = folder.parent / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", small], check=True)
    filler = small / "filler"
    try:
        bed.revive("manager", [a if not a.startswith("--store=") else f"--store={small}/epic" for a in argv])
        bed.wait_for_manager()
        ranks = bed.loops_until_told("--counts", "1000")
        with open(filler, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        for _ in range(200):  # its log had room
            refused = bed.manager_cli("group", "create", bed.new_group(), "--size", "2")
            if refused.returncode:
                break
        assert refused.returncode == 1 and "full" in refused.stderr, refused
        for _ in range(100):  # its health is looked at ten times a second
            warnings = bed.manager("switches").get("warnings")
            if warnings:
                break
            time.sleep(0.1)
        assert "full" in warnings[0]
        told = errors(bed.loops())
        assert all(error["error"] == "no resource" and "full" in error["message"] for error in told), told
        bed.end_loops(ranks)
        filler.unlink()
        bed.manager("group", "create", "room", "--size", "2")
        bed.manager("group", "destroy", "room")
        assert_all_right(bed.loops())
    finally:
        bed.kill("manager")
        bed.revive("manager", argv)
        bed.wait_for_manager()
        subprocess.run(["umount", "-l", small], check=False)


def restart(bed, after_s):
    argv = bed.kill("manager")
    time.sleep(after_s)
    bed.revive("manager", argv)
    bed.wait_for_manager()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("when", ("joining", "running", "leaving"))
def test_a_manager_that_is_killed_at_any_moment_is_not_noticed(bed, when, seed):
    chance = random.Random(f"{when} {seed}")
    names = create_groups(bed, f"{when}{seed}")
    if when == "joining":
        ranks = {way: bed.loops("--until-signal", "--iterations", 1_000_000, group=name) for way, name in names.items()}
    else:
        ranks = start_groups(bed, names)
    if when == "leaving":
        for of_one in ranks.values():
            bed.release(of_one[:1])
    for _ in range(1 + seed % 2):
        time.sleep(chance.random() / 2)
        restart(bed, chance.choice((0, 0.5)))
    for of_one in ranks.values():
        if when != "leaving":
            for rank in of_one:
                rank.wait_for("joined")
            bed.release(of_one[:1])
        assert_all_right(of_one)
    destroy_groups(bed, names)


@pytest.mark.slow
def test_ranks_that_have_given_up_leave_their_groups_to_the_operator(bed):
    names = create_groups(bed, "up")
    ranks = {way: waiting_loops(bed, name, 2) for way, name in names.items()}
    argv = bed.kill("manager")
    for of_one in ranks.values():
        for error in errors(of_one):
            assert error["error"] == "manager lost" and "EPIC_MANAGER_AWAY" in error["message"], error
    bed.revive("manager", argv)
    bed.wait_for_manager()
    for name in names.values():
        bed.manager("group", "destroy", name, "--force")
    bed.wait_clean()


@pytest.mark.slow
def test_a_rank_that_ends_while_the_manager_is_away_is_lost(bed):
    names = create_groups(bed, "end")
    ranks = start_groups(bed, names)
    argv = bed.kill("manager")
    for of_one in ranks.values():
        bed.signal(of_one[1], signal.SIGKILL)
    bed.revive("manager", argv)
    bed.wait_for_manager()
    for of_one in ranks.values():
        told = errors(of_one[:1] + of_one[2:], timeout_s=90)
        # From the manager, or from a NIC that has no answer before.
        assert {error["error"] for error in told} < {"rank lost", "aborted", "transport"}, told
    destroy_groups(bed, names)


@pytest.mark.slow
@pytest.mark.parametrize("stopped_s", (3, 8, 20, 30))
def test_a_manager_that_stands_still_has_not_died(bed, stopped_s):
    names = create_groups(bed, f"still{stopped_s}")
    ranks = start_groups(bed, names)
    pid = bed.record()["processes"]["manager"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(stopped_s)
    os.kill(pid, signal.SIGCONT)
    time.sleep(3)
    bed.wait_for_manager()
    for way, name in names.items():
        assert bed.manager("group", "show", name)["state"] == "running"
        bed.end_loops(ranks[way])
    destroy_groups(bed, names)


def test_groups_go_on_in_a_network_that_is_discovered(beds, tmp_path_factory):
    bed = beds.get("tree-3-2", *harness.ANY_HOSTS, "--discover", f"--manager-arg=--store={tmp_path_factory.mktemp('found')}")
    names = create_groups(bed)
    ranks = start_groups(bed, names)
    before = {name: bed.manager("group", "show", name)["group_id"] for name in names.values()}
    bed.revive("manager", bed.kill("manager"))
    bed.wait_for_manager()
    assert_all_right(bed.loops())
    for way, name in names.items():
        shown = bed.manager("group", "show", name)
        assert shown["state"] == "running" and shown["group_id"] == before[name], shown
        bed.end_loops(ranks[way])
    destroy_groups(bed, names)
