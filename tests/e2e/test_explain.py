"""What `incmanager explain` says of a group is what the group gets; and `group show` has the rate of each edge of its tree."""

import subprocess

import epic_ranks
import harness
import pytest

HOSTS = "h0,h1,h2,h3"


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("tree-3-2", "--hosts", "softnic")


def explain(bed, hosts, *options, status=0):
    """The rows by their first column, those of the chosen tree's memory and of multicast as "memory:" and "multicast:", and the last line."""
    done = bed.manager_cli("explain", "--hosts", hosts, *options)
    assert done.returncode == status, done.stdout + done.stderr
    head, *rows, last = done.stdout.splitlines()
    assert head.split()[:2] == ["root", "links"]
    return {row.split()[0]: row for row in rows}, last


def test_the_group_made_then_has_that_root(bed):
    newest = bed.manager("events", "--last", "1")["newest"]
    rows, last = explain(bed, HOSTS, "--path", "network")
    memory = rows.pop("memory:")
    assert [word.split()[0] for word in memory.removeprefix("memory: ").split(", ")] == ["root", "leaf1", "leaf2"], memory
    assert rows.pop("multicast:").endswith("path network is asked for")
    assert list(rows) == bed.switches
    assert rows["root"].endswith("  root (2), leaf1 (2), leaf2 (2)  chosen"), rows
    assert rows["leaf1"].endswith("deeper: 3 links, root has 2"), rows
    assert last == "network: root root, 3 switches, mode II (translated)"
    told = bed.manager("explain", "--hosts", HOSTS, "--path", "network", "--mode", "3")
    assert (told["path"], told["root"], told["switches"], told["mode"]) == ("PATH_NETWORK", "root", 3, "MODE_AUGMENTED")
    assert [root["root"] for root in told["roots"] if root["chosen"]] == ["root"]
    # Nothing has happened by that.
    assert bed.groups() == [] and bed.manager("events", "--last", "1")["newest"] == newest

    shown, text = bed.shown_while_held(bed.network_group("--mode", "3"))
    assert shown["tree"][0]["switch_name"] == told["root"] and len(shown["tree"]) == told["switches"]

    # Each edge of its tree with the rate that the topology file gives its link, each switch with what it keeps.
    rate = bed.topology()["link"]["rate_gbps"]
    for node in shown["tree"]:
        assert node["child_gbps"] == [rate] * 2
        assert f"{node['switch_name']}  mode III (augmented)  arena {node['arena_bytes']} bytes" in text
    assert text.count(f", {rate} Gbit/s] ") == 6, text


def test_what_is_asked_for_decides(bed):
    assert explain(bed, "h2,h3")[1] == "network: root leaf2, 1 switch, mode II (translated)"
    rows, last = explain(bed, "h0,h0,h1", "--switch-mode", "leaf1=3", "--mode", "3")
    assert " leaf1 (3) " in rows["leaf1"] and last.startswith("network: root leaf1, 1 switch, "), rows
    rows, last = explain(bed, HOSTS, "--path", "hosts")
    assert rows["root"].endswith("path hosts is asked for") and last == "hosts: asked for by its operator"
    assert rows["multicast:"] == ("multicast: unasked, for Broadcasts and AllGathers that are shorter so (8 ranks and more, each on "
                                  "a host of its own); for others, and where ranks share a host, if all ask for it; their NICs have to "
                                  "receive it")


def test_a_switch_that_is_down_is_in_the_way_of_its_hosts_alone(bed):
    argv = bed.kill("leaf2.engine")
    bed.wait_for_switch("leaf2", "engine down")
    rows, last = explain(bed, HOSTS, status=1)
    assert rows["leaf2"].split(maxsplit=5)[1:] == ["-", "-", "-", "-", "its engine is down"]
    assert rows["root"].endswith("it does not reach h2 over usable switches")
    assert last == ("refused: no tree: h2 (rank 2) hangs on leaf2, which cannot take part: its engine is down; "
                    "nor by the hosts: h0 does not reach h2: leaf2 is between them, and its engine is down")
    assert explain(bed, "h0,h1")[1].startswith("network: root leaf1, 1 switch, ")
    bed.revive("leaf2.engine", argv)
    bed.wait_for_switch("leaf2")


@pytest.mark.parametrize("arguments, status, words", [
    (["--hosts", "h0,h9"], 1, "hosts: the topology has no host h9"),
    (["--hosts", "h0"], 1, "hosts: 1 named, and a group has at least 2 ranks"),
    (["--hosts", "h0,h1", "--types", "int33"], 1, "types: 'int33' is not a type"),
    ([], 2, "--hosts is required"),
])
def test_what_cannot_be_asked_for_is_refused(bed, arguments, status, words):
    done = bed.manager_cli("explain", *arguments)
    assert (done.returncode, words in done.stderr) == (status, True), done.stdout + done.stderr


@pytest.mark.parametrize("args, status", [(["policy", "show"], 0), (["explain", "--hosts", HOSTS], 0), (["group", "show", "none such"], 1),
                                          (["group", "create", "", "--size", "no"], 2), (["nothing"], 2)])
def test_what_all_tests_ask_is_answered_as_to_a_user(bed, args, status):
    """They have the program of incmanager loaded once (epic_ranks.Asker)."""
    argv = [*epic_ranks.in_management(bed.name), harness.MANAGER, *args, "--manager", "10.255.0.1:7400"]
    alone = subprocess.run(argv, capture_output=True, text=True, check=False)
    asked = bed.manager_cli(*args)
    assert (asked.returncode, asked.stdout, asked.stderr) == (alone.returncode, alone.stdout, alone.stderr) and alone.returncode == status
    assert alone.stdout or alone.stderr
