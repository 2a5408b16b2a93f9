"""Engines find out who is at their ports: directly, through Linux bridges and through Open vSwitch."""

import json
import subprocess
import time

import pytest

import epic_ranks
from harness import SOON_S

SWITCH_CALL = epic_ranks.BUILD / "incengine" / "switch_call"


@pytest.fixture(name="kind", scope="module", params=["direct", "bridge", "ovs"])
def fixture_kind(request):
    """Of module scope, so that all tests run on one fabric before the next is brought up."""
    return request.param


@pytest.fixture(name="bed")
def fixture_bed(beds, kind):
    fabric = [] if kind == "direct" else ["--fabric", kind]
    return beds.get("tree-3-2", "--hosts", "softnic", *fabric)


def wait_until(condition, what):
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {SOON_S} s"
        time.sleep(0.1)


def ports_of(bed, switch):
    """{port: PortInfo} as the manager tells of the switch."""
    return {port["name"]: port for port in bed.tables(switch)["info"]["ports"]}


def links_of(bed, of_switches):
    """{(switch, port): (node, port)} of links between two switches, or of a switch with a host, both ways."""
    ends = {}
    for link in bed.topology()["links"]:
        (a, _, a_port), (b, _, b_port) = (link[end].partition(":") for end in ("a", "b"))  # hosts without a port
        if (a in bed.switches and b in bed.switches) == of_switches:
            ends.update({(a, a_port): (b, b_port), (b, b_port): (a, a_port)})
    return {end: other for end, other in ends.items() if end[0] in bed.switches}


def heard(bed, switch, port, kind):
    """The neighbours of this kind that the switch hears at the port."""
    neighbours = ports_of(bed, switch)[port].get("neighbours", [])
    return [neighbour for neighbour in neighbours if neighbour["kind"] == kind]


def hears(bed, end, other):
    return [(n["name"], n["port"]) for n in heard(bed, *end, "NEIGHBOUR_SWITCH")] == [other]


def test_switches_hear_each_other_by_each_link(bed, kind):
    links = links_of(bed, True)
    assert len(links) == 4
    for end, other in links.items():
        wait_until(lambda end=end, other=other: hears(bed, end, other), f"{end} hears {other}")
        neighbour = heard(bed, *end, "NEIGHBOUR_SWITCH")[0]
        node = epic_ranks.node_of(bed.name, other[0])
        assert neighbour["ip"] == node["address"]
        assert neighbour["heard_by"] == ("HEARD_BY_LLDP" if kind == "direct" else "HEARD_BY_SECOND_ADDRESS")
    for switch in bed.switches:
        counters = bed.counters(switch)
        odd = {name: value for name, value in counters.items() if ".hello_" in name and value}
        assert odd == {}, switch
        assert f"version {bed.tables(switch)['info']['version']}" in bed.manager_cli("tables", switch).stdout


def test_a_link_that_is_cut_and_mended_is_told(bed):
    (switch, port), (other, other_port) = next(iter(links_of(bed, True).items()))
    wait_until(lambda: hears(bed, (switch, port), (other, other_port)), "the neighbour is heard")
    bed.link(switch, port, "down")
    wait_until(lambda: not ports_of(bed, switch)[port].get("up", False), "the port is down")
    wait_until(lambda: not heard(bed, switch, port, "NEIGHBOUR_SWITCH"), "here nobody is heard")
    wait_until(lambda: not heard(bed, other, other_port, "NEIGHBOUR_SWITCH"), "nor at the other end")
    bed.link(switch, port, "up")
    for end, far in (((switch, port), (other, other_port)), ((other, other_port), (switch, port))):
        wait_until(lambda end=end, far=far: hears(bed, end, far), f"{end} hears {far} again")


def test_hosts_are_seen_by_their_arp_where_they_are(bed):
    hosts = {host: end for end, (host, _) in links_of(bed, False).items()}
    assert sorted(hosts) == sorted(bed.hosts)
    addresses = {host: epic_ranks.node_of(bed.name, host)["address"] for host in hosts}
    numbers = {host: sum(int(byte) << 8 * (3 - i) for i, byte in enumerate(addresses[host].split("."))) for host in hosts}

    def seen(host):
        return addresses[host] in [n["ip"] for n in heard(bed, *hosts[host], "NEIGHBOUR_HOST")]

    def found(host):
        # A switch whose port has come up just now does not listen yet; a host may not have said anything.
        call = [SWITCH_CALL, f"/run/epic/{bed.name}/{hosts[host][0]}.sock", "locate", json.dumps({"ip": numbers[host]})]
        subprocess.run(call, check=True, capture_output=True, timeout=60)
        return seen(host)
    for host in hosts:
        wait_until(lambda host=host: found(host), f"{host} is found")
        node = epic_ranks.node_of(bed.name, host)
        neighbour = next(n for n in heard(bed, *hosts[host], "NEIGHBOUR_HOST") if n["ip"] == addresses[host])
        assert neighbour["heard_by"] == "HEARD_BY_ARP"
        assert node["mac"] == neighbour["mac"]
    # Nobody's hosts are at ports between switches.
    for switch, port in links_of(bed, True):
        assert heard(bed, switch, port, "NEIGHBOUR_HOST") == [], (switch, port)
