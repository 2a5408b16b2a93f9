"""What bench/compare measures side by side: EPIC by each path, what a user would take instead of it, and MPI on EPIC.

A system runs on a test bed that is up, over the bed's first RANKS hosts, and times one collective at several sizes. What the
timed calls put on the hosts' links is counted; less than they must (volume.py) is an error, and no figure.
"""
import dataclasses
import json
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

# pylint: disable=wrong-import-position
import epic_ranks  # noqa: E402
import modes  # noqa: E402
import volume  # noqa: E402
from epic_testbed import net  # noqa: E402
from epic_testbed.bed import MANAGER  # noqa: E402

RANKS = 4
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ROOT / "build" / "comparison"
PERF = epic_ranks.BUILD / "bench" / "epic-perf"
TIMEOUT_S = 300
CONGESTION = "cubic"
DEVICE = "vec0"  # of every host, its link to its switch
LACKING_ARGUMENT = "--operations=sum,min,max"
COLLECTIVES = ("allreduce", "reduce", "broadcast", "reducescatter", "allgather", "barrier")


class Failed(Exception):
    """A system did not do what it was asked; the message is its own."""


def build_programs(names=("openmpi", "mpich", "gloo")):
    """The same benchmark for both MPIs and for Gloo."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    for name, compiler, source, libraries in (("openmpi", "mpicc.openmpi", "mpi_calls.c", []),
                                              ("mpich", "mpicc.mpich", "mpi_calls.c", []),
                                              ("gloo", "g++", "gloo_calls.cc", ["-lgloo"])):
        if name not in names:
            continue
        # However long a busy machine takes for it.
        done = subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-iquote", ROOT, "-o", PROGRAMS / name, HERE / source, *libraries],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{source} is not compiled for {name}:\n{done.stdout}")


class Bed:
    """A test bed of one shape. kind is "switches" (our daemons, hosts on softnic or rdma_rxe), "lacking" (the same, with
    switches that cannot multiply) or "bridges" (a Linux bridge in each switch, plain hosts with the offloads that a veth has
    by itself). rate: of every link, as `testbed up` takes it; without one it is what the processors make of it. single_frames:
    links between our daemons carry no super-frames. Ranks run on the first hosts."""

    def __init__(self, shape, kind, hosts="softnic", rate=None, prefix="cmp", ranks=RANKS, single_frames=False):
        self.name = f"{prefix}{kind[0]}{shape.replace('-', '')}"
        self.kind = kind
        options = ("--bridge", "--hosts", "none") if kind == "bridges" else ("--hosts", hosts, "--build", epic_ranks.BUILD)
        options += (f"--engine-arg={LACKING_ARGUMENT}",) if kind == "lacking" else ()
        options += ("--rate", rate) if rate else ()
        options += ("--single-frames",) if single_frames and kind != "bridges" else ()
        epic_ranks.testbed("up", shape, "--name", self.name, *options)
        self.hosts = epic_ranks.hosts_of(self.name)[:ranks]
        self.addresses = [epic_ranks.node_of(self.name, host)["address"] for host in self.hosts]
        if kind == "bridges":
            net.set_offloads(f"epic-{self.name}-", "tx on tso on gso on")
        if rate:
            # Of the kernel's algorithms that which fills such a link best, whatever the machine's own is: EPIC is to gain
            # nothing from one that does not.
            for host, address in zip(self.hosts, self.addresses):
                net.batch([f"route change 10.10.0.0/16 dev {DEVICE} proto kernel scope link src {address} congctl {CONGESTION}"],
                          self.namespace(host))

    def namespace(self, host):
        return f"epic-{self.name}-{host}"

    def down(self):
        epic_ranks.testbed("down", "--name", self.name, check=False)


def _json_lines(text):
    return {row["size"]: row for row in map(json.loads, filter(lambda l: l.startswith("{"), text.splitlines()))}


def _run(argv, what):
    """What a command printed, and what on standard error. In a session of its own, which ends with it: a launcher's ranks
    would outlive it."""
    with subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"{what}: not done after {TIMEOUT_S} s") from error
            raise
    if process.returncode != 0:
        raise Failed(f"{what}: exit status {process.returncode}\n{out}{err}")
    return out, err


def _told(output):
    """What epic-perf says in JSON, behind lines that the library writes about ways."""
    return json.loads(output[re.search(r"^\{", output, re.MULTILINE).start():output.rindex("}") + 1])


@dataclasses.dataclass
class Measured:
    """A call: `us` on the slowest rank, and a volume.Bytes of each host's link, or None where no calls were made."""
    us: float
    link: volume.Bytes | None = None


class System:
    """`in_network`: its switches compute and copy, so that less has to cross the hosts' links."""
    in_network = False

    def __init__(self, name, bed_kind):
        self.name, self.bed_kind = name, bed_kind

    def can(self, _collective):
        return True

    def carried(self, size):
        """Bytes that so many of the caller's are on links, at least."""
        return size

    def measure(self, bed, collective, sizes):
        """{size: Measured} for {size: iterations}; Failed, too, if one of the sizes has not been on the links."""
        rows = self._rows(bed, collective, sizes)
        measured = {}
        for size, calls in sizes.items():
            row = rows[size]
            link = volume.Bytes(row["sent_bytes"], row["received_bytes"])
            bound = volume.least(collective, self.carried(size), volume.ranks_of(bed.hosts), self.in_network)
            if short := volume.shortfall(link, calls, bound):
                raise Failed(f"{self.name}, {collective}, {size} bytes: not over the hosts' links: {short}")
            measured[size] = Measured(row["time_us"], link.of_a_call(calls))
        return measured

    def time(self, bed, collective, sizes):
        """{size: microseconds of a call}, of `measure`."""
        return {size: measured.us for size, measured in self.measure(bed, collective, sizes).items()}

    def _rows(self, bed, collective, sizes):
        """{size: {"time_us", "sent_bytes", "received_bytes"}}: a call's time, and by rank the bytes of all timed calls."""
        raise NotImplementedError


class Epic(System):
    """epic-perf by one path: options of it that say which. Every size is verified once."""
    groups = 0

    def __init__(self, name, *path):
        super().__init__(f"EPIC {name}", "switches")
        self.path, self.in_network = path, "hosts" not in path or "multicast" in path

    def can(self, collective):
        return "multicast" not in self.path or collective in ("broadcast", "allgather")

    def _rows(self, bed, collective, sizes):
        """All sizes in one run, as with the others."""
        Epic.groups += 1
        # An element is four bytes.
        calls = ",".join(f"{max(size, 4)}:{n}" for size, n in sizes.items())
        results = epic_ranks.run_ranks(
            bed.name, bed.hosts,
            lambda rank: [PERF, "--group", f"compare{Epic.groups}", "--rank", rank, "--size", len(bed.hosts), *self.path,
                          "--collective", collective, "--calls", calls, "--count-bytes", DEVICE, "--json"],
            TIMEOUT_S)
        if any(result.status != 0 for result in results):
            raise Failed(f"{self.name}, {collective}: "
                         + "\n".join(result.output for result in results if result.status != 0))
        rows = self._results(collective, results[0].output)
        return {size: row["out_of_place"] for size, row in zip(sizes, rows, strict=True)}

    def _results(self, _collective, output):
        return _told(output)["results"]


class EpicInt8(Epic):
    """Sums of FP32 as blocks of INT8."""

    def __init__(self, name, *path):
        super().__init__(f"{name}, INT8", *path, "--quantise", "int8", "--datatype", "float")

    def can(self, collective):
        return collective in ("allreduce", "reduce", "reducescatter")

    def carried(self, size):
        """Small calls are as they are, but carry no more than these."""
        return size // 4


class Lacking(Epic):
    """Products in a group with switches that cannot multiply: the group has its tree, and these calls go between the hosts."""

    def __init__(self, name):
        super().__init__(name, "--path", "auto", "--op", "prod")
        self.bed_kind, self.in_network = "lacking", False

    def can(self, collective):
        return collective in ("allreduce", "reduce", "reducescatter")

    def _results(self, collective, output):
        told = _told(output)
        for row in told["results"]:
            why = row.get("path_reason", "")
            if row["path"] != "hosts" or "operation product is not in" not in why:
                raise Failed(f"{self.name}, {collective}: by the {row['path']}, {why or 'without a reason'}")
        return told["results"]


class Link(System):
    """The least time that a collective between the hosts can take: what must cross each host's link, at the rate that
    ib_send_bw has between neighbours of the ring, in super-frames as the library's own; a pair alone, or all of them at
    once, as the ring needs it."""
    MESSAGE, MESSAGES = 65536, 2000
    PORT = 18800
    # Of a call's size, what each link carries in one direction.
    CARRIES = {"allreduce": 2 * (RANKS - 1) / RANKS, "reduce": 1, "broadcast": 1,
               "reducescatter": (RANKS - 1) / RANKS, "allgather": (RANKS - 1) / RANKS}

    def __init__(self, name, pairs):
        super().__init__(name, "switches")
        self.pairs = pairs

    def can(self, collective):
        return collective in self.CARRIES

    def measure(self, bed, collective, sizes):
        rate = self._rate(bed)  # bytes per microsecond
        return {size: Measured(size * self.CARRIES[collective] / rate) for size in sizes}

    def _rate(self, bed):
        """The mean of the pairs' rates while all run, in MB/s."""
        peers = ",".join(bed.addresses)
        # By events: ends that spin while they wait take the processors from those that carry their packets.
        argv = ["env", f"EPIC_SOFTNIC_SUPER_FRAMES={peers}", "ib_send_bw", "-F", "-e", "-x", "1", "-s", self.MESSAGE,
                "-n", self.MESSAGES, "-p"]
        ends = []  # (thread, result) of servers, then of clients
        for pair in range(self.pairs):
            ends.append(epic_ranks.start_rank(bed.name, bed.hosts[(pair + 1) % RANKS], [*argv, self.PORT + pair], TIMEOUT_S))
        for pair in range(self.pairs):
            self._await_server(bed, pair)
        for pair in range(self.pairs):
            server = bed.addresses[(pair + 1) % RANKS]
            ends.append(epic_ranks.start_rank(bed.name, bed.hosts[pair], [*argv, self.PORT + pair, server], TIMEOUT_S))
        for thread, _ in ends:
            thread.join()
        rates = [self._rate_in(result.output) for _, result in ends[self.pairs:]]
        if any(result.status != 0 for _, result in ends) or None in rates:
            raise Failed(f"{self.name}: " + "\n".join(result.output for _, result in ends))
        return statistics.mean(rates)

    def _await_server(self, bed, pair):
        argv = ["ip", "netns", "exec", bed.namespace(bed.hosts[(pair + 1) % RANKS]), "ss", "-ltnH"]
        deadline = time.monotonic() + 20
        while f":{self.PORT + pair} " not in net.run(argv):
            if time.monotonic() > deadline:
                raise Failed(f"{self.name}: ib_send_bw does not listen")
            time.sleep(0.1)

    def _rate_in(self, output):
        """The average of the row of an output: bytes, iterations, peak, average in MB/s (2^20), messages."""
        rows = [line.split() for line in output.splitlines() if line.split()[:1] == [str(self.MESSAGE)]]
        rate = float(rows[-1][3]) * (1 << 20) / 1e6 if rows and len(rows[-1]) == 5 else 0
        return rate if math.isfinite(rate) and rate > 0 else None


class Mpi(System):
    """OpenMPI or MPICH over TCP. Both start their ranks by a remote shell, which is a namespace here."""
    # Namespaces share the machine's memory, which UCX, through which MPICH speaks, prefers to any network.
    UCX = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": DEVICE, "UCX_MODULES": "^ib,rdmacm"}

    def __init__(self, name, program, bed_kind):
        super().__init__(name, bed_kind)
        self.program = program

    def _rows(self, bed, collective, sizes):
        with tempfile.TemporaryDirectory() as folder:
            shell = os.path.join(folder, "shell")
            with open(shell, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n# The remote shell of one run: [OPTION...] HOST COMMAND; the environment goes along.\n"
                           f"while [ ! -e /run/epic/{bed.name}/uts/$1 ]; do shift; done\nhost=$1; shift\n"
                           f'exec ip netns exec "{bed.namespace("$host")}" nsenter --uts="/run/epic/{bed.name}/uts/$host" sh -c "$*"\n')
            os.chmod(shell, 0o700)
            calls = [PROGRAMS / self.program, DEVICE, collective, *(f"{size}:{n}" for size, n in sizes.items())]
            out, err = _run([shell, bed.hosts[0], *self._before(), *self._launcher(shell, bed), *map(str, calls)],
                            f"{self.name}, {collective}")
        self._check(collective, out, err)
        return _json_lines(out)

    def _before(self):
        """What mpirun's command begins with."""
        return ["env", *(f"{name}={value}" for name, value in self.UCX.items())] if self.program == "mpich" else []

    def _check(self, collective, out, err):
        """Raises Failed if something else was measured than this system."""

    def _launcher(self, shell, bed):
        hosts = ",".join(bed.hosts)
        if self.program == "mpich":
            return ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", shell, "-hosts", hosts, "-iface", DEVICE, "-n", str(RANKS)]
        # Yielding while it waits: with more ranks than processors OpenMPI's spinning starves who could end it.
        return ["mpirun.openmpi", "--allow-run-as-root", "--host", hosts, "-np", str(RANKS), "--bind-to", "none",
                "--mca", "plm_rsh_agent", shell, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "pml", "ob1",
                "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", DEVICE, "--mca", "oob_tcp_if_include", DEVICE,
                "--mca", "mpi_yield_when_idle", "1"]


class MpiOnEpic(Mpi):
    """The same programs, with EPIC under their collectives, by the switches."""
    in_network = True
    FUNCTIONS = {"allreduce": "Allreduce", "reduce": "Reduce", "broadcast": "Bcast", "reducescatter": "Reduce_scatter_block",
                 "allgather": "Allgather", "barrier": "Barrier"}

    def _before(self):
        return [*super()._before(), "env", f"EPIC_MANAGER={MANAGER}", f"EPIC_IFNAME={DEVICE}", "EPIC_PATH=network", "EPIC_MPI_REPORT=1",
                "EPIC_MPI_FROM_CALL=1",
                f"EPIC_BUILD={epic_ranks.BUILD}", str(ROOT / "scripts" / "epic-run"), "--mpi"]

    def _check(self, collective, out, err):
        ways = re.findall(rf"^EPIC: MPI_{self.FUNCTIONS[collective]}: .*: (.*)$", out + err, re.M)
        if ways != ["by EPIC, through the switches"]:
            raise Failed(f"{self.name}, {collective}: not all calls went through the switches\n{out}{err}")


class Gloo(System):
    """Gloo over TCP; its AllReduce is a ring. It has no ReduceScatter."""

    def __init__(self):
        super().__init__("Gloo, bridges", "bridges")

    def can(self, collective):
        return collective != "reducescatter"

    def _rows(self, bed, collective, sizes):
        with tempfile.TemporaryDirectory() as store:
            calls = [DEVICE, collective, *(f"{size}:{n}" for size, n in sizes.items())]
            ranks = [subprocess.Popen(["ip", "netns", "exec", bed.namespace(host), str(PROGRAMS / "gloo"), str(rank),
                                       str(RANKS), bed.addresses[rank], store, *calls],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                     for rank, host in enumerate(bed.hosts)]
            try:
                said = [rank.communicate(timeout=TIMEOUT_S)[0] for rank in ranks]
            except subprocess.TimeoutExpired as error:
                raise Failed(f"{self.name}, {collective}: not done after {TIMEOUT_S} s") from error
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.wait()
        if any(rank.returncode != 0 for rank in ranks):
            raise Failed(f"{self.name}, {collective}: " + "".join(said))
        return _json_lines(said[0])


SYSTEMS = {
    **{f"epic{mode}": Epic(f"mode {modes.numeral(mode)}", "--path", "network", "--mode", mode) for mode in modes.NUMBERS},
    **{f"epic{mode}-int8": EpicInt8(f"mode {modes.numeral(mode)}", "--path", "network", "--mode", mode) for mode in modes.OWN_LOGIC},
    "hosts-int8": EpicInt8("between hosts", "--path", "hosts"),
    "auto": Epic("by the path that auto takes", "--path", "auto"),
    "hosts": Epic("between hosts", "--path", "hosts"),
    "hosts-ring": Epic("between hosts, ring", "--path", "hosts", "--algorithm", "ring"),
    "hosts-ring-registered": Epic("between hosts, ring, registered", "--path", "hosts", "--algorithm", "ring", "-R", "1"),
    "hosts-doubling": Epic("between hosts, doubling", "--path", "hosts", "--algorithm", "doubling"),
    "multicast": Epic("by multicast", "--path", "hosts", "--algorithm", "multicast"),
    "hosts-lacking": Lacking("between hosts, for want of an operation"),
    "link": Link("bound by a pair's link", 1),
    "links": Link("bound by all links at once", RANKS),
    "openmpi": Mpi("OpenMPI, bridges", "openmpi", "bridges"),
    "openmpi-switches": Mpi("OpenMPI, our switches", "openmpi", "switches"),
    "openmpi-epic": MpiOnEpic("OpenMPI on EPIC", "openmpi", "switches"),
    "mpich": Mpi("MPICH, bridges", "mpich", "bridges"),
    "mpich-epic": MpiOnEpic("MPICH on EPIC", "mpich", "switches"),
    "gloo": Gloo(),
}
# An MPI on EPIC, and the same without.
ON_EPIC = {"openmpi-epic": "openmpi", "mpich-epic": "mpich"}
# What is measured unless one says otherwise: each path, and hosts choose between their algorithms by themselves.
USUAL = tuple(name for name in SYSTEMS if name != "auto" and not name.startswith("hosts-")
              and not name.endswith("-int8") and name not in ON_EPIC)
