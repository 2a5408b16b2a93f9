"""Links with a rate (`up --rate`), without guests and daemons. Needs root."""

import json

import pytest
import yaml

from epic_testbed import rate, topology
from epic_testbed.bed import BedError


@pytest.mark.parametrize("text, mbit", [("1mbit", 1), ("100mbit", 100), ("10gbit", 10000), ("100gbit", 100000)])
def test_a_rate_is_so_many_mbit_or_gbit(text, mbit):
    assert rate.mbit_of(text) == mbit
    assert f"dev swp1 root tbf rate {mbit}mbit " in rate.limit("swp1", mbit)


@pytest.mark.parametrize("text", ["", "100", "0mbit", "101gbit", "-1mbit", "1.5gbit", "100 mbit", "100mb", "1kbit", "mbit",
                                  "١mbit", "9999999gbit"])
def test_a_bad_rate_is_named(text):
    with pytest.raises(BedError, match=f"^--rate {text}: say a whole number of mbit or gbit, from 1mbit to 100gbit"):
        rate.mbit_of(text)


def test_what_the_manager_plans_for_is_what_there_is():
    stated = {"name": "two", "switches": ["s1"], "hosts": ["h0", "h1"], "links": ["s1 h0", {"a": "s1", "b": "h1", "rate_gbps": 40}]}
    topo = topology.with_rate(topology.expand(stated), 0.1)
    assert topo["link"] == {"rate_gbps": 0.1, "delay_us": 20}
    assert topo["links"] == [{"a": "s1:swp1", "b": "h0"}, {"a": "s1:swp2", "b": "h1"}]


def queues(testbed, node):
    """{device: its queue} of those that have one, as tc tells them."""
    shown = json.loads(testbed("exec", node, "--", "tc", "-j", "qdisc", "show").stdout)
    return {queue["dev"]: queue for queue in shown if queue["kind"] not in ("noqueue", "noop")}


@pytest.mark.parametrize("between", [(), ("--wire",), ("--fabric", "bridge")])
def test_both_ends_of_every_link_have_the_rate_and_pass_traffic(testbed, between):
    testbed("up", "tree-3-2", "--hosts", "none", "--bridge", "--rate", "100mbit", *between)
    with open(testbed.path("topology.yaml"), encoding="utf-8") as file:
        topo = yaml.safe_load(file)
    assert topo["link"]["rate_gbps"] == 0.1
    ports = {switch["name"]: switch["ports"] for switch in topo["switches"]}
    ports |= {host["name"]: ["vec0"] for host in topo["hosts"]}
    for node, devices in ports.items():
        limited = queues(testbed, node)
        assert sorted(limited) == devices, node
        assert all(q["kind"] == "tbf" and q["options"]["rate"] == 12_500_000 for q in limited.values()), limited
    testbed("exec", "h0", "--", "ping", "-c", "1", "-w", "20", "-M", "do", "-s", "4148", "10.10.0.4")
    assert ", 100 Mbit/s;" in testbed("status").stdout


def test_up_with_a_bad_rate_is_refused(testbed):
    refused = testbed("up", "star-2", "--hosts", "none", "--bridge", "--rate", "fast", check=False)
    assert refused.returncode == 1 and "--rate fast:" in refused.stderr
    assert not testbed.remains()


def test_another_rate_is_another_test_bed(testbed):
    testbed("up", "star-2", "--hosts", "none", "--bridge", "--rate", "100mbit")
    other = testbed("up", "star-2", "--hosts", "none", "--bridge", "--rate", "10mbit", check=False)
    assert other.returncode == 1 and "testbed down" in other.stderr
