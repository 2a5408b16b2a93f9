"""Switches that are joined by memifs, ports by DPDK: groups of all modes are right over them, beside hosts on the kernel's."""

import time

import pytest

import harness
import modes
from harness import assert_all_right, errors

MODULE = harness.BUILD / "incengine" / "epic_io_dpdk.so"
pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(not MODULE.exists(), reason="built without DPDK: scripts/install-deps --dpdk")]

SWITCHES = ("root", "leaf1", "leaf2")


def inner_ports(bed):
    """Of each switch the ports to other switches, with the device that is there instead: {switch: {port: device}}."""
    devices = {switch: {} for switch in SWITCHES}
    for number, link in enumerate(bed.topology()["links"]):
        ends = [end.partition(":") for end in (link["a"], link["b"])]
        if not all(node in SWITCHES for node, _, _ in ends):
            continue
        for (node, _, port), role in zip(ends, ("server", "client")):
            devices[node][port] = f"net_memif{number},role={role},socket=/run/epic/{bed.name}/memif{number}.sock"
    return devices


def with_devices(argv, devices):
    return [f"{a}={devices[a]}" if before == "--port" and a in devices else a
            for before, a in zip([""] + argv, argv)] + ["--io", "dpdk"]


# A bed of these tests alone: its engines stay as they are made here.
BED = ("tree-3-2", "--hosts", "softnic", "--engine-arg=--log-level=debug")


@pytest.fixture(name="bed")
def joined_bed(beds):
    bed = beds.get(*BED)
    devices = inner_ports(bed)
    if not getattr(bed, "joined_by_memifs", False):
        for switch in SWITCHES:
            bed.revive(f"{switch}.engine", with_devices(bed.kill(f"{switch}.engine"), devices[switch]))
        for switch in SWITCHES:
            bed.wait_for_switch(switch)
        wait_for_links(bed)
        bed.joined_by_memifs = True
    return bed


def wait_for_links(bed):
    """Until ordinary traffic passes between the leaves."""
    deadline = time.monotonic() + harness.SOON_S
    while " 0% packet loss" not in bed.run("h0", "ping", "-c", "1", "-W", "1", "10.10.0.4", check=False):
        assert time.monotonic() < deadline, "nothing passes over the memifs"


@pytest.mark.parametrize("mode", modes.NUMBERS)
def test_collectives_are_right(bed, mode):
    assert_all_right(bed.loops("--mode", mode, "--counts", "1,1000,30001,1000000", "--iterations", 40))
    port = next(iter(inner_ports(bed)["root"]))
    counters = bed.counters("root")
    assert counters[f"port.{port}.tx_frames"] > 300
    assert counters[f"port.{port}.tx_super_frames"] == counters[f"port.{port}.rx_too_long"] == 0


def test_a_killed_switch_ends_its_groups_and_comes_back(bed):
    ranks = bed.loops("--counts", "1000", "--pause-ms", "20", "--iterations", 5000)
    for rank in ranks:
        rank.wait_for("joined")
    argv = bed.kill("leaf1.engine")
    for error in errors(ranks):
        assert error["error"] == "switch lost" and "leaf1" in error["message"], error
    bed.revive("leaf1.engine", argv)
    bed.wait_for_switch("leaf1")
    wait_for_links(bed)
    assert_all_right(bed.loops())
