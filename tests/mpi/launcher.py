"""Runs MPI programs on the hosts of a test bed, by an mpirun that has not been changed: its remote shell enters a
host's namespaces, in place of ssh, with an environment of that host's own."""

import ctypes
import ctypes.util
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import time
import typing

import harness

PROGRAMS = harness.BUILD / "tests" / "mpi"
# In a default run, where a test says that it is patient: how late ranks are, in milliseconds, longer than a queue pair's timer
# runs; and communicators that are made for nothing. And how long a manager that is not there is asked, in seconds.
BRIEF = {"TEST_LATE_MS": "1500", "TEST_COPIES": "100"}
SOON = {"EPIC_MANAGER_TIMEOUT": "3"}
PATIENT = PROGRAMS / "libmpi_patient.so"  # ranks that wait sleep (patient.c)
EPIC_RUN = harness.ROOT / "scripts" / "epic-run"
MANAGER = "10.255.0.1:7400"


def groups_told_of(bed):
    """The groups of which the manager has said anything since it was started."""
    events = bed.manager("events", "--last", "0").get("events", [])
    return {event["about"] for event in events if event["about"].startswith("group ")}


def describe_machine(file):
    """Writes what hwloc finds out about this machine, for processes of an MPI to read (HWLOC_XMLFILE): to find it out each takes
    longer than for all else of its start."""
    hwloc, topology = ctypes.CDLL(ctypes.util.find_library("hwloc")), ctypes.c_void_p()
    assert hwloc.hwloc_topology_init(ctypes.byref(topology)) == 0 and hwloc.hwloc_topology_load(topology) == 0
    written = file.with_suffix(".part")
    assert hwloc.hwloc_topology_export_xml(topology, str(written).encode(), ctypes.c_ulong(0)) == 0
    hwloc.hwloc_topology_destroy(topology)
    written.rename(file)


class Done:
    """A run that has ended: exit `status`, all it said (`output`), `seconds`."""

    def __init__(self, status, output, seconds):
        self.status, self.output, self.seconds = status, output, seconds

    def assert_right(self, ranks=4):
        """Every rank has told that nothing was wrong."""
        told = re.findall(r"^rank (\d+): .* (\d+) wrong$", self.output, re.M)
        assert self.status == 0 and sorted(told) == [(str(r), "0") for r in range(ranks)], self.output

    def report(self):
        """{(function, way): (calls, bytes)} of EPIC_MPI_REPORT."""
        rows = re.findall(r"^EPIC: (MPI_\w+): (\d+) calls?, (\d+) bytes: (.*)$", self.output, re.M)
        return {(function, way): (int(calls), int(size)) for function, calls, size, way in rows}

    def said(self):
        """What else EPIC said, line by line."""
        return re.findall(r"^EPIC: (?!MPI_).*$", self.output, re.M)


class Start(typing.NamedTuple):
    """Scenes of one program (scenes.h) that are played in one start, since none of them needs anything of its own: to start a
    rank takes more than most scenes. `at_line`: (text, what to call with the bed when a line with it has come)."""
    program: str
    scenes: tuple
    per_host: int = 1
    ranks: int = 4
    at_line: tuple = ()


class Scene:
    """One scene of a start that has ended."""

    def __init__(self, name, start, done):
        self.name, self.start, self.done = name, start, done

    def _told(self, name):
        """[(rank, how many checks were wrong)] of those that have come to its end."""
        return sorted(re.findall(rf"^rank (\d+): {re.escape(name)}: \d+ checks, (\d+) wrong$", self.done.output, re.M))

    def assert_right(self):
        """Every rank has told that nothing was wrong with this one. What comes after one that has not ended has not run."""
        for name in self.start.scenes[:self.start.scenes.index(self.name)]:
            assert len(self._told(name)) == self.start.ranks, f"has not run, as '{name}' has not ended:\n{self.done.output}"
        assert self._told(self.name) == [(str(rank), "0") for rank in range(self.start.ranks)], self.done.output


class Launcher:
    """`patience`: ranks sleep while they wait (patient.c), in a default run; else they look again and again, as their MPI does.
    Where those of Open MPI yield all the time, Linux 6.18 leaves daemons waiting for a processor for 8 s and more. `soon`:
    variables by which a manager that is not there is given up earlier, in a default run. `OWN_REQUESTS`: the program of
    requests with what it can have of this MPI's own."""

    _played = {}  # {(MPI, Start): Done}, of this process

    def __init__(self, bed, folder, patience=True):
        self.bed, self.shell, self.starter, self.patience = bed, folder / "shell", folder / "starter", patience
        self.soon = SOON if patience else {}
        # Open MPI has folders by the names of hosts, and another test bed has hosts of the same names.
        self.temporary = pathlib.Path(f"/run/epic/{bed.name}/tmp")
        self.temporary.mkdir(exist_ok=True)
        self.machine = self.temporary / "machine.xml"
        if not self.machine.exists():
            describe_machine(self.machine)

    def played(self, start):
        """How a start of several scenes has ended; it is played where it is first asked for."""
        key = (type(self), start)
        if key not in self._played:
            at_line = start.at_line and (start.at_line[0], lambda: start.at_line[1](self.bed))
            try:
                self._played[key] = self(start.program, *start.scenes, per_host=start.per_host, ranks=start.ranks, at_line=at_line,
                                         patient=True)
                self.bed.wait_clean()
            except Exception as wrong:  # of all its scenes: none is played once more
                self._played[key] = wrong
        if isinstance(self._played[key], Exception):
            raise self._played[key]
        return self._played[key]

    def scene(self, start, name):
        return Scene(name, start, self.played(start))

    def _write_shell(self, of_hosts):
        """The remote shell: [OPTION...] HOST COMMAND. `of_hosts`: variables of single hosts."""
        cases = []
        for host in self.bed.hosts:
            own = " ".join(f"{k}={v}" for k, v in {"EPIC_IFNAME": "vec0", **of_hosts.get(host, {})}.items())
            cases.append(f"  {host}) own='{own}'; break;;")
        # Nothing of the environment goes along, as with ssh.
        self.shell.write_text("#!/bin/bash\nwhile :; do case $1 in\n" + "\n".join(cases) + "\nesac; shift; done\n"
                              "host=$1; shift\n"
                              f'exec env -i PATH="$PATH" HOME="$HOME" TMPDIR={self.temporary} '
                              f'HWLOC_XMLFILE={self.machine} HWLOC_THISSYSTEM=1 $own '
                              f'ip netns exec "epic-{self.bed.name}-$host" nsenter --uts="/run/epic/{self.bed.name}/uts/$host" '
                              'sh -c "$*"\n', encoding="utf-8")
        self.shell.chmod(0o700)

    def _mpirun(self, hosts, ranks):
        """The command that starts so many ranks on these hosts: HOST:RANKS with commas between."""
        raise NotImplementedError

    def _before(self, of_hosts):
        """Lines of shell that a rank's program is started after."""
        raise NotImplementedError

    def _prefix(self, of_hosts):
        """What starts a rank's program, if it is not mpirun itself."""
        lines = self._before(of_hosts)
        if self.patience:
            lines.append(f"export LD_PRELOAD={PATIENT}${{LD_PRELOAD:+:$LD_PRELOAD}}")
        if not lines:
            return []
        self.starter.write_text("\n".join(["#!/bin/sh", *lines, 'exec "$@"', ""]), encoding="utf-8")
        self.starter.chmod(0o700)
        return [self.starter]

    def __call__(self, program, *arguments, env=None, of_hosts=None, per_host=1, ranks=None,
                 through=(EPIC_RUN, "--mpi"), under=(), at_line=None, timeout_s=300, patient=False):
        """Runs a program of this folder, built for this MPI, on all hosts, or as many ranks as said, host by host.
        `env`: variables of mpirun, and so of rank 0, on its host; None takes one away. `under`: what starts the program, as valgrind.
        `at_line`: (text, what to call when a line with it has come). `patient`: the test is about
        waiting, or ranks are more than a machine has room for, so that in a default run they are late for less long (BRIEF)."""
        brief, of_hosts = BRIEF if patient and self.patience else {}, of_hosts or {}
        if brief:
            of_hosts = {host: {**brief, **of_hosts.get(host, {})} for host in self.bed.hosts}
        self._write_shell(of_hosts)
        # Groups at the first call, unless a test is about when they are made.
        variables = {"EPIC_MANAGER": MANAGER, "EPIC_MPI_REPORT": "1", "EPIC_MPI_FROM_CALL": "1", **(env or {})}
        hosts = ",".join(f"{host}:{per_host}" for host in self.bed.hosts)
        argv = ["env", *(f"{k}={v}" for k, v in variables.items() if v is not None), *through,
                *self._mpirun(hosts, ranks or len(self.bed.hosts) * per_host), *self._prefix(of_hosts),
                *under, PROGRAMS / f"{self.PROGRAMS_OF}_{program}", *arguments]
        begin = time.monotonic()
        command = [str(self.shell), self.bed.hosts[0], shlex.join(map(str, argv))]
        lines = []
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", start_new_session=True) as process:
            # All that mpirun has started here: whoever lives has the other end of the output.
            alarm = threading.Timer(timeout_s, os.killpg, (process.pid, signal.SIGKILL))
            alarm.start()
            try:
                for line in process.stdout:
                    lines.append(line)
                    if at_line and at_line[0] in line:
                        at_line[1]()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                alarm.cancel()
        return Done(process.returncode, "".join(lines), time.monotonic() - begin)


class OpenMpi(Launcher):
    """Where its ranks are not patient they yield, since there are more of them than processors."""

    PROGRAMS_OF = "mpi"
    OWN_REQUESTS = ("requests", "persistent")

    # vec1 is a network for the MPI's own messages, as their traffic is not what is tested here.
    def _mpirun(self, hosts, ranks):
        return ["mpirun.openmpi", "--allow-run-as-root", "--host", hosts, "-np", ranks, "--bind-to", "none",
                "--mca", "plm_rsh_agent", self.shell, "--mca", "btl_tcp_if_include", "vec1",
                "--mca", "oob_tcp_if_include", "vec1", "--mca", "mpi_yield_when_idle", "0" if self.patience else "1"]

    def _before(self, _of_hosts):
        return []


class Mpich(Launcher):
    """Its mpirun hands all its variables to all hosts, where they go before the host's own."""

    PROGRAMS_OF = "mpich"
    OWN_REQUESTS = ("requests", "nonblocking")

    def _mpirun(self, hosts, ranks):
        return ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", self.shell, "-hosts", hosts, "-iface", "vec1", "-n", ranks]

    def _before(self, of_hosts):
        if not of_hosts:
            return []
        cases = [f"{host}) export {' '.join(f'{k}={v}' for k, v in of_hosts[host].items())};;"
                 for host in self.bed.hosts if host in of_hosts]
        return ["case $(hostname) in", *cases, "esac"]
