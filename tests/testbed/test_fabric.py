"""Links through a switched network (`up --fabric`), without guests and daemons. Needs root."""

import json
import os
import signal
import time

import pytest
import yaml

from epic_testbed import fabric, procs, topology
from epic_testbed.bed import Bed, BedError


def up(testbed, topology, *arguments, check=True):
    return testbed("up", topology, "--hosts", "none", "--bridge", *arguments, check=check)


def ping(testbed, host, address, *options, check=True):
    # With -w it asks on until so many answers have come: the first may take its time, as may a busy machine.
    patience = ["-w", "20"] if check else ["-W", "2"]
    argv = ["ping", "-c", "2", "-i", "0.2", *patience, "-M", "do", *options, address]
    return testbed("exec", host, "--", *argv, check=check)


@pytest.mark.parametrize("kind", ["ovs", "bridge"])
def test_hosts_reach_each_other_with_the_whole_mtu_and_no_more(testbed, kind):
    up(testbed, "tree-3-2", "--fabric", kind)
    ping(testbed, "h0", "10.10.0.4", "-s", "4148")
    assert ping(testbed, "h0", "10.10.0.4", "-s", "4200", check=False).returncode != 0
    assert f"links: {kind}" in testbed("status").stdout


def test_every_link_is_a_vlan_of_its_own(testbed):
    up(testbed, "tree-3-2", "--fabric", "ovs")
    ping(testbed, "h0", "10.10.0.4")
    shown = testbed("exec", "fabric", "--", "ovs-appctl", "fdb/show", "ovs1").stdout
    table = {tuple(line.split()[1:3]) for line in shown.splitlines()[1:]}
    # From h0 to h3 four links are crossed, and each of them has learned both.
    links = {vlan for vlan, mac in table if mac == "52:54:00:00:00:01"}
    assert links >= {vlan for vlan, mac in table if mac == "52:54:00:00:00:04"} and len(links) >= 4
    kind = testbed("exec", "fabric", "--", "ovs-vsctl", "get", "bridge", "ovs1", "datapath_type")
    assert kind.stdout == "netdev\n"


def next_hops(testbed):
    """{port: MAC that the topology tells it to send to} of all ends of links that have a router."""
    with open(testbed.path("topology.yaml"), encoding="utf-8") as file:
        links = yaml.safe_load(file)["links"]
    return {link[end]: link[f"{end}_next_hop_mac"] for link in links for end in ("a", "b")
            if f"{end}_next_hop_mac" in link}


def test_a_router_passes_what_is_sent_to_it_for_the_neighbour(testbed):
    testbed("up", "tree-3-2", "--hosts", "none", "--no-daemons", "--fabric", "routed")
    router = next_hops(testbed)
    assert sorted(router) == ["leaf1:swp3", "leaf2:swp3", "root:swp1", "root:swp2"]
    assert not {f"02:e0:00:00:00:0{number}" for number in (1, 2, 3)} & set(router.values())

    def neighbour(switch, port, other, mac):
        testbed("exec", switch, "--", "ip", "neigh", "replace", f"10.10.255.{other}", "lladdr", mac, "dev", port)

    # As our switches do it: addresses and MACs of their own, the next hop's MAC without asking for it.
    for switch, port, own, other in (("leaf1", "swp3", 2, 1), ("root", "swp1", 1, 2)):
        testbed("exec", switch, "--", "sh", "-c", f"ip link set {port} address 02:e0:00:00:00:0{own} && "
                f"ip addr add 10.10.255.{own}/16 dev {port}")
        neighbour(switch, port, other, router[f"{switch}:{port}"])
    ping = ["exec", "leaf1", "--", "ping", "-c", "1", "-M", "do", "-s", "4148", "10.10.255.1"]
    assert "ttl=63" in testbed(*ping, "-w", "20").stdout
    neighbour("leaf1", "swp3", 1, "02:e0:00:00:00:01")  # the router is not the neighbour
    assert "0 received" in testbed(*ping, "-W", "2", check=False).stdout


def test_bridges_and_routers_are_refused(testbed):
    refused = up(testbed, "tree-3-2", "--fabric", "routed", check=False)
    assert refused.returncode == 1 and "which bridges do not" in refused.stderr


def test_the_fault_box_and_the_fabric_share_the_links(testbed):
    up(testbed, "star-2", "--fabric", "ovs", "--wire")
    ping(testbed, "h0", "10.10.0.2", "-s", "4148")
    links = json.loads(testbed("exec", "wire", "--", "ip", "-j", "link", "show", "type", "veth").stdout)
    assert len(links) == 4


def test_nothing_of_open_vswitch_remains(testbed):
    up(testbed, "star-2", "--fabric", "ovs")
    with open(testbed.path("record.json"), encoding="utf-8") as file:
        processes = json.load(file)["processes"]
    assert set(processes) == {"fabric.ovsdb-server", "fabric.ovs-vswitchd"}
    testbed("down")
    for process in processes.values():
        assert not procs.alive(process)


def test_a_switch_that_ended_is_said(testbed):
    up(testbed, "star-2", "--fabric", "ovs")
    with open(testbed.path("record.json"), encoding="utf-8") as file:
        process = json.load(file)["processes"]["fabric.ovs-vswitchd"]
    os.kill(process["pid"], signal.SIGKILL)
    while procs.alive(process):  # the signal is sent, the process has yet to be scheduled to die of it
        time.sleep(0.01)
    again = up(testbed, "star-2", "--fabric", "ovs", check=False)
    assert again.returncode == 1 and "fabric.ovs-vswitchd ended" in again.stderr


def test_missing_programs_are_said(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BedError, match="ovs-vswitchd.*install-deps"):
        fabric.Fabric(Bed("nothing"), "ovs", topology.load("star-2"), 4200)
