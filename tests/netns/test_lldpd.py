"""The switch daemon beside lldpd on a host: each understands what the other says."""

import json
import os
import shutil

import pytest

from switch_bed import SWITCH_IP, SWITCH_MAC, SwitchBed, host_ip, host_mac, mac_base64, wait_until


@pytest.fixture(name="bed", scope="module", params=[False, True], ids=["pcap", "super-frames"])
def bed_with_lldpd(request):
    # A test that cannot run has not passed.
    assert shutil.which("lldpd"), "lldpd is not installed (scripts/install-deps)"
    with SwitchBed(2, request.param) as bed:
        bed.start("--forwarding", "learning")
        start_lldpd(bed)
        yield bed


def control_socket(bed):
    return os.path.join(bed.directory.name, "lldpd.sock")


def start_lldpd(bed):
    os.chmod(bed.directory.name, 0o711)  # lldpcli goes on as another user
    # The interval is in the file that lldpd's own client reads when it starts: that client writes back the whole
    # configuration as it found it, over what another client may have set in between.
    settings = os.path.join(bed.directory.name, "lldpd.conf")
    with open(settings, "w", encoding="ascii") as file:
        file.write("configure lldp tx-interval 1\n")
    # The name is the machine's: lldpd has no other.
    bed.inside_in_background("h0", ["lldpd", "-d", "-u", control_socket(bed), "-O", settings, "-I", "eth0",
                                    "-S", "a host"])
    wait_until(lambda: os.path.exists(control_socket(bed)), what="lldpd listens")


def lldpcli(bed, *arguments):
    return bed.inside("h0", ["lldpcli", "-u", control_socket(bed), *arguments], check=False)


def neighbours(bed, port):
    return bed.call("describe")["ports"][port]["neighbours"]


def test_the_switch_understands_lldpd(bed):
    wait_until(lambda: neighbours(bed, 0), what="the host is heard")
    by_lldp = [n for n in neighbours(bed, 0) if n["heard_by"] == "HEARD_BY_LLDP"]
    assert len(by_lldp) == 1
    assert by_lldp[0]["kind"] in ("NEIGHBOUR_HOST", "NEIGHBOUR_BRIDGE")  # as the kernel of this machine is set
    assert by_lldp[0]["name"].partition(".")[0] == os.uname().nodename.partition(".")[0]
    assert by_lldp[0]["port"] == "eth0"
    assert by_lldp[0]["mac"] == mac_base64(host_mac(0))
    assert by_lldp[0]["ip"] == int.from_bytes(bytes(map(int, host_ip(0).split("."))), "big")
    assert {name: value for name, value in bed.counters().items() if ".hello_" in name and value} == {}
    assert neighbours(bed, 1) == []  # it is not forwarded


def test_lldpd_understands_the_switch(bed):
    def shown():
        output = lldpcli(bed, "-f", "json0", "show", "neighbors", "details").stdout
        return json.loads(output)["lldp"][0].get("interface", []) if output else []
    wait_until(shown, what="the switch is shown")
    interface = shown()[0]
    chassis, port = interface["chassis"][0], interface["port"][0]
    assert chassis["name"][0]["value"] == "s1"
    assert chassis["id"][0] == {"type": "mac", "value": SWITCH_MAC}
    assert chassis["mgmt-ip"][0]["value"] == SWITCH_IP
    assert chassis["descr"][0]["value"].startswith("EPIC incengine ")
    assert {"type": "Bridge", "enabled": True} in chassis["capability"]
    assert port["id"][0] == {"type": "ifname", "value": "p0"}
    assert port["ttl"][0]["value"] == "3"


def test_a_host_that_ends_its_lldpd_is_gone(bed):
    wait_until(lambda: any(n["heard_by"] == "HEARD_BY_LLDP" for n in neighbours(bed, 0)), what="the host is heard")
    bed.others[0].terminate()  # says so with a time to live of 0
    bed.others[0].wait(timeout=30)
    wait_until(lambda: all(n["heard_by"] != "HEARD_BY_LLDP" for n in neighbours(bed, 0)), what="the host is forgotten")
