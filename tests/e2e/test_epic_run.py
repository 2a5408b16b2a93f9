"""epic-run --hosts with programs of the host library: the examples, by a command in place of ssh and by a real sshd."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

import pytest

import harness
from epic_run import remote
from epic_testbed import procs

pytestmark = pytest.mark.endings

BED = ("tree-3-2", "--hosts", "softnic", "--fabric", "bridge")
RANKS = 4
EPIC_RUN = harness.ROOT / "scripts" / "epic-run"
INCLUDE = harness.ROOT / "commlib" / "include"
LIBRARY = harness.BUILD / "commlib"
COMPILERS = {"allreduce.cc": ("c++", "-std=c++20"), "allreduce_c.c": ("cc", "-std=c11", "-pedantic")}


@pytest.fixture(name="programs", scope="module")
def fixture_programs(tmp_path_factory):
    """The examples, as docs/HOST.md builds programs."""
    folder = tmp_path_factory.mktemp("examples")
    for source, compiler in COMPILERS.items():
        subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", harness.ROOT / "examples" / source, "-o", folder / source, "-I", INCLUDE,
                        f"-L{LIBRARY}", "-lcommlib", f"-Wl,-rpath,{LIBRARY}"], check=True)
    return folder


@pytest.fixture(name="start")
def fixture_start(beds, tmp_path):
    """start(ARGUMENT...) starts epic-run, by default with what enters a host's namespace in place of ssh."""
    bed = beds.get(*BED)
    env = {key: value for key, value in os.environ.items() if not key.startswith("EPIC_")}
    env |= {"EPIC_MANAGER": "10.255.0.1:7400", "EPIC_IFNAME": "vec0", "EPIC_SSH": str(bed.shell(tmp_path)),
            "EPIC_SOFTNIC_LIB": f"{harness.BUILD}/softnic/lib"}
    started = []

    def start(*argv, inside=()):
        started.append(subprocess.Popen([*inside, EPIC_RUN, "--devices", "vec0", *argv], env=env, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def end(process):
    output, errors = process.communicate(timeout=120)
    return process.returncode, sorted(output.splitlines()), errors


def summed(bed):
    return [harness.epic_ranks.aggregated_packets(bed.name, switch) for switch in bed.switches]


@pytest.mark.parametrize("source", COMPILERS)
def test_an_example_is_summed_by_the_switches_and_its_group_is_gone(beds, start, programs, source):
    bed = beds.get(*BED)
    before = summed(bed)
    status, lines, errors = end(start("--hosts", ",".join(bed.hosts), programs / source))
    assert (status, lines, errors) == (0, [f"[{rank}] ok: sum is {RANKS}" for rank in range(RANKS)], ""), errors
    assert all(after > then for then, after in zip(before, summed(bed)))
    bed.wait_clean()


def test_the_examples_are_short_and_the_readme_starts_them():
    readme = (harness.ROOT / "README.md").read_text(encoding="utf-8")
    for source in COMPILERS:
        assert len((harness.ROOT / "examples" / source).read_text(encoding="utf-8").splitlines()) <= 60
        assert f"examples/{source}" in readme


def test_several_ranks_on_a_host(beds, start, programs):
    bed = beds.get(*BED)
    status, lines, errors = end(start("--hosts", "h0:2,h1,h2,h3:2", programs / "allreduce.cc"))
    assert (status, lines) == (0, [f"[{rank}] ok: sum is 6" for rank in range(6)]), errors
    bed.wait_clean()


def test_a_rank_that_never_joins_ends_the_run_and_the_group(beds, start, programs):
    """The others wait for it in Init."""
    bed = beds.get(*BED)
    (programs / "wait").write_text(f"#!/bin/sh\n[ $EPIC_RANK = 3 ] || exec {programs}/allreduce.cc\n"
                                   f"until [ -e {programs}/on ]; do sleep 0.05; done\nexit 5\n")
    (programs / "wait").chmod(0o755)
    process = start("--hosts", ",".join(bed.hosts), "--group", "mine", programs / "wait")
    for rank in range(RANKS - 1):
        bed.wait_for_rank("mine", rank)
    (programs / "on").touch()
    status, _, errors = end(process)
    assert status == 5 and "epic-run: rank 3 (h3) ended with status 5; the others are ended\n" in errors
    bed.wait_clean()


@pytest.fixture(name="sshd")
def fixture_sshd(beds, tmp_path):
    """A real sshd in each host's namespace, to which root's home is another: where to start epic-run, with which ssh, and
    the hosts' addresses."""
    assert all(map(shutil.which, ("dropbear", "ssh"))), "no sshd: scripts/install-deps"
    bed = beds.get(*BED)
    key, home = tmp_path / "key", tmp_path / "home"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (home / ".ssh").mkdir(parents=True)
    for folder in (home, home / ".ssh"):
        folder.chmod(0o700)
    (home / ".ssh" / "authorized_keys").write_text((tmp_path / "key.pub").read_text())
    (tmp_path / "passwd").write_text(pathlib.Path("/etc/passwd").read_text(encoding="utf-8").replace(
        f":{pwd.getpwuid(0).pw_dir}:{pwd.getpwuid(0).pw_shell}\n", f":{home}:/bin/sh\n", 1), encoding="utf-8")
    subprocess.run(["dropbearkey", "-t", "ed25519", "-f", tmp_path / "host"], check=True, capture_output=True)
    (tmp_path / "config").write_text(f"IdentityFile {key}\nIdentitiesOnly yes\nStrictHostKeyChecking no\n"
                                     f"UserKnownHostsFile {tmp_path}/known\nLogLevel ERROR\n")
    addresses = [harness.epic_ranks.node_of(bed.name, host)["address"].replace("10.10.0.", "10.255.2.") for host in bed.hosts]
    servers = []
    for host, address in zip(bed.hosts, addresses):
        # `ip netns exec` has mounts of its own.
        servers.append(subprocess.Popen(["ip", "netns", "exec", f"epic-{bed.name}-{host}", "sh", "-c",
                                         f"mount --bind {tmp_path}/passwd /etc/passwd && exec dropbear -F -E -s -r {tmp_path}/host "
                                         f"-p {address}:22 -P {tmp_path}/{host}.pid"], stderr=subprocess.PIPE, text=True))
        while "Not backgrounding" not in (line := servers[-1].stderr.readline()):
            assert line, "dropbear (scripts/install-deps) does not start"
    inside = ["nsenter", f"--net=/run/netns/epic-{bed.name}-mgmt", "--"]
    yield inside, f"{remote.SSH} -F {tmp_path}/config", addresses
    for server in servers:
        server.terminate()
        server.communicate()


def test_an_example_by_a_real_sshd(beds, start, programs, sshd):
    inside, ssh, addresses = sshd
    status, lines, errors = end(start("--ssh", ssh, "--hosts", ",".join(addresses), programs / "allreduce_c.c", inside=inside))
    assert (status, lines, errors) == (0, [f"[{rank}] ok: sum is {RANKS}" for rank in range(RANKS)], "")
    beds.get(*BED).wait_clean()


def test_arguments_and_statuses_by_a_real_sshd(start, sshd):
    inside, ssh, addresses = sshd
    words = ["a  b", "it's", 'say "x"', "two\nlines", "$HOME", ""]
    status, lines, errors = end(start("--ssh", ssh, "--hosts", addresses[0], "/usr/bin/python3", "-c",
                                      "import sys; print(sys.argv[1:]); sys.exit(9)", *words, inside=inside))
    assert (status, lines, errors) == (9, [f"[0] {words}"], "")


@pytest.mark.parametrize("who", ["epic-run", "ssh", "both"])
def test_nothing_remains_behind_a_real_sshd_whoever_is_killed(start, sshd, who):
    inside, ssh, addresses = sshd
    process = start("--ssh", ssh, "--hosts", ",".join(addresses), "sh", "-c",
                    "trap '' INT TERM HUP; setsid sleep 1000 & echo $!; echo $$; while :; do sleep 0.05; done", inside=inside)
    ranks = [int(process.stdout.readline().split()[1]) for _ in range(2 * RANKS)]
    clients = children(process.pid)
    assert len(clients) == RANKS
    for pid in {"epic-run": [process.pid], "ssh": clients[:1], "both": [process.pid, *clients]}[who]:
        os.kill(pid, signal.SIGKILL)
    status, _, errors = end(process)
    assert status == (255 if who == "ssh" else -signal.SIGKILL), errors
    deadline = time.monotonic() + 60
    for pid in ranks:
        while procs.start_time(pid) is not None:
            assert time.monotonic() < deadline, f"{pid} is still there"
            time.sleep(0.01)


def children(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def test_a_host_that_refuses_us_is_named(start, sshd, tmp_path):
    inside, ssh, addresses = sshd
    (tmp_path / "home" / ".ssh" / "authorized_keys").write_text("")
    status, _, errors = end(start("--ssh", ssh, "--hosts", addresses[1], "true", inside=inside))
    assert status == 255 and "Permission denied" in errors and f"epic-run: {addresses[1]} cannot be reached, or lets us not in" in errors
