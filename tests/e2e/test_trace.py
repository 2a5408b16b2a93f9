"""The daemons' own traces of real runs are accepted by the model of what a switch may send; a forged one is not."""

import json
import subprocess

import pytest

import harness
import modes

CONFORM = harness.BUILD / "check" / "conform" / "epic-conform"
MODES = modes.NUMBERS


def conform(*traces):
    """Exit status and output of epic-conform."""
    done = subprocess.run([CONFORM, *traces], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def run_collectives(bed, mode):
    """Every collective and type once, of packets that are not all full, in one group of the mode. Small: on a busy machine
    much is repeated, and a trace ends at 64 MiB."""
    ranks = bed.perf("--mode", mode, "--collective", "all", "-d", "all", "-o", "sum", "-b", "2500", "-e", "2500", "-n", "1",
                     "-w", "0", "-c", "1")
    harness.assert_all_right(ranks)


@pytest.fixture(name="traces", scope="module")
def fixture_traces(tmp_path_factory, all_beds):
    """One run in each mode over links that lose packets; the traces of its three switches."""
    assert CONFORM.exists(), f"{CONFORM} is missing: cmake --build --preset release --target epic-conform"
    folder = tmp_path_factory.mktemp("traces")
    bed = all_beds.get("tree-3-2", "--hosts", "softnic", "--mtu", "1024", "--wire",
                       f"--engine-arg=--trace={folder}/{{name}}.ndjson")
    try:
        bed.wire.random_faults(1, drop_ppm=2000, duplicate_ppm=2000, reorder_ppm=2000, depth=8)
        for mode in MODES:
            run_collectives(bed, mode)
        faults = bed.wire.count()["faults"]
        switches = bed.switches
    finally:
        all_beds.close()  # ends the daemons, which write the ends of their traces
    print(f"\n{faults}")
    assert faults.get("drop"), "nothing was lost"
    return [folder / f"{switch}.ndjson" for switch in switches]


def test_the_traces_of_all_switches_are_accepted(traces):
    status, output = conform(*traces)
    print("\n" + output)
    assert status == 0, output
    assert output.count("accepted") == len(traces) == 3
    for trace in traces:
        events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
        assert not [e for e in events if e["event"] == "cut"], "the trace is not whole"
        installed = sorted(e["group"]["mode"] for e in events if e["event"] == "install")
        assert installed == list(MODES), "a group of each mode"
        assert len([e for e in events if e["event"] == "remove"]) == len(MODES)
        assert len([e for e in events if e["event"] == "out"]) > 500
        assert [e for e in events if e["event"] == "timer"], "no timer has made the switch send"


def test_a_forged_trace_is_refused_at_its_line(traces, tmp_path):
    lines = traces[0].read_text(encoding="utf-8").splitlines()
    data = [n for n, line in enumerate(lines) if '"event":"out"' in line and '"payload"' in line and '"imm"' not in line]
    forged = data[len(data) // 2]
    event = json.loads(lines[forged])
    payload = event["payload"]
    event["payload"] = payload[:-1] + ("0" if payload[-1] != "0" else "1")
    lines[forged] = json.dumps(event)
    path = tmp_path / "forged.ndjson"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    status, output = conform(path)
    print("\n" + output)
    assert status == 1, output
    assert "REFUSED" in output and f"line {forged + 1}: rule " in output, output


def test_an_engine_that_cannot_write_its_trace_says_so(tmp_path):
    done = subprocess.run([harness.BUILD / "incengine" / "incengine", "--name", "s", "--address", "10.0.0.1", "--port",
                           "lo", "--control", tmp_path / "control.sock", "--trace", tmp_path / "none" / "trace"],
                          capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 2
    assert "--trace" in done.stderr and "cannot be written" in done.stderr, done.stderr
