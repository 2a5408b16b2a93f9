"""Processes of a bed: down ends those that heed no signal, and those that are in none of its namespaces."""

import signal
import subprocess
import sys

import pytest

from epic_testbed import bed, net, procs

HEEDS_NONE = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(1000)"


@pytest.fixture(name="process")
def fixture_process():
    """The leader of a session, which heeds no SIGTERM."""
    with subprocess.Popen([sys.executable, "-c", HEEDS_NONE], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout.readline() == "on\n"
        yield process
        process.kill()


def record_of(process):
    return {"pid": process.pid, "start": procs.start_time(process.pid)}


def test_what_heeds_no_signal_is_killed(process):
    record = record_of(process)
    procs.kill_all(lambda: procs.session_members([record]), grace_s=0.1)
    assert not procs.alive(record)


def test_down_ends_what_is_in_none_of_its_namespaces(process, tmp_path, monkeypatch):
    monkeypatch.setattr(bed, "ROOT", str(tmp_path))
    monkeypatch.setattr(net, "pids_in", lambda prefix: [])
    monkeypatch.setattr(net, "delete_namespaces", lambda prefix: None)
    own = bed.Bed("procs")
    own.record = {"processes": {"a": record_of(process)}}
    (tmp_path / "procs").mkdir()
    own.save()
    own.down()
    assert not procs.alive(own.record["processes"]["a"]) and not (tmp_path / "procs").exists()


def test_a_command_that_is_interrupted_has_ended_before_anything_is_removed(tmp_path):
    """Else it makes a namespace when those of its test bed have been removed."""
    previous = signal.signal(signal.SIGTERM, procs.interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            net.run(["sh", "-c", f"kill -TERM $PPID; sleep 0.5; touch {tmp_path}/made"])
        assert (tmp_path / "made").exists()
    finally:
        signal.signal(signal.SIGTERM, previous)
