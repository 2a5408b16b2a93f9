"""Processes of a bed: down ends those that heed no signal, and those that are in none of its namespaces."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from epic_testbed import bed, net, procs

HEEDS_NONE = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(1000)"

# Its first thread ends alone (exit, by number: that of x86-64 and that of others differ), its second waits.
FIRST_ENDS = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
print("on", flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""


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


def test_a_process_lives_until_its_last_thread_has_ended():
    """What is started in its place meanwhile would find its socket taken."""
    with subprocess.Popen([sys.executable, "-c", FIRST_ENDS], stdout=subprocess.PIPE, text=True) as process:
        record = record_of(process)
        assert process.stdout.readline() == "on\n"
        state = pathlib.Path(f"/proc/{process.pid}/stat")
        while ") Z " not in state.read_text(encoding="utf-8"):
            os.sched_yield()
        lives = procs.alive(record)
        process.kill()
        assert lives
        while procs.alive(record):
            os.sched_yield()


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
