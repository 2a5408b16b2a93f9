"""Expansion and checks of topologies. Needs no privileges."""

import collections
import copy
import pathlib
import subprocess

import pytest
import yaml

from epic_testbed import topology
from epic_testbed.topology import TopologyError


def small():
    return {"name": "small", "switches": ["s1"], "hosts": ["h0", "h1"], "links": ["s1 h0", "s1 h1"]}


def neighbours(topo):
    graph = collections.defaultdict(set)
    for link in topo["links"]:
        a, b = link["a"].partition(":")[0], link["b"].partition(":")[0]
        graph[a].add(b)
        graph[b].add(a)
    return graph


def distances(topo, start):
    graph, seen, queue = neighbours(topo), {start: 0}, collections.deque([start])
    while queue:
        node = queue.popleft()
        for other in graph[node] - set(seen):
            seen[other] = seen[node] + 1
            queue.append(other)
    return seen


def test_tree_is_expanded_in_the_order_of_the_file():
    topo = topology.load("tree-3-2")
    assert topo["path_mtu"] == 4096 and topo["link"] == {"rate_gbps": 10, "delay_us": 20}
    assert topo["switches"][1] == {"name": "leaf1", "address": "10.10.255.2", "mac": "02:e0:00:00:00:02",
                                   "ports": ["swp1", "swp2", "swp3"]}
    assert topo["hosts"][3] == {"name": "h3", "address": "10.10.0.4", "mac": "52:54:00:00:00:04"}
    assert {"a": "root:swp1", "b": "leaf1:swp3"} in topo["links"]
    assert {"a": "leaf1:swp1", "b": "h0"} in topo["links"]
    assert topology.host_port(topo, "h3") == ("leaf2", "swp2")
    assert not topology.has_redundant_paths(topo)


@pytest.mark.parametrize("name", topology.available() + ["star-1", "star-64", "fat-tree-6"])
def test_full_file_expands_to_itself(name):
    topo = topology.load(name)
    again = yaml.safe_load(topology.dump(topo))
    assert again == topo
    assert topology.expand(copy.deepcopy(again)) == topo


@pytest.mark.parametrize("name", topology.available() + ["star-64", "fat-tree-8"])
def test_names_addresses_and_ports_are_unique(name):
    topo = topology.load(name)
    nodes = topo["switches"] + topo["hosts"]
    for key in ("name", "address", "mac"):
        assert len({n[key] for n in nodes}) == len(nodes)
    ends = [end for link in topo["links"] for end in (link["a"], link["b"])]
    assert len(set(ends)) == len(ends)
    ports = {f"{s['name']}:{p}" for s in topo["switches"] for p in s["ports"]}
    assert ports == {end for end in ends if ":" in end}


def test_star_by_name():
    topo = topology.load("star-8")
    assert len(topo["hosts"]) == 8 and topo["switches"][0]["ports"] == [f"swp{i}" for i in range(1, 9)]


def test_fat_tree_of_four():
    topo = topology.load("fat-tree-4")
    names = [s["name"] for s in topo["switches"]]
    assert [sum(n.startswith(kind) for n in names) for kind in ("core", "agg", "edge")] == [4, 8, 8]
    assert len(topo["hosts"]) == 16 and len(topo["links"]) == 48
    assert all(len(s["ports"]) == 4 for s in topo["switches"])
    assert topology.has_redundant_paths(topo)
    graph = neighbours(topo)
    # A core switch reaches each of the four pods once, by different aggregation switches.
    for core in ("core1", "core2", "core3", "core4"):
        assert sorted((int(a[3:]) - 1) // 2 for a in graph[core]) == [0, 1, 2, 3]
    # 2, 4 or 6 links: same edge switch, same pod, another pod.
    steps = distances(topo, "h0")
    assert [steps[h] for h in ("h1", "h2", "h3", "h4", "h15")] == [2, 4, 4, 6, 6]


def test_fat_tree_with_fewer_hosts():
    topo = topology.load("fat-tree-4", hosts_per_edge=1)
    assert len(topo["hosts"]) == 8 and len(topo["switches"]) == 20
    assert topology.host_port(topo, "h7") == ("edge8", "swp1")


def test_what_the_file_states_is_kept():
    raw = small()
    raw["switches"] = [{"name": "s1", "address": "10.10.255.77"}]
    raw["links"] = ["s1:swp1 h1", "s1 h0"]
    topo = topology.expand(raw)
    assert topo["switches"][0]["address"] == "10.10.255.77"
    assert topology.host_port(topo, "h0") == ("s1", "swp2")


def test_what_a_link_states_is_kept():
    raw = small()
    raw["links"] = ["s1 h1", {"a": "s1", "b": "h0", "delay_us": 3, "port_security": True,
                              "a_next_hop_mac": "02:f0:00:00:00:01"}]
    topo = topology.expand(raw)
    assert topo["links"][1] == {"a": "s1:swp2", "b": "h0", "delay_us": 3, "port_security": True,
                                "a_next_hop_mac": "02:f0:00:00:00:01"}
    assert yaml.safe_load(topology.dump(topo)) == topo


def test_routers_are_put_between_switches():
    raw = yaml.safe_load(topology.dump(topology.load("tree-3-2")))
    raw["links"][4]["a_next_hop_mac"] = "02:11:22:33:44:55"
    links = topology.with_routers(topology.expand(raw))["links"]
    macs = [link.get(key) for link in links for key in ("a_next_hop_mac", "b_next_hop_mac")]
    assert macs[:9] == [None] * 8 + ["02:11:22:33:44:55"] and len(set(macs[8:])) == 4 and None not in macs[8:]


def test_path_mtu_comes_from_the_option_first():
    assert topology.load("tree-3-2", path_mtu=1024)["path_mtu"] == 1024


@pytest.mark.parametrize("path_mtu", topology.PATH_MTUS)
def test_rxe_takes_exactly_the_path_mtu(path_mtu):
    room = topology.device_mtu(path_mtu) - 80
    assert max(m for m in topology.PATH_MTUS if m <= room) == path_mtu
    assert topology.device_mtu(path_mtu) >= 576  # a User-Mode Linux port ignores less
    assert room >= path_mtu + 8 or path_mtu == 256  # two VLAN tags


@pytest.mark.parametrize("change, message", [
    ({"hosts": ["h0", "h0"]}, "same name h0"),
    ({"hosts": [{"name": "h0", "address": "10.10.255.1"}, "h1"]}, "same address"),
    ({"hosts": ["h0", "h1", "h2"]}, "host h2 has 0 links"),
    ({"hosts": ["h0", "a-name-too-long"]}, "bad name"),
    ({"hosts": ["h0", "mgmt"]}, "bad name"),
    ({"hosts": [{"name": "h0", "mac": "1:2:3"}, "h1"]}, "bad MAC"),
    ({"hosts": [{"name": "h0", "address": "ten"}, "h1"]}, "bad address"),
    ({"hosts": []}, "at least one switch and one host"),
    ({"links": ["s1 h0", "s1 h1", "s1 h2"]}, "neither switch nor host"),
    ({"links": ["s1 h0", "s1 h1", "s1 h1"]}, "host h1 has 2 links"),
    ({"links": ["s1 h0", "h0 h1"]}, "not to another host"),
    ({"links": ["s1 h0", "s1 h1", "s1 s1"]}, "linked to itself"),
    ({"links": ["s1:swp1 h0", "s1:swp1 h1"]}, "two links use s1:swp1"),
    ({"links": ["s1 h0", "s1 h1:eth0"]}, "not named"),
    ({"links": ["s1 h0", "s1"]}, "joins two nodes"),
    ({"links": ["s1 h0", {"a": "s1", "b": "h1", "mac": "x"}]}, "a link has unknown keys: mac; known are a, b"),
    ({"links": ["s1 h0", {"a": "s1", "b": "h1", "a_next_hop_mac": "x"}]}, "s1 h1: a_next_hop_mac: bad MAC x"),
    ({"switches": ["s1", "s2"]}, "2 parts"),
    ({"switches": [{"name": "s1", "ports": ["swp1"]}]}, "lists ports"),
    ({"path_mtu": 1500}, "path_mtu 1500"),
    ({"speed": 3}, "unknown keys: speed"),
    ({"generate": {"kind": "star", "hosts": 4}}, "generate excludes"),
])
def test_errors_name_what_is_wrong(change, message):
    with pytest.raises(TopologyError, match=message):
        topology.expand({**small(), **change})


@pytest.mark.parametrize("name, options, message", [
    ("ring-4", {}, "no topology 'ring-4'"),
    ("star-0", {}, "1 to 64 hosts"),
    ("star-65", {}, "1 to 64 hosts"),
    ("fat-tree-5", {}, "k is 2, 4, 6 or 8"),
    ("fat-tree-4", {"hosts_per_edge": 3}, "1 to 2 hosts"),
    ("tree-3-2", {"hosts_per_edge": 1}, "not a fat tree"),
    ("nosuch.yaml", {}, "cannot read nosuch.yaml"),
])
def test_bad_names(name, options, message):
    with pytest.raises(TopologyError, match=message):
        topology.load(name, **options)


def test_bad_yaml(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("name: [\n")
    with pytest.raises(TopologyError, match="not valid YAML"):
        topology.load(str(path))


DEMO = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "demo"


@pytest.mark.parametrize("name, says", [("nosuch", f"there are {', '.join(topology.available())}, star-N, fat-tree-K"),
                                        ("star-x", "there is no topology 'star-x'"), ("nosuch.yaml", "cannot be read")])
def test_the_demo_refuses_a_topology_that_is_not_there_before_it_does_anything(name, says):
    done = subprocess.run([DEMO, "--topology", name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr, done
