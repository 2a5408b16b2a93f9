"""The switch daemon between real interfaces: forwards ordinary traffic, counts what is broken, leaves nothing behind."""

import json
import os
import signal
import socket

import pytest

import at_rest
import covers
from switch_bed import (MTU, SWITCH_IP, SwitchBed, host_ip, host_mac, mac_base64, roce_frame, run, send_frames, wait_until)


@pytest.fixture(name="bed", scope="module", params=[False, True], ids=["pcap", "super-frames"])
def learning_bed(request):
    with SwitchBed(3, request.param) as bed:
        yield bed.start("--forwarding", "learning")


@pytest.fixture(name="static_bed", params=[False, True], ids=["pcap", "super-frames"])
def make_static_bed(request):
    with SwitchBed(3, request.param) as bed:
        yield bed.start("--forwarding", "static")


def test_ping_between_hosts_and_to_the_switch(bed):
    assert bed.ping(0, host_ip(1))
    assert bed.ping(2, SWITCH_IP)


def test_frames_of_full_mtu_pass(bed):
    assert bed.ping(0, host_ip(2), "-M", "do", "-s", str(MTU - 28))


def sent(counters, port):
    """Frames sent by a port, but for hellos."""
    return counters[f"port.{port}.tx_frames"] - counters[f"port.{port}.tx_hellos"]


def test_a_known_host_is_not_flooded(bed):
    assert bed.ping(0, host_ip(1))
    before = bed.counters()
    assert bed.ping(0, host_ip(1))
    after = bed.counters()
    assert sent(after, "p2") - sent(before, "p2") <= 1  # an ARP request now and then
    assert sent(after, "p1") - sent(before, "p1") >= 3


def tcp_megabits(bed):
    """Mbit/s of iperf3 from h0 to h1."""
    server = bed.inside_in_background("h1", ["iperf3", "-s", "-1"])
    wait_until(lambda: ":5201" in bed.inside("h1", ["ss", "-ltn"]).stdout, what="iperf3 listens")
    done = bed.inside("h0", ["iperf3", "-c", host_ip(1), "-t", "2", "-J"], timeout=30)
    server.wait(timeout=30)  # the next one listens where it did
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6


def test_tcp_passes(bed):
    megabits = tcp_megabits(bed)
    print(f"TCP through the switch: {megabits:.0f} Mbit/s")
    assert megabits > 50


# Of all threads in a second: timers of a few tenths of a second (hellos, ports), RPC's, what hosts say unasked. A thread that
# looked every 10 ms would have 100 by itself.
IDLE_TURNS = 40

# Without an end: some 40 MB/s, which any port carries that is not slowed down.
STREAM = """
import socket, sys, time
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("eth0", 0))
frame = bytes.fromhex(sys.argv[1]) + bytes(4000)
while True:
    for _ in range(20):
        port.send(frame)
    time.sleep(0.002)
"""


# It computes for seconds: of the two kinds of port one, in turn with the commit, and the other with --full.
@pytest.mark.parametrize("static_bed", [pytest.param(kind, id=name, marks=[] if covers.seed() % 2 == kind else pytest.mark.slow)
                                        for kind, name in enumerate(("pcap", "super-frames"))], indirect=True)
def test_a_port_slower_than_what_is_sent_to_it_holds_up_no_other(static_bed):
    bed = static_bed
    bed.set_static_table([0, 1, 2], ["p0", "p1"])
    header = (host_mac(2) + host_mac(0)).replace(":", "") + "88b5"
    limit = ["dev", "p2", "root", "tbf", "burst", "32k", "limit", "1m", "rate"]
    # Before the stream: while a queue is put in place of another, the kernel drops what is sent, and says nothing.
    bed.inside("sw", ["tc", "qdisc", "add", *limit, "10gbit"])
    bed.inside_in_background("h0", ["/usr/bin/python3", "-c", STREAM, header])
    wait_until(lambda: bed.counters()["port.p2.tx_frames"] > 100, what="the stream goes to p2")
    # By turns, and up to three times: what else the machine does may come and go between two runs, but a port that
    # held up the others would do so in each.
    ratios = []
    while len(ratios) < 3 and max(ratios, default=0) <= 1 / 3:
        bed.inside("sw", ["tc", "qdisc", "change", *limit, "10gbit"])
        fast = tcp_megabits(bed)
        bed.inside("sw", ["tc", "qdisc", "change", *limit, "10mbit"])
        before = bed.counters()["port.p2.tx_no_buffer"]
        wait_until(lambda before=before: bed.counters()["port.p2.tx_no_buffer"] > before + 100, what="p2 is full")
        slow = tcp_megabits(bed)
        print(f"TCP beside a stream to a fast port {fast:.0f} Mbit/s, to a slow one {slow:.0f} Mbit/s")
        ratios.append(slow / fast)
    assert max(ratios) > 1 / 3
    # What has waited leaves when there is room, also if nothing else happens at the switch.
    for process in bed.others:
        process.kill()

    def all_have_left():
        counters = bed.counters()
        received = bed.statistic("h2", "eth0", "rx_packets")
        # The kernel's own queue behind the link is one for all links, and TCP fills it, too.
        lost = bed.statistic("sw", "p2", "tx_dropped")
        return received + lost == counters["port.p2.tx_frames"] - counters["port.p2.tx_no_buffer"]
    wait_until(all_have_left, what="all frames that were not dropped come to h2")


def test_vlan_tags_pass_unchanged(bed):
    assert bed.ping(0, host_ip(1))  # both are learned
    frame = bytes.fromhex((host_mac(1) + host_mac(0)).replace(":", "") + "8100" + "a005" + "88b5") + bytes(range(60))
    capture = os.path.join(bed.directory.name, "capture.pcap")
    tcpdump = bed.inside_in_background("h1", ["tcpdump", "-Z", "root", "-U", "-c", "1", "-i", "eth0", "-w", capture,
                                              "vlan"])
    wait_until(lambda: os.path.exists(capture) and os.path.getsize(capture) >= 24, what="tcpdump captures")
    send_frames(bed, 0, [frame])
    tcpdump.wait(timeout=10)
    with open(capture, "rb") as file:
        assert file.read()[24 + 16:] == frame
    os.unlink(capture)


def test_broken_roce_is_counted_by_reason(bed):
    before = bed.counters()
    good = roce_frame(0, 4, b"x" * 64, 0x123)
    send_frames(bed, 0, [good, roce_frame(0, 4, b"x" * 64, 0x123, good_icrc=False), good[:70]])
    wait_until(lambda: bed.counters()["bad_roce_truncated"] > before["bad_roce_truncated"], what="frames arrive")
    after = bed.counters()
    # The hosts' kernels may refresh an ARP entry meanwhile: what is forwarded is not what this is about.
    ordinary = ("port.", "forwarded_frames", "flooded_frames", "arp_replies", "learned_addresses")
    changed = {name: after[name] - before[name] for name in after
               if after[name] != before[name] and not name.startswith(ordinary)}
    assert changed == {"roce_packets": 1, "drop_unknown_qpn": 1, "bad_roce_bad_icrc": 1, "bad_roce_truncated": 1}


def test_an_idle_daemon_uses_no_cpu(bed):
    done = at_rest.within(1, bed.process.pid)
    assert done.turns <= IDLE_TURNS and done.seconds <= 0.02, done


def test_a_second_daemon_does_not_take_over_the_socket(bed):
    done = bed.inside("sw", bed.daemon_argv(), check=False)
    assert done.returncode == 2
    assert "another process listens there" in done.stderr
    assert bed.call("describe")["name"] == "s1"


def test_static_mode_forwards_only_by_the_table(static_bed):
    bed = static_bed
    assert not bed.ping(0, host_ip(1), "-c", "1", check=False)
    assert bed.counters()["forward_drop_no_flood_port"] > 0
    assert bed.ping(0, SWITCH_IP)
    bed.set_static_table([0, 1], [])
    # Not at once: the kernel of h0 may just have given up asking for the address.
    wait_until(lambda: bed.ping(0, host_ip(1), "-c", "1", check=False), what="the table is gone by")
    after = bed.counters()
    assert after["flooded_frames"] == 0  # the switch answered ARP by the table
    assert sent(after, "p2") == 0
    assert after["learned_addresses"] == 0
    assert not bed.ping(0, host_ip(2), "-c", "1", check=False)


def test_static_mode_keeps_broadcasts_in_the_flood_ports(static_bed):
    bed = static_bed
    bed.set_static_table([], ["p0", "p1"])
    send_frames(bed, 0, [b"\xff" * 6 + bytes.fromhex(host_mac(0).replace(":", "")) + b"\x88\xb5" + bytes(50)])
    wait_until(lambda: sent(bed.counters(), "p1") == 1, what="the broadcast passes")
    assert sent(bed.counters(), "p2") == 0


def test_a_multicast_group_leaves_by_its_ports_alone(static_bed):
    bed = static_bed
    ports = ["p0", "p1", "p2"]
    group = "01:00:5e:40:00:01"
    bed.call("set-forwarding", {"table": {"floodPorts": ports, "groups": [{"mac": mac_base64(group), "ports": ports[:2]}]}})
    source = bytes.fromhex(host_mac(0).replace(":", "")) + b"\x88\xb5" + bytes(50)
    send_frames(bed, 0, [bytes.fromhex(group.replace(":", "")) + source, b"\xff" * 6 + source])
    wait_until(lambda: sent(bed.counters(), "p1") == 2, what="both pass")
    assert sent(bed.counters(), "p2") == 1, "the broadcast"


def test_a_link_that_goes_down_and_up_between_two_looks(static_bed):
    """Whoever was heard there may be elsewhere: it counts as down."""
    bed = static_bed
    bed.set_static_table([0, 1, 2], [])
    assert bed.counters()["port.p2.times_lost"] == 0
    bed.process.send_signal(signal.SIGSTOP)
    try:
        for state in "down", "up":
            bed.inside("h2", ["ip", "link", "set", "eth0", state])
        wait_until(lambda: "LOWER_UP" in bed.inside("sw", ["ip", "link", "show", "p2"]).stdout, what="the port is up")
    finally:
        bed.process.send_signal(signal.SIGCONT)
    wait_until(lambda: bed.counters()["port.p2.times_lost"] == 1, what="the loss is counted")
    assert bed.log().count("port p2 is down") == bed.log().count("port p2 is up") == 1
    assert bed.call("describe")["ports"][2]["up"]


def test_an_interface_that_goes_and_comes_back(static_bed):
    bed = static_bed
    bed.set_static_table([0, 1, 2], [])
    bed.inside("sw", ["ip", "link", "set", "p2", "down"])
    assert bed.ping(0, host_ip(1))  # the others go on
    assert not bed.call("describe")["ports"][2]["up"]
    wait_until(lambda: bed.counters()["port.p2.times_lost"] == 1, what="the loss is counted")
    assert bed.log().count("port p2 is down") == 1
    at_rest.wait(bed.process.pid)
    bed.inside("sw", ["ip", "link", "set", "p2", "up"])
    wait_until(lambda: bed.ping(0, host_ip(2), "-c", "1", check=False), what="the port works again")

    run(["ip", "-n", bed.prefix + "h2", "link", "del", "eth0"])
    wait_until(lambda: bed.counters()["port.p2.times_lost"] == 2, what="the loss is counted")
    assert bed.ping(0, host_ip(1))
    run(["ip", "link", "add", "eth0", "mtu", str(MTU), "address", host_mac(2), "netns", bed.prefix + "h2", "type", "veth",
         "peer", "name", "p2", "mtu", str(MTU), "netns", bed.prefix + "sw"])
    bed.inside("h2", ["ip", "addr", "add", host_ip(2) + "/16", "dev", "eth0"])
    for name, device in (("h2", "eth0"), ("sw", "p2")):
        bed.inside(name, ["ip", "link", "set", device, "up"])
    wait_until(lambda: bed.ping(0, host_ip(2), "-c", "1", check=False), what="the new interface works")
    assert bed.log().count("port p2 is lost") + bed.log().count("port p2 is down") == 2


def test_ends_on_sigterm_and_leaves_nothing():
    with SwitchBed(1) as bed:
        bed.start()
        assert bed.stop() == 0
        assert not os.path.exists(bed.socket)
        assert os.listdir(bed.directory.name) == ["log"]


def test_replaces_a_socket_left_behind():
    with SwitchBed(1) as bed:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(bed.socket)
        bed.start()
        assert bed.call("describe")["name"] == "s1"


def test_runs_with_cap_net_raw_only():
    with SwitchBed(2) as bed:
        os.chmod(bed.directory.name, 0o777)
        bed.start(wrapper=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+net_raw",
                           "--ambient-caps=-all,+net_raw", "--bounding-set=-all,+net_raw"])
        with open(f"/proc/{bed.process.pid}/status", encoding="ascii") as file:
            effective = [line.split()[1] for line in file if line.startswith("CapEff")]
        assert int(effective[0], 16) == 1 << 13
        assert bed.ping(0, host_ip(1))


def test_what_is_wrong_with_a_port_is_said_with_its_cure():
    with SwitchBed(1) as bed:
        for offloads, status, text in ((["tx", "on"], 0, "p0: super-frames"),
                                       (["tx", "off"], 0, "p0: single frames"),
                                       (["tx", "on", "tx-udp-segmentation", "off"], 2, "tx-udp-segmentation on"),
                                       (["tx-udp-segmentation", "on", "tso", "on"], 2, "ethtool -K p0 tso off gso off"),
                                       (["tso", "off", "gro", "on"], 2, "ethtool -K p0 gro off")):
            bed.inside("sw", ["ethtool", "-K", "p0"] + offloads)
            done = bed.inside("sw", bed.daemon_argv(["--check-config"]), check=False)
            assert (done.returncode, text in done.stderr) == (status, True), (offloads, done.stderr)
            if status == 2:
                done = bed.inside("sw", bed.daemon_argv(), check=False)
                assert done.returncode == 2 and text in done.stderr, (offloads, done.stderr)
        done = bed.inside("sw", bed.daemon_argv(["--check-config", "--port", "p7"]), check=False)
        assert done.returncode == 2 and "p7: no such interface" in done.stderr
        bed.inside("sw", ["ethtool", "-K", "p0", "gro", "off"])
        done = bed.inside("sw", bed.daemon_argv(["--check-config", "--single-frames"]), check=False)
        assert done.returncode == 0 and "p0: single frames" in done.stderr


def test_says_what_is_wrong():
    with SwitchBed(1) as bed:
        for arguments, text in ((["--port", "nosuch0"], "interface nosuch0: no such interface"),
                                (["--port", "p0"], "--port: p0 is there twice"),
                                (["--control", "/nonexistent/none/x"], "there is no directory /nonexistent/none"),
                                (["--mac", "1:2"], "1:2 is no MAC address"),
                                (["--cores", "0"], "--cores"),
                                (["--cores", "17"], "--cores: 17 is not from 1 to 16 (threads)"),
                                (["--sram", "1K"], "--sram: 1024 is not from 4096 to 68719476736 (bytes; 16M is 16777216)"),
                                (["--sram", "lots"], "--sram"),
                                (["--pool", "60K"], "--pool: 61440 bytes are less than 8 buffers of 8192 bytes, which need 65536"),
                                (["--pool", "0"], "--pool: 0 bytes are less than 8 buffers of 8192 bytes, which need 65536"),
                                (["--pool", "16M"], "--pool: 16777216 bytes leave 0 of the 16777216 of --sram; a group takes some 10240 of its own"),
                                (["--pool", "17M"], "--pool: 17825792 bytes are more than the 16777216 that the switch has for all groups"),
                                (["--pool", "16M", "--cores", "3"],
                                 "--pool: 5592448 bytes are more than the 5592405 that the switch has for all groups, of each of 3 cores"),
                                (["--pool", "100K", "--cores", "2"], "which need 65536, of each of 2 cores"),
                                (["--pool-policy", "fcfs"], "--pool-addressing, --pool-policy and --pool-age take --pool"),
                                (["--pool", "1M", "--pool-policy", "last"], "--pool-policy"),
                                (["--pool", "1M", "--pool-age", "-1"], "--pool-age")):
            argv = bed.daemon_argv(arguments)
            if arguments[0] in ("--control", "--mac"):
                at = argv.index(arguments[0])
                del argv[at:at + 2]
            done = bed.inside("sw", argv, check=False)
            assert done.returncode == 2, (arguments, done.stderr)
            assert text in done.stderr + done.stdout
