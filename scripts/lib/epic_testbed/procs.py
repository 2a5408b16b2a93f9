"""Processes of a test bed: each in a session of its own inside a namespace, known by pid and start time."""

import contextlib
import os
import signal
import socket
import subprocess
import time

_INTERRUPTION = {"held": 0, "came": False}


def interrupt(_signum, _frame):
    """A handler of signals that are to end this program: KeyboardInterrupt, now or at the end of what is not interrupted."""
    _INTERRUPTION["came"] = _INTERRUPTION["held"] > 0
    if not _INTERRUPTION["came"]:
        raise KeyboardInterrupt


@contextlib.contextmanager
def uninterrupted():
    """What begins here is done before an interruption is raised. Else subprocess leaves a child alone that it has just
    forked: it goes on, and makes what nobody removes. For what takes milliseconds."""
    _INTERRUPTION["held"] += 1
    try:
        yield
    finally:
        _INTERRUPTION["held"] -= 1
        if _INTERRUPTION["came"] and not _INTERRUPTION["held"]:
            _INTERRUPTION["came"] = False
            raise KeyboardInterrupt  # also in place of an error: Ctrl-C ends the child as well


def start_time(pid):
    """Start time of a process in clock ticks since boot, or None if there is none (or only a zombie)."""
    fields = _stat(pid)
    return int(fields[19]) if fields and not _ended(fields) else None


def _ended(fields):
    """Whether only a zombie is left. A killed process' first thread may be one while its others still hold what it has open:
    until these have ended, whoever takes its place finds its sockets taken."""
    return fields[0] == "Z" and int(fields[17]) <= 1


def _stat(pid):
    """The fields of /proc/PID/stat from the third (the state) on, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def spawn(argv, log_path, namespace, pass_fds=()):
    """Starts argv in a network namespace with its output in log_path; returns {pid, start, argv} for the record."""
    with open(log_path, "ab") as log:
        # nsenter replaces itself by the program: the pid is the program's own.
        process = subprocess.Popen(["nsenter", f"--net=/run/netns/{namespace}", "--"] + argv,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True, pass_fds=pass_fds)
    return {"pid": process.pid, "start": start_time(process.pid), "argv": argv}


def alive(record):
    """True if the process of the record still runs (and not another one under its pid)."""
    _reap(record["pid"])
    return record["start"] is not None and start_time(record["pid"]) == record["start"]


def _reap(pid):
    """Collects the process if it is our own ended child, so that it does not look alive."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def answers(path):
    """True if somebody takes connections at a Unix socket: its file alone is there before, and after its owner's death."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(path)
        except OSError:
            return False
        return True


def session_members(records):
    """Pids of all processes in the sessions that the recorded processes lead or led.

    A pid that still names a session is not given to a new process, so a leader that is there with another
    start time means that the recorded session is gone.
    """
    leaders = {r["pid"] for r in records if start_time(r["pid"]) in (None, r["start"])}
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(entry)
            if fields and not _ended(fields) and int(fields[3]) in leaders:
                members.append(int(entry))
    return members


def kill_all(find, grace_s):
    """Ends the processes that find() lists: SIGTERM, and SIGKILL for those still there after grace_s."""
    deadline = time.monotonic() + grace_s
    for pid in find():
        _kill(pid, signal.SIGTERM)
    while True:
        pids = find()
        for pid in pids:
            _reap(pid)
        if not pids:
            return
        if time.monotonic() > deadline:
            for pid in pids:
                _kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline + 10:
            raise RuntimeError(f"processes {pids} do not end")
        time.sleep(0.02)


def _kill(pid, signum):
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass
