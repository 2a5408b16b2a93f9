"""A manager that is killed and comes back with its store: what operators have asked for is there again."""

import json
import subprocess

import pytest

import harness
from harness import assert_all_right, errors

pytestmark = pytest.mark.endings


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store") / "epic"


@pytest.fixture(name="bed")
def fixture_bed(beds, folder):
    return beds.get("tree-3-2", f"--manager-arg=--store={folder}")


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
    ranks = bed.loops_until_told("--counts", "1000")
    held = store("check", "--store", folder)
    assert held.returncode == 1 and "it is held by process" in held.stderr, held
    argv = bed.kill("manager")
    for error in errors(ranks):
        assert error["error"] == "manager lost", error
    bed.revive("manager", argv)
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
        with open(filler, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        ranks = bed.loops_until_told("--counts", "1000")
        for _ in range(200):  # its log had room
            refused = bed.manager_cli("group", "create", bed.new_group(), "--size", "2")
            if refused.returncode:
                break
        assert refused.returncode == 1 and "full" in refused.stderr, refused
        assert "full" in bed.manager("switches")["warnings"][0]
        bed.end_loops(ranks)
        assert_all_right(bed.loops())
        filler.unlink()
        bed.manager("group", "create", "room", "--size", "2")
        bed.manager("group", "destroy", "room")
    finally:
        bed.kill("manager")
        bed.revive("manager", argv)
        bed.wait_for_manager()
        subprocess.run(["umount", "-l", small], check=False)
