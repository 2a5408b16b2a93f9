"""Links through a switched network (`up --fabric`), without guests and daemons. Needs root."""

import glob
import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import REPO
from epic_testbed import fabric, procs
from epic_testbed.bed import Bed, BedError

NAME = "pytest_fab"
TESTBED = [sys.executable, os.path.join(REPO, "scripts", "testbed")]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def testbed(command, *arguments, check=True):
    argv = TESTBED + [command, "--name", NAME, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


testbed.__test__ = False


@pytest.fixture(autouse=True)
def clean():
    testbed("down")
    yield
    testbed("down")
    assert not glob.glob(f"/run/netns/epic-{NAME}-*") + glob.glob(f"/run/epic/{NAME}")


def up(topology, *arguments, check=True):
    return testbed("up", topology, "--hosts", "none", "--bridge", *arguments, check=check)


def ping(host, address, *options, check=True):
    argv = ["ping", "-c", "2", "-i", "0.2", "-W", "2", "-M", "do", *options, address]
    return testbed("exec", host, "--", *argv, check=check)


@pytest.mark.parametrize("kind", ["ovs", "bridge"])
def test_hosts_reach_each_other_with_the_whole_mtu_and_no_more(kind):
    up("tree-3-2", "--fabric", kind)
    assert "2 received" in ping("h0", "10.10.0.4", "-s", "4148").stdout
    assert ping("h0", "10.10.0.4", "-s", "4200", check=False).returncode != 0
    assert f"links: {kind}" in testbed("status").stdout


def test_every_link_is_a_vlan_of_its_own():
    up("tree-3-2", "--fabric", "ovs")
    ping("h0", "10.10.0.4")
    shown = testbed("exec", "fabric", "--", "ovs-appctl", "fdb/show", "ovs1").stdout
    table = {tuple(line.split()[1:3]) for line in shown.splitlines()[1:]}
    # From h0 to h3 four links are crossed, and each of them has learned both.
    links = {vlan for vlan, mac in table if mac == "52:54:00:00:00:01"}
    assert links >= {vlan for vlan, mac in table if mac == "52:54:00:00:00:04"} and len(links) >= 4
    kind = testbed("exec", "fabric", "--", "ovs-vsctl", "get", "bridge", "ovs1", "datapath_type")
    assert kind.stdout == "netdev\n"


def test_a_router_passes_what_is_addressed_to_the_neighbour():
    testbed("up", "tree-3-2", "--hosts", "none", "--no-daemons", "--fabric", "routed")
    # As our switches do it: addresses and MACs of their own, the neighbour's MAC without asking for it.
    for switch, port, own, other in (("leaf1", "swp3", 2, 1), ("root", "swp1", 1, 2)):
        testbed("exec", switch, "--", "sh", "-c",
                f"ip link set {port} address 02:e0:00:00:00:0{own} && "
                f"ip addr add 10.10.255.{own}/16 dev {port} && "
                f"ip neigh replace 10.10.255.{other} lladdr 02:e0:00:00:00:0{other} dev {port}")
    ping = ["ping", "-c", "1", "-W", "2", "-M", "do", "-s", "4148", "10.10.255.1"]
    shown = testbed("exec", "leaf1", "--", *ping).stdout
    assert "1 received" in shown and "ttl=63" in shown


def test_bridges_and_routers_are_refused():
    refused = up("tree-3-2", "--fabric", "routed", check=False)
    assert refused.returncode == 1 and "which bridges do not" in refused.stderr


def test_the_fault_box_and_the_fabric_share_the_links():
    up("star-2", "--fabric", "ovs", "--wire")
    assert "2 received" in ping("h0", "10.10.0.2", "-s", "4148").stdout
    links = json.loads(testbed("exec", "wire", "--", "ip", "-j", "link", "show", "type", "veth").stdout)
    assert len(links) == 4


def test_nothing_of_open_vswitch_remains():
    up("star-2", "--fabric", "ovs")
    with open(f"/run/epic/{NAME}/record.json", encoding="utf-8") as file:
        processes = json.load(file)["processes"]
    assert set(processes) == {"fabric.ovsdb-server", "fabric.ovs-vswitchd"}
    testbed("down")
    for process in processes.values():
        assert not procs.alive(process)


def test_a_switch_that_ended_is_said():
    up("star-2", "--fabric", "ovs")
    with open(f"/run/epic/{NAME}/record.json", encoding="utf-8") as file:
        os.kill(json.load(file)["processes"]["fabric.ovs-vswitchd"]["pid"], signal.SIGKILL)
    again = up("star-2", "--fabric", "ovs", check=False)
    assert again.returncode == 1 and "fabric.ovs-vswitchd ended" in again.stderr


def test_missing_programs_are_said(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BedError, match="ovs-vswitchd.*install-deps"):
        fabric.Fabric(Bed(NAME), "ovs", [], 4200)
