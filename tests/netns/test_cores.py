"""The switch daemon on several cores: each frame is taken by one of them, and all of them together are one switch."""

import os
import pathlib
import re

import pytest

import at_rest
from switch_bed import (SWITCH_IP, SwitchBed, host_ip, host_mac, mac_base64, roce_frame, run, send_frames, wait_until)

CORES = 3
IDLE_TURNS = 40  # as in test_daemon.py


@pytest.fixture(name="bed", scope="module", params=[False, True], ids=["pcap", "super-frames"])
def bed_on_cores(request):
    with SwitchBed(3, request.param) as bed:
        yield bed.start("--forwarding", "learning", "--cores", str(CORES))


def received(bed, port):
    """Frames that have come in by a port, as its kernel counts them."""
    return int(bed.inside("sw", ["cat", f"/sys/class/net/p{port}/statistics/rx_packets"]).stdout)


def counted(bed, send, until):
    """What the counters have grown by since before send(), when until(growth) is true and each frame has been counted."""
    before, kernel_before = bed.counters(), received(bed, 0)
    send()
    growth = {}

    def all_are_there():
        kernel = received(bed, 0) - kernel_before
        growth.update({name: value - before[name] for name, value in bed.counters().items()})
        return until(growth) and growth["port.p0.rx_frames"] >= kernel
    wait_until(all_are_there, what="frames arrive")
    # The kernel counts a frame before the daemon does: this one looked first, so any more would be counted twice.
    assert growth["port.p0.rx_frames"] <= received(bed, 0) - kernel_before
    return growth


def tagged(frame, tag):
    """The frame with an 802.1Q tag."""
    return frame[:12] + bytes.fromhex("8100") + tag.to_bytes(2, "big") + frame[12:]


def test_each_core_is_a_thread_with_a_name(bed):
    names = [path.read_text(encoding="ascii").strip()
             for path in pathlib.Path(f"/proc/{bed.process.pid}/task").glob("*/comm")]
    assert sorted(name for name in names if name.startswith("shard ")) == [f"shard {n}" for n in range(CORES)]


def test_packets_to_every_queue_pair_are_counted_once(bed):
    frames = [roce_frame(0, 4, b"x" * 64, 0x123400 + low) for low in range(256)]
    growth = counted(bed, lambda: send_frames(bed, 0, frames), lambda g: g["roce_packets"] >= len(frames))
    assert growth["roce_packets"] == growth["drop_unknown_qpn"] == len(frames)
    assert growth["frame_drop_not_for_switch"] == growth["bad_roce_truncated"] == 0


def test_what_is_no_such_packet_is_counted_once(bed):
    good = roce_frame(0, 4, b"x" * 64, 0x123401)
    fragment = good[:20] + bytes([0x20]) + good[21:]
    frames = [tagged(good, 5), tagged(good, 0xe000), good[:44], fragment, roce_frame(0, 4, b"x" * 64, 0x123402, good_icrc=False)]
    growth = counted(bed, lambda: send_frames(bed, 0, frames), lambda g: g["bad_roce_bad_icrc"] >= 1)
    bad = {name: value for name, value in growth.items() if name.startswith("bad_roce_") and value}
    assert growth["frame_drop_tagged_roce"] == 1
    assert growth["roce_packets"] == growth["drop_unknown_qpn"] == 1, "that with a priority tag"
    assert sum(bad.values()) + growth["frame_drop_not_for_switch"] == 3 and bad["bad_roce_bad_icrc"] == 1, bad


def test_ordinary_traffic_passes_once(bed):
    assert bed.ping(0, host_ip(1))
    assert bed.ping(2, SWITCH_IP)
    for source, address in ((0, host_ip(1)), (2, SWITCH_IP)):
        # With -w it waits for 20 answers, and asks on meanwhile; after -c alone it waits for little more than the longest
        # round trip so far, and a machine that stands still for that long looks like a loss.
        done = bed.inside(f"h{source}", ["ping", "-c", "20", "-i", "0.01", "-w", "20", address])
        answered = [int(number) for number in re.findall(r"icmp_seq=(\d+)", done.stdout)]
        assert len(answered) >= 20 and answered == list(range(1, len(answered) + 1)), done.stdout
    server = bed.inside_in_background("h1", ["iperf3", "-s", "-1"])
    wait_until(lambda: ":5201" in bed.inside("h1", ["ss", "-ltn"]).stdout, what="iperf3 listens")
    bed.inside("h0", ["iperf3", "-c", host_ip(1), "-t", "1"], timeout=30)
    server.wait(timeout=30)


def group(group_id, qpns):
    """Two hosts, on p0 and p1, with these QPNs at the switch."""
    children = [{"local_qpn": qpn, "remote_ip": 0x0a090001 + n, "remote_qpn": 0x11, "remote_mac": mac_base64(host_mac(n)),
                 "port": f"p{n}", "is_host": True, "ranks": [n]} for n, qpn in enumerate(qpns)]
    return {"group": {"group_id": group_id, "generation": 1, "name": f"g{group_id}", "mode": "MODE_TRANSLATED",
                      "world_size": 2, "path_mtu": 1024, "message_packets": 2, "window_messages": 4, "slots": 16,
                      "prompt_ns": 20000000, "children": children}}


def test_packets_come_to_their_group_on_whichever_core_it_is(bed):
    ids = range(1, 2 * CORES + 1)
    with pytest.raises(RuntimeError, match=r"3: children\[1\].local_qpn: 0x202 is of another core than 0x101"):
        bed.call("install", group(1, (0x101, 0x202)))
    for group_id in ids:
        bed.call("install", group(group_id, (0x100 + group_id, 0x200 + group_id)))
    # By another port than the edge's: the group that they come to drops and counts them.
    frames = [roce_frame(0, 4, b"x" * 64, 0x200 + group_id) for group_id in ids]
    growth = counted(bed, lambda: send_frames(bed, 0, frames), lambda g: g["roce_packets"] >= len(frames))
    assert growth["drop_stranger"] == len(frames)
    dump = bed.call("dump")
    assert [int(g["config"]["group_id"]) for g in dump["groups"]] == list(ids)
    for one in dump["groups"]:
        counters = {c["name"]: int(c["value"]) for c in one["counters"]}
        assert counters["drop_stranger"] == 1, one
    for group_id in ids:
        bed.call("remove", {"group_id": group_id, "generation": 1})
    info = bed.call("describe")
    assert info["group_ids"] == []
    assert info["capability"]["arena_free_bytes"] == info["capability"]["arena_bytes"]


def test_idle_cores_use_no_processor(bed):
    done = at_rest.within(1, bed.process.pid)
    assert done.turns <= IDLE_TURNS and done.seconds <= 0.04, done  # four per cent of a processor, for three


def test_an_interface_that_goes_comes_back_to_every_core():
    with SwitchBed(2) as bed:
        bed.start("--cores", str(CORES))
        run(["ip", "-n", bed.prefix + "h0", "link", "del", "eth0"])
        wait_until(lambda: bed.counters()["port.p0.times_lost"] >= 1, what="the loss is counted")
        run(["ip", "link", "add", "eth0", "address", host_mac(0), "netns", bed.prefix + "h0", "type", "veth",
             "peer", "name", "p0", "netns", bed.prefix + "sw"])
        for name, device in (("h0", "eth0"), ("sw", "p0")):
            bed.inside(name, ["ip", "link", "set", device, "up"])
        # Up for all cores.
        wait_until(lambda: bed.call("describe")["ports"][0]["up"], what="the port is back")
        frames = [roce_frame(0, 4, b"x" * 64, 0x123400 + low) for low in range(CORES)]
        before = bed.counters()["roce_packets"]
        send_frames(bed, 0, frames)
        wait_until(lambda: bed.counters()["roce_packets"] >= before + CORES, what="packets arrive")
        assert bed.counters()["roce_packets"] == before + CORES
        assert bed.counters()["port.p0.times_lost"] == bed.log().count("port p0 is lost") + bed.log().count("port p0 is down")
        assert bed.log().count("port p0 is back") == 1
        assert bed.stop() == 0
        assert os.listdir(bed.directory.name) == ["log"]


def test_more_cores_than_processors_is_a_warning():
    with SwitchBed(1) as bed:
        bed.start("--cores", "2", wrapper=["taskset", "-c", "0"])
        assert "--cores 2: this process may use only 1 processor" in bed.log()
        assert bed.call("describe")["name"] == "s1"
