"""Runs one program on every host of a test bed at the same time, one rank each. Used by scripts/demo and tests/e2e."""
import contextlib
import json
import os
import pathlib
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where the binaries are; tests of another build set the variable.
BUILD = ROOT / os.environ.get("EPIC_TEST_BUILD", "build/release")
TESTBED = ROOT / "scripts" / "testbed"


class RankResult:
    """What one rank's program did: exit status (124 after a timeout) and its output, stderr included."""

    def __init__(self):
        self.status = None
        self.output = ""


def testbed(*args, check=True, timeout=300):
    """Runs scripts/testbed and returns the finished process, its output captured as text. Ends as it does where this one is
    interrupted: an `up` then takes down what it has made."""
    with subprocess.Popen([str(TESTBED), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.terminate()
            process.communicate()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check and done.returncode != 0:
        raise RuntimeError(f"testbed {' '.join(map(str, args))} failed:\n{done.stdout}{done.stderr}")
    return done


def _topology(bed):
    import yaml  # pylint: disable=import-outside-toplevel
    return yaml.safe_load(pathlib.Path(f"/run/epic/{bed}/topology.yaml").read_text(encoding="utf-8"))


def _names(bed, kind):
    return [node["name"] for node in _topology(bed)[kind]]


def node_of(bed, name):
    """A host or switch as the topology of a test bed that is up states it: {"name", "address", "mac"}."""
    topology = _topology(bed)
    return next(node for node in topology["hosts"] + topology["switches"] if node["name"] == name)


def hosts_of(bed):
    """Names of the hosts of a test bed that is up, in rank order."""
    return _names(bed, "hosts")


def kinds_of(bed):
    """{host: "softnic", "rxe" or "none"}."""
    record = json.loads(pathlib.Path(f"/run/epic/{bed}/record.json").read_text(encoding="utf-8"))
    return {host["name"]: host["kind"] for host in record["hosts"]}


def switches_of(bed):
    """Names of its switches."""
    return _names(bed, "switches")


def start_rank(bed, host, argv, timeout, on_line=None):
    """Starts argv on a host; returns (thread, RankResult). on_line gets each line of output as it comes."""
    result = RankResult()

    def run():
        command = [str(TESTBED), "exec", "--name", bed, "--timeout", str(timeout), host, "--", *map(str, argv)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace") as process:
            for line in process.stdout:
                result.output += line
                if on_line:
                    on_line(line)
            result.status = process.wait()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, result


def run_ranks(bed, hosts, argv_of_rank, timeout, on_line=None):
    """Runs argv_of_rank(r) as rank r on hosts[r], all at once; on_line sees rank 0's output. Returns RankResults."""
    started = [start_rank(bed, host, argv_of_rank(rank), timeout, on_line if rank == 0 else None)
               for rank, host in enumerate(hosts)]
    for thread, _ in started:
        thread.join()
    return [result for _, result in started]


class Asker:
    """incmanager's command line in the management namespace of a bed, loaded once for many questions: ask() is as to start it, and
    takes a quarter of that. Threads ask one after the other."""

    # Built for tests alone.
    PROGRAM = BUILD / "tests" / "e2e" / "manager_asked"

    def __init__(self, bed):
        self._argv = [*in_management(bed), self.PROGRAM]
        self._turn = threading.Lock()
        self._begin()

    def _begin(self):
        self._process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # pylint: disable=consider-using-with

    def ask(self, args, timeout_s):
        """The finished process of `incmanager ARGS`."""
        with self._turn:
            alarm = threading.Timer(timeout_s, self._process.kill)
            alarm.start()
            try:
                self._process.stdin.write("".join(f"{word}\x1f" for word in args).encode() + b"\n")
                self._process.stdin.flush()
                head = self._process.stdout.readline().split()
                texts = [self._process.stdout.read(int(size)).decode() for size in head[1:]]
            finally:
                alarm.cancel()
            if len(texts) != 2:  # it has been killed, or has ended; the next question is another process'
                self._process.wait()
                self.close()
                self._begin()
        if len(texts) != 2:
            raise RuntimeError(f"incmanager {' '.join(args)}: no answer within {timeout_s} s")
        return subprocess.CompletedProcess(args, int(head[0]), *texts)

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


askers = {}  # by bed, of those who ask often


def in_management(bed):
    """What runs a command in the management namespace. Not `testbed exec`, which takes three times as long as an answer."""
    return ["nsenter", f"--net=/run/netns/epic-{bed}-mgmt", "--"]


def run_manager(bed, *args, timeout_s=60):
    """Runs the incmanager CLI in the management namespace, at that bed's manager; returns the finished process."""
    args = [*map(str, args), "--manager", "10.255.0.1:7400"]
    if bed in askers and not any("\n" in word for word in args):
        return askers[bed].ask(args, timeout_s)
    argv = [*in_management(bed), BUILD / "incmanager" / "incmanager", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)


def manager(bed, *args, check=True):
    """Runs the incmanager CLI in the management namespace with --json; returns the parsed answer (None if empty)."""
    done = run_manager(bed, *args, "--json")
    if check and done.returncode != 0:
        raise RuntimeError(f"incmanager {' '.join(args)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout) if done.stdout.strip() else None


def aggregated_packets(bed, switch):
    """Contributions that a switch has summed since it started, over all its groups, removed ones included."""
    counters = manager(bed, "tables", switch).get("counters", [])
    return sum(int(c.get("value", 0)) for c in counters if c["name"] == "aggregated_packets")
