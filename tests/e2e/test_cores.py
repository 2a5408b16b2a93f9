"""Switches on two cores: groups are right on whichever they are, and all that is counted is counted once."""

import json
import re
import subprocess
import time

import pytest

import harness
import modes
from harness import assert_all_right

CORES = 2
BED = ("tree-3-2", "--hosts", "softnic", f"--engine-arg=--cores={CORES}")
CONFORM = harness.BUILD / "check" / "conform" / "epic-conform"
MODES = modes.NUMBERS
GROUPS = 4


def groups_at_once(bed, mode, *options):
    """The ranks of several groups on all hosts, that hold on to their groups; each group's list of programs."""
    groups = [bed.loops("--mode", mode, "--hold", *options) for _ in range(GROUPS)]
    for ranks in groups:
        for rank in ranks:
            rank.wait_for("joined")
    return groups


def end(bed, groups):
    """Lets all groups go; every element of every call must have been right."""
    for ranks in groups:
        bed.release(ranks)
    for ranks in groups:
        assert_all_right(ranks)


def low_bytes(dump):
    """Of the QPNs of each group of a switch, which have only one."""
    found = []
    for group in dump["groups"]:
        ends = group["children"] + ([group["parent"]] if "parent" in group else [])
        ours = {int(end["config"]["local_qpn"]) % 256 for end in ends}
        assert len(ours) == 1, group
        found += ours
    return found


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("mode", MODES)
def test_groups_at_once_are_right_beside_other_traffic(beds, mode):
    bed = beds.get(*BED)
    groups = groups_at_once(bed, mode, "--counts", "1,1000,30001", "--pause-ms", 20, "--iterations", 60)
    for switch in bed.switches:
        cores = sorted(low % CORES for low in low_bytes(bed.tables(switch)))
        # What is to hosts' addresses comes to core 0.
        expected = [0, 0, 0, 0] if modes.BY_NUMBER[mode].bears_hosts else [0, 0, 1, 1]
        assert cores == expected, f"{switch} has groups on cores {cores}"
    ping = bed.start("h0", "ping", "-i", "0.05", "-c", "40", "-W", "2", "10.10.0.4")
    server = bed.start("h2", "iperf3", "-s", "-1", "--forceflush")
    server.wait_for("listening")
    client = json.loads(bed.run("h1", "iperf3", "-J", "-t", "2", "-c", "10.10.0.3"))
    assert client["end"]["sum_received"]["bits_per_second"] > 1e6
    # TCP fills queues, and some pings may be lost in them; none comes twice.
    assert ping.wait() == 0 and "DUP" not in ping.output, ping.output
    assert int(re.search(r"(\d+) received", ping.output).group(1)) >= 20, ping.output
    end(bed, groups)
    bed.assert_clean()


def ports_of(bed, switch):
    """A switch's counters, by port and name."""
    ports = {}
    for name, value in bed.counters(switch).items():
        if name.startswith("port."):
            _, port, counter = name.split(".")
            ports.setdefault(port, {})[counter] = value
    return ports


def test_frames_between_switches_are_counted_once(beds):
    bed = beds.get(*BED)
    end(bed, groups_at_once(bed, 2, "--counts", "20000", "--iterations", 20))
    ends = [[part.split(":") for part in (link["a"], link["b"])] for link in bed.topology()["links"]]
    between = [link for link in ends if all(end[0] in bed.switches for end in link)]
    assert len(between) == 2

    def difference():
        """Links whose ends do not say the same, and what they say."""
        counters = {switch: ports_of(bed, switch) for switch in bed.switches}
        found = []
        for one, other in between + [link[::-1] for link in between]:
            sent, got = counters[one[0]][one[1]], counters[other[0]][other[1]]
            lost = sent["tx_no_buffer"] + sent["tx_failed"] + got["rx_dropped"]
            # Hellos begin when a port is up, whether or not the other end's engine runs.
            frames_sent, frames_got = sent["tx_frames"] - sent["tx_hellos"], got["rx_frames"] - got["rx_hellos"]
            if frames_got > frames_sent or (not lost and frames_got < frames_sent):
                found.append((one, sent, got))
        assert all(port["rx_frames"] > 100 for link in between for port in (counters[node][port] for node, port in link))
        return found
    # Of what is on its way while the ends are asked one after the other, they cannot agree.
    deadline = time.monotonic() + 10
    while (found := difference()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not found


@pytest.mark.endings
def test_an_engine_that_is_started_again_has_all_its_cores(beds):
    bed = beds.get(*BED)
    groups = [bed.loops("--mode", 2, "--counts", "1000", "--pause-ms", "20", "--iterations", 5000) for _ in range(GROUPS)]
    for ranks in groups:
        for rank in ranks:
            rank.wait_for("joined")
    argv = bed.kill("leaf1.engine")
    for ranks in groups:
        for error in harness.errors(ranks):
            assert error["error"] == "switch lost" and "leaf1" in error["message"], error
    bed.revive("leaf1.engine", argv)
    bed.wait_for_switch("leaf1")
    bed.wait_clean()
    end(bed, groups_at_once(bed, 3, "--counts", "1,30001", "--iterations", 10))
    bed.assert_clean()


def test_the_traces_of_all_cores_are_accepted(tmp_path_factory, all_beds):
    assert CONFORM.exists(), f"{CONFORM} is missing: cmake --build --preset release --target epic-conform"
    folder = tmp_path_factory.mktemp("traces")
    bed = all_beds.get(*BED, f"--engine-arg=--trace={folder}/{{name}}.ndjson")
    try:
        for mode in MODES:
            end(bed, groups_at_once(bed, mode, "--counts", "1,3000", "--iterations", 6))
        switches = bed.switches
    finally:
        all_beds.close()  # ends the daemons, which write the ends of their traces
    traces = [folder / f"{switch}{core}.ndjson" for switch in switches for core in ("", ".1")]
    assert sorted(folder.iterdir()) == sorted(traces)
    done = subprocess.run([CONFORM, *traces], capture_output=True, text=True, check=False, timeout=120)
    output = done.stdout + done.stderr
    assert done.returncode == 0 and output.count("accepted") == len(traces), output
    everywhere = GROUPS * sum(not modes.BY_NUMBER[mode].bears_hosts for mode in MODES) // CORES
    on_core_0 = everywhere + GROUPS * sum(modes.BY_NUMBER[mode].bears_hosts for mode in MODES)
    for trace in traces:
        events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
        kinds = [event["event"] for event in events]
        expected = everywhere if trace.stem.endswith(".1") else on_core_0
        assert kinds.count("install") == kinds.count("remove") == expected, trace
        assert kinds.count("out") > 100, trace
