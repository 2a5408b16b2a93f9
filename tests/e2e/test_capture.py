"""What goes over the wires during a run: valid ICRCs, and one flow from a leaf to the root, not two."""

import signal

import pytest

import pcap
from harness import assert_all_right

COUNT = 20000


@pytest.fixture(name="captured", scope="module")
def fixture_captured(all_beds, tmp_path_factory):
    """{port: frames} of all ports of leaf1 and root during three AllReduces on tree-3-2, and the bed."""
    bed = all_beds.get("tree-3-2", "--single-frames")  # tcpdump shows no packets of others
    directory = tmp_path_factory.mktemp("pcap")
    ports = {f"{switch['name']}:{port}" for switch in bed.topology()["switches"] for port in switch["ports"]
             if switch["name"] in ("leaf1", "root")}
    captures = {port: capture(bed, port, directory / f"{port}.pcap") for port in sorted(ports)}
    assert_all_right(bed.loops("--counts", COUNT, "--iterations", 3, "--type", "float32"))
    for program, _ in captures.values():
        program.end(signal.SIGINT)
    yield bed, {port: pcap.frames(path) for port, (_, path) in captures.items()}
    bed.end_programs()


def capture(bed, port, path):
    """Starts tcpdump at a port; returns (program, path)."""
    node, device = port.split(":")
    program = bed.start(node, "tcpdump", "-n", "--immediate-mode", "-B", 65536, "-Z", "root", "-i", device,
                        "-U", "-w", path)
    program.wait_for("listening on")
    return program, path


def test_every_frame_that_a_switch_emits_has_a_valid_icrc(captured):
    bed, by_port = captured
    macs = {switch["mac"] for switch in bed.topology()["switches"]}
    emitted = [frame for frames in by_port.values() for frame in frames
               if pcap.is_roce(frame) and pcap.source_mac(frame) in macs]
    assert len(emitted) > 3 * COUNT * 4 / 4096  # more than the data of one flow
    bad = [frame for frame in emitted if not pcap.icrc_ok(frame)]
    assert not bad, f"{len(bad)} of {len(emitted)} frames have a bad ICRC, the first: {bad[0].hex()}"
    assert {pcap.opcode(frame) for frame in emitted} >= {0x05, 0x11}  # also control packets and ACKs
    print(f"{len(emitted)} frames emitted by switches, all with a valid ICRC")


def test_a_leaf_sends_one_upward_flow_to_the_root(captured):
    bed, by_port = captured
    leaf1 = next(switch for switch in bed.topology()["switches"] if switch["name"] == "leaf1")
    uplink = leaf1["ports"][-1]  # tree-3-2: the links to hosts come first
    host_ports = [f"leaf1:{port}" for port in leaf1["ports"][:-1]]

    def data(port, from_switch):
        return [frame for frame in by_port[port] if pcap.is_roce(frame) and pcap.is_data(frame) and
                (pcap.source_mac(frame) == leaf1["mac"]) == from_switch]

    # Distinct packet numbers: a repetition after a loss is no second flow.
    up = {pcap.psn(frame) for frame in data(f"leaf1:{uplink}", True)}
    from_hosts = [{pcap.psn(frame) for frame in data(port, False)} for port in host_ports]
    expected = 3 * -(-COUNT * 4 // 4096)
    assert len(from_hosts) == 2 and all(len(psns) == expected for psns in from_hosts)
    assert len(up) == expected, f"{len(up)} packets upward; one rank sent {expected}"
    # Flows of two ranks would have the same numbers, but queue pairs of their own.
    flows = {pcap.destination_qpn(frame) for frame in data(f"leaf1:{uplink}", True)}
    assert len(flows) == 1, f"data upward to the queue pairs {flows}"
