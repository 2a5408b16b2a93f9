"""What --ports memif makes of links, and what it cannot go with."""

import types

import pytest

from epic_testbed import bed, memif, topology

OPTIONS = {"wire": False, "fabric": "direct", "rate_mbit": None, "daemons": "engine", "frames": "auto", "lend": []}


def links(kinds):
    topo = topology.load("tree-3-2")
    hosts = [{**host, "kind": kind} for host, kind in zip(bed.numbered(topo), kinds)]
    return memif.Links(types.SimpleNamespace(file=lambda name: f"/run/x/{name}"), hosts, topo), hosts, topo


def test_links_between_switches_and_to_softnic_hosts_are_memifs():
    found, hosts, topo = links(("softnic", "rxe", "softnic", "none"))
    assert [("device" in host) for host in hosts] == [True, False, True, False]
    assert hosts[0]["device"].startswith(f"vec0=memif:/run/x/memif3.sock,ip={hosts[0]['address']}/16,mac={hosts[0]['mac']}")
    for host in hosts:
        assert found.has(host["switch"], host["port"]) == ("device" in host)
        assert found.port(host["switch"], host["port"]).startswith(host["port"] + "=net_memif") == ("device" in host)
    ends = [device for ports in found.ports.values() for device in ports.values()]
    inner = [link for link in topo["links"] if topology.between_switches(link)]
    sockets = [device.rpartition("socket=")[2] for device in ends]
    assert len(inner) == 2 and len(ends) == 2 * len(inner) + 2
    # Of each link between switches one end listens, and the other connects.
    for number in (1, 2):
        both = [device for device in ends if device.endswith(f"/memif{number}.sock")]
        assert sorted("role=server" in device for device in both) == [False, True]
    assert sockets.count("/run/x/memif3.sock") == 1
    assert found.arguments(hosts[0]["switch"], 1600) == ["--io", "dpdk", "--dpdk-mtu", "1600"]


def test_a_switch_without_memifs_is_as_ever():
    topo = topology.load("star-2")
    hosts = [{**host, "kind": "rxe"} for host in bed.numbered(topo)]
    found = memif.Links(types.SimpleNamespace(file=str), hosts, topo)
    assert found.arguments(hosts[0]["switch"], 4200) == [] and found.port(hosts[0]["switch"], "swp1") == "swp1"


@pytest.mark.parametrize("option, value, said", [
    ("wire", True, "--wire"), ("fabric", "ovs", "--fabric"), ("rate_mbit", 100, "--rate"), ("daemons", "bridge", "--bridge"),
    ("frames", "super", "--super-frames"), ("lend", ["h0=1M"], "--lend")])
def test_what_memifs_cannot_go_with_is_named(option, value, said):
    memif.refuse(OPTIONS)
    with pytest.raises(bed.BedError, match=f"--ports memif takes no {said}"):
        memif.refuse({**OPTIONS, option: value})


def test_ports_by_dpdk_have_to_be_built(tmp_path):
    with pytest.raises(bed.BedError, match="scripts/install-deps --dpdk"):
        memif.require_module(str(tmp_path))
