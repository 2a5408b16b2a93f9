"""Topologies: reads the short form, expands it with deterministic ports, addresses and MACs, and checks it.

The short form names switches, hosts and links ("leaf1 h0", or "leaf1:swp3 h0" to fix a port) or asks for a
generated one (generate: {kind: star, hosts: 4} or {kind: fat-tree, k: 4}). Expanding is idempotent: a full
file is a valid short form, and what it states (an address, a port) is kept.
"""

import ipaddress
import os
import re

import yaml

DIRECTORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "topologies"))
PATH_MTUS = (256, 512, 1024, 2048, 4096)
MAX_SWITCHES = 250
MAX_HOSTS = 250

# A name becomes part of a namespace's, a device's (15 characters) and a socket's name.
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9-]{0,10}$")
_MAC = re.compile(r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")
_STAR = re.compile(r"^star-(\d+)$")
_FAT_TREE = re.compile(r"^fat-tree-(\d+)$")
RESERVED = ("mgmt", "hosts", "wire", "fabric")  # namespaces of a test bed
_KEYS = {"name", "path_mtu", "link", "generate", "switches", "hosts", "links"}
_NEXT_HOPS = ("a_next_hop_mac", "b_next_hop_mac")
_LINK_KEYS = ("a", "b", "rate_gbps", "delay_us", "port_security") + _NEXT_HOPS


class TopologyError(Exception):
    """A topology that cannot be used; the message says what is wrong and where."""


def available():
    """Names of the topologies that come as files."""
    return sorted(f[:-5] for f in os.listdir(DIRECTORY) if f.endswith(".yaml"))


def load(name_or_path, path_mtu=None, hosts_per_edge=None):
    """Returns the expanded topology called by name (a file in topologies/, star-N, fat-tree-K) or by path."""
    if name_or_path.endswith((".yaml", ".yml")):
        raw = _read(name_or_path)
    elif name_or_path in available():
        raw = _read(os.path.join(DIRECTORY, name_or_path + ".yaml"))
    elif match := _STAR.match(name_or_path):
        raw = {"name": name_or_path, "generate": {"kind": "star", "hosts": int(match.group(1))}}
    elif match := _FAT_TREE.match(name_or_path):
        raw = {"name": name_or_path, "generate": {"kind": "fat-tree", "k": int(match.group(1))}}
    else:
        raise TopologyError(f"no topology '{name_or_path}'; there are {', '.join(available())}, star-N, "
                            "fat-tree-K, or give a path that ends in .yaml")
    return expand(raw, path_mtu, hosts_per_edge)


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            raw = yaml.safe_load(file)
    except OSError as error:
        raise TopologyError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise TopologyError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(raw, dict):
        raise TopologyError(f"{path} must be a mapping with name, switches, hosts and links")
    return raw


def expand(raw, path_mtu=None, hosts_per_edge=None):
    """Returns the full form of `raw`: every port, address and MAC is stated. Raises TopologyError."""
    unknown = set(raw) - _KEYS
    if unknown:
        raise TopologyError(f"unknown keys: {', '.join(sorted(map(str, unknown)))}; "
                            f"known are {', '.join(sorted(_KEYS))}")
    if "name" not in raw:
        raise TopologyError("the topology has no name")
    generate = raw.get("generate")
    if generate is not None:
        if any(key in raw for key in ("switches", "hosts", "links")):
            raise TopologyError("generate excludes switches, hosts and links")
        raw = dict(raw, **_generate(generate, hosts_per_edge))
    elif hosts_per_edge is not None:
        raise TopologyError(f"{raw['name']} is not a fat tree: hosts per edge switch cannot be chosen")
    mtu = path_mtu or raw.get("path_mtu", 4096)
    if mtu not in PATH_MTUS:
        raise TopologyError(f"path_mtu {mtu} is none of {', '.join(map(str, PATH_MTUS))}")
    switches = [_node(s, i, "10.10.255.", "02:e0:00:00") for i, s in enumerate(raw.get("switches") or [])]
    hosts = [_node(h, i, "10.10.0.", "52:54:00:00") for i, h in enumerate(raw.get("hosts") or [])]
    _check_nodes(switches, hosts)
    stated = [_stated(link) for link in raw.get("links") or []]
    links = [_parse_link(link) for link in raw.get("links") or []]
    _assign_ports(switches, hosts, links)
    return {"name": str(raw["name"]), "path_mtu": mtu,
            "link": dict({"rate_gbps": 10, "delay_us": 20}, **(raw.get("link") or {})),
            "switches": switches, "hosts": hosts,
            "links": [{"a": _end(a), "b": _end(b), **more} for (a, b), more in zip(links, stated)]}


def _generate(generate, hosts_per_edge):
    kind = generate.get("kind")
    if kind == "star":
        count = generate.get("hosts", 0)
        if not 1 <= count <= 64:
            raise TopologyError(f"a star has 1 to 64 hosts, not {count}")
        if hosts_per_edge is not None:
            raise TopologyError("a star's name says how many hosts it has: star-N")
        hosts = [f"h{i}" for i in range(count)]
        return {"switches": ["s1"], "hosts": hosts, "links": [f"s1 {h}" for h in hosts]}
    if kind == "fat-tree":
        return _fat_tree(generate.get("k", 0), hosts_per_edge or generate.get("hosts_per_edge"))
    raise TopologyError(f"cannot generate '{kind}'; known are star and fat-tree")


def _fat_tree(k, hosts_per_edge):
    """Al-Fares' fat tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches.

    Aggregation switch i of each pod is joined to the cores i*k/2 .. i*k/2 + k/2 - 1.
    """
    if k not in (2, 4, 6, 8):
        raise TopologyError(f"a fat tree's k is 2, 4, 6 or 8, not {k}")
    half = k // 2
    per_edge = half if hosts_per_edge is None else hosts_per_edge
    if not 1 <= per_edge <= half:
        raise TopologyError(f"an edge switch of this fat tree has 1 to {half} hosts, not {per_edge}")
    edges = [f"edge{i + 1}" for i in range(k * half)]
    aggs = [f"agg{i + 1}" for i in range(k * half)]
    cores = [f"core{i + 1}" for i in range(half * half)]
    hosts = [f"h{i}" for i in range(len(edges) * per_edge)]
    links = [f"{edges[i // per_edge]} {host}" for i, host in enumerate(hosts)]
    for pod in range(k):
        for i in range(half):
            agg = aggs[pod * half + i]
            links += [f"{agg} {edges[pod * half + j]}" for j in range(half)]
            links += [f"{cores[i * half + j]} {agg}" for j in range(half)]
    return {"switches": cores + aggs + edges, "hosts": hosts, "links": links}


def _node(spec, index, address_prefix, mac_prefix):
    """A switch or host; its place in the file gives the address and MAC that it does not state."""
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, dict) or "name" not in spec:
        raise TopologyError(f"a switch or host is a name or a mapping with a name, not {spec!r}")
    number = index + 1
    node = {"name": str(spec["name"]), "address": str(spec.get("address", f"{address_prefix}{number}")),
            "mac": str(spec.get("mac", f"{mac_prefix}:{number >> 8:02x}:{number & 255:02x}")).lower()}
    if spec.get("ports"):
        node["ports"] = [str(port) for port in spec["ports"]]
    if "source_guard" in spec:
        node["source_guard"] = spec["source_guard"]
    return node


def _check_nodes(switches, hosts):
    if not switches or not hosts:
        raise TopologyError("a topology has at least one switch and one host")
    if len(switches) > MAX_SWITCHES or len(hosts) > MAX_HOSTS:
        raise TopologyError(f"at most {MAX_SWITCHES} switches and {MAX_HOSTS} hosts")
    for key in ("name", "address", "mac"):
        seen = {}
        for node in switches + hosts:
            if node[key] in seen:
                raise TopologyError(f"{seen[node[key]]} and {node['name']} have the same {key} {node[key]}")
            seen[node[key]] = node["name"]
    for node in switches + hosts:
        if not _NAME.match(node["name"]) or node["name"] in RESERVED:
            raise TopologyError(f"bad name '{node['name']}': a letter, then at most 10 letters, digits or "
                                f"dashes; not {', '.join(RESERVED)}")
        if not _MAC.match(node["mac"]):
            raise TopologyError(f"{node['name']}: bad MAC {node['mac']}")
        try:
            ipaddress.IPv4Address(node["address"])
        except ValueError as error:
            raise TopologyError(f"{node['name']}: bad address {node['address']}") from error


def _parse_link(link):
    """A link as [[node, port or None], [node, port or None]]."""
    ends = [link.get("a", ""), link.get("b", "")] if isinstance(link, dict) else str(link).split()
    if len(ends) != 2 or not all(ends):
        raise TopologyError(f"a link joins two nodes, like 'leaf1 h0': {link!r}")
    return [[name, port or None] for name, _, port in (str(end).partition(":") for end in ends)]


def _stated(link):
    """What a link states beside its ends, which only the manager reads: kept as it is."""
    if not isinstance(link, dict):
        return {}
    unknown = set(link) - set(_LINK_KEYS)
    if unknown:
        raise TopologyError(f"a link has unknown keys: {', '.join(sorted(map(str, unknown)))}; known are "
                            f"{', '.join(_LINK_KEYS)}")
    for key in _NEXT_HOPS:
        if key in link and not _MAC.match(str(link[key])):
            raise TopologyError(f"{link.get('a')} {link.get('b')}: {key}: bad MAC {link[key]}")
    return {key: link[key] for key in _LINK_KEYS[2:] if key in link}


def between_switches(link):
    """Whether a link of the full form joins two switches: a host's end names no port."""
    return ":" in link["a"] and ":" in link["b"]


def with_routers(topo):
    """The topology with an IP router in every link between two switches: each end is told the MAC of the
    router's port on its side, unless the file states one."""
    links = []
    for number, link in enumerate(topo["links"], 1):
        if between_switches(link):
            macs = [f"02:f0:00:{end}:{number >> 8:02x}:{number & 255:02x}" for end in ("0a", "0b")]
            link = {**link, **{key: link.get(key, mac) for key, mac in zip(_NEXT_HOPS, macs)}}
        links.append(link)
    return {**topo, "links": links}


def with_rate(topo, gbps):
    """The topology with the same rate on every link: what the manager plans for is what there is."""
    links = [{key: value for key, value in link.items() if key != "rate_gbps"} for link in topo["links"]]
    return {**topo, "link": {**topo["link"], "rate_gbps": gbps}, "links": links}


def _end(end):
    return end[0] if end[1] is None else f"{end[0]}:{end[1]}"


def _assign_ports(switches, hosts, links):
    """Gives each switch's end of a link a port: swp1, swp2, ... in the order of the links."""
    by_name = {s["name"]: s for s in switches}
    host_names = {h["name"] for h in hosts}
    used = _check_links(by_name, host_names, links)
    for link in links:
        for end in link:
            if end[0] in by_name and end[1] is None:
                end[1] = next(p for p in (f"swp{i}" for i in range(1, 1000)) if p not in used[end[0]])
                used[end[0]].add(end[1])
    for name, switch in by_name.items():
        ports = sorted(used[name], key=lambda p: (len(p), p))
        if switch.get("ports") and set(switch["ports"]) != set(ports):
            raise TopologyError(f"{name} lists ports {switch['ports']} but its links use {ports}")
        switch["ports"] = switch.get("ports") or ports
    _check_connected(list(by_name) + sorted(host_names), links)


def _check_links(switch_names, host_names, links):
    """Checks what each link joins; returns the ports that the links name, by switch."""
    used = {name: set() for name in switch_names}
    host_links = dict.fromkeys(sorted(host_names), 0)
    for link in links:
        if link[0][0] in host_names and link[1][0] in host_names:
            raise TopologyError(f"{_end(link[0])} and {_end(link[1])}: a host is linked to a switch, "
                                "not to another host")
        if link[0][0] == link[1][0]:
            raise TopologyError(f"{link[0][0]} is linked to itself")
        for name, port in link:
            if name in host_names:
                if port:
                    raise TopologyError(f"{name}:{port}: a host has one port, which is not named")
                host_links[name] += 1
            elif name not in used:
                raise TopologyError(f"a link names {name}, which is neither switch nor host")
            elif port:
                if port in used[name]:
                    raise TopologyError(f"two links use {name}:{port}")
                used[name].add(port)
    for name, count in host_links.items():
        if count != 1:
            raise TopologyError(f"host {name} has {count} links; it must have one")
    return used


def _check_connected(names, links):
    root = {name: name for name in names}

    def find(name):
        while root[name] != name:
            name = root[name]
        return name

    for a, b in links:
        root[find(a[0])] = find(b[0])
    parts = {find(name) for name in names}
    if len(parts) > 1:
        one, other = sorted(parts)[:2]
        raise TopologyError(f"the topology falls into {len(parts)} parts: no path joins {one} and {other}")


def has_redundant_paths(topology):
    """True if the switches and hosts form anything but a tree, so that a flooding bridge would loop."""
    return len(topology["links"]) != len(topology["switches"]) + len(topology["hosts"]) - 1


def host_port(topology, host):
    """The (switch, port) that a host is attached to."""
    for link in topology["links"]:
        for here, there in ((link["a"], link["b"]), (link["b"], link["a"])):
            if here == host:
                switch, _, port = there.partition(":")
                return switch, port
    raise TopologyError(f"no host {host}")


def device_mtu(path_mtu):
    """MTU in bytes for every port: rxe needs path_mtu + 80, and a VLAN tag or two must fit as well.

    rxe takes the largest InfiniBand MTU that fits, so the result stays below the next one.
    """
    # 580: a User-Mode Linux port has no MTU below 576.
    return {256: 580, 1024: 1500}.get(path_mtu, path_mtu + 104)


def dump(topology):
    """The text of the full file, as the manager reads it."""
    def flow(items):
        style = {"default_flow_style": True, "sort_keys": False, "width": 10000}
        return "".join(f"  - {yaml.safe_dump(item, **style)}" for item in items)

    head = yaml.safe_dump({k: topology[k] for k in ("name", "path_mtu", "link")}, sort_keys=False)
    return head + "".join(f"{key}:\n{flow(topology[key])}" for key in ("switches", "hosts", "links"))
