"""epic-run --hosts with another program in place of ssh, which starts everything on this machine. Needs no root."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
EPIC_RUN = REPO / "scripts" / "epic-run"
sys.path.insert(0, str(REPO / "scripts" / "lib"))

from epic_testbed import procs  # noqa: E402  pylint: disable=wrong-import-position

# HOST COMMAND. What it starts outlives it, as it does sshd's client, and has nothing of our environment. It leaves its pid, in
# a file that is never seen empty: several may begin at once, and any of them may be killed meanwhile.
SSH = """#!/bin/sh
host=$1; shift
echo $$ >{folder}/$$.new && mv {folder}/$$.new {folder}/$host.pid
case $host in
  gone) echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255;;
  bare) exit 127;;
  silent) exec sleep 1000;;
  chatty) echo "Welcome, there are 3 updates";;
esac
mkfifo {folder}/$$
exec 3<&0
cat <&3 >{folder}/$$ &
setsid env -i PATH=/usr/bin:/bin HOME={folder} sh -c "$*" <{folder}/$$ 3<&- | cat
kill $! 2>/dev/null
"""


def heed_signals():
    """As at a terminal, also where the tests run by nohup or in the background."""
    for signum in (signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)


# A program that tells its pid, and of each signal a word; it ends by those that have a status. No shell in a loop of commands
# does that: a signal that comes while it starts one may be lost, or end it.
_HEEDING = """
import os, signal, sys
heard = {{getattr(signal, name): what for name, what in {signals!r}.items()}}
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
print(os.getpid(), flush=True)
{begin}
while True:
    word, status = heard[signal.sigwait(heard)]
    print(word, flush=True)
    if status is not None:
        sys.exit(status)
"""


def heeding(begin="", **signals):
    """Its command line. heeding(SIGUSR1=("one", None), SIGTERM=("told", 0)); `begin` is Python that runs behind the pid."""
    return ["python3", "-c", _HEEDING.format(signals=signals, begin=begin)]


class Run:
    """A run of epic-run --hosts, and what it has started."""

    def __init__(self, argv, folder, env, through=(), **more):
        self.folder = folder
        self.process = subprocess.Popen([*through, EPIC_RUN, *argv], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True, **more)

    def lines(self, count):
        """The next lines of its output, sorted."""
        return sorted(self.process.stdout.readline() for _ in range(count))

    def pids(self, count):
        """Those that ranks tell as "[RANK] PID", a line each."""
        return [int(line.split()[1]) for line in self.lines(count)]

    def end(self, signum=None):
        """Waits for its end, after a signal if one is named; (status, output, errors)."""
        if signum:
            self.process.send_signal(signum)
        output, errors = self.process.communicate(timeout=60)
        return self.process.returncode, output, errors

    def kill_ssh(self, host):
        os.killpg(int((self.folder / f"{host}.pid").read_text()), signal.SIGKILL)


@pytest.fixture(name="start")
def fixture_start(tmp_path):
    """start(ARGUMENT...) is a Run; whoever still runs when the test ends is killed with its ranks."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(folder=tmp_path))
    ssh.chmod(0o700)
    softnic = tmp_path / "softnic"
    softnic.mkdir()
    (softnic / "libibverbs.so.1").touch()
    env = {key: value for key, value in os.environ.items() if not key.startswith("EPIC_")}
    env |= {"EPIC_SSH": str(ssh), "EPIC_MANAGER": "192.0.2.1:7400", "EPIC_SOFTNIC_LIB": str(softnic)}
    runs = []

    def start(*argv, variables=None, **more):
        runs.append(Run(argv, tmp_path, {**env, **(variables or {})}, **{"stdin": subprocess.DEVNULL, "preexec_fn": heed_signals, **more}))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.communicate()
    for file in tmp_path.glob("*.pid"):  # a test may have stopped it
        pid = int(file.read_text())
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if str(ssh).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(name="run")
def fixture_run(start):
    """run(ARGUMENT...) is (status, lines of output by rank, errors)."""
    def run(*argv, **more):
        status, output, errors = start(*argv, **more).end()
        return status, sorted(output.splitlines(), key=lambda line: line.partition("]")[0]), errors

    return run


def wait_until_gone(pids):
    """Ends with the processes; a failure if they do not end at all."""
    deadline = time.monotonic() + 60
    for pid in pids:
        while procs.start_time(pid) is not None:
            assert time.monotonic() < deadline, f"{pid} is still there"
            time.sleep(0.01)
