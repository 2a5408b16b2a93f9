"""Ports by DPDK: two switch daemons joined by a memif, and to a host each by an interface of the kernel's."""

import os
import re
import shutil
import subprocess
import time

import pytest

from switch_bed import MTU, SwitchBed, host_ip, program, run, wait_until

MODULE = os.path.join(os.path.dirname(program("EPIC_INCENGINE", "incengine")), "epic_io_dpdk.so")

needs_dpdk = pytest.mark.skipif(not os.path.exists(MODULE), reason="built without DPDK: scripts/install-deps --dpdk")


class JoinedSwitches(SwitchBed):
    """Switch i has host i at its port pI, and the other switch at its port "up"; switch 0 listens."""

    def __init__(self):
        super().__init__(2)
        self.path = os.path.join(self.directory.name, "memif.sock")
        self.switches = [None, None]

    def argv(self, number, *arguments):
        role = ("server", "client")[number]
        return [program("EPIC_INCENGINE", "incengine"), "--name", f"s{number}", "--address", f"10.9.255.{number + 1}",
                "--control", os.path.join(self.directory.name, f"control{number}"), "--port", f"p{number}", "--io", "dpdk",
                "--port", f"up=net_memif0,role={role},socket={self.path}", *arguments]

    def start_switch(self, number, *arguments):
        with open(self.log_of(number), "ab") as log:
            process = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.prefix}sw", "--", *self.argv(number, *arguments)],
                                       stdout=log, stderr=log)
        self.switches[number] = process
        self.others.append(process)
        wait_until(lambda: process.poll() is not None or " control on " in self.said(number), what="the switch runs")
        assert process.poll() is None, self.said(number)

    def log_of(self, number):
        return os.path.join(self.directory.name, f"log{number}")

    def said(self, number):
        with open(self.log_of(number), encoding="utf-8") as file:
            return file.read()

    def times_said(self, number, text):
        return self.said(number).count(text)

    def start_both(self, *arguments):
        self.start_switch(0, *arguments)
        self.start_switch(1, *arguments)
        wait_until(lambda: self.ping(0, host_ip(1), check=False), what="hosts reach each other over the memif")


@pytest.fixture(name="bed", scope="module")
def joined_bed():
    with JoinedSwitches() as bed:
        bed.start_both()
        yield bed


@needs_dpdk
@pytest.mark.slow
def test_hosts_reach_each_other_with_frames_of_full_mtu(bed):
    assert bed.ping(0, host_ip(1), "-M", "do", "-s", str(MTU - 28))
    assert bed.ping(1, host_ip(0), "-M", "do", "-s", str(MTU - 28))
    assert bed.ping(0, "10.9.255.2")  # the other switch itself


@needs_dpdk
@pytest.mark.slow
def test_idle_switches_take_less_than_a_fiftieth_of_a_core(bed):
    def ticks():
        total = 0
        for process in bed.switches:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total
    before, begin = ticks(), time.monotonic()
    time.sleep(5)
    share = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin) / len(bed.switches)
    print(f"an idle switch takes {share:.2%} of a core")
    assert share < 0.02


# Which of the two dies: the one that listens, or the one that has connected.
@needs_dpdk
@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1], ids=["server", "client"])
def test_a_peer_that_is_killed_is_seen_within_two_seconds_and_comes_back(bed, dies):
    stays = 1 - dies
    lost = ("port up is down", "port up is lost")[stays]  # a client opens its port anew
    before = bed.times_said(stays, lost)
    # Something is on its way all the time.
    stream = bed.inside_in_background(f"h{stays}", ["ping", "-q", "-f", host_ip(dies)])
    try:
        bed.switches[dies].kill()
        bed.switches[dies].wait()
        begin = time.monotonic()
        wait_until(lambda: bed.times_said(stays, lost) > before, what=f"the other says: {lost}")
        seconds = time.monotonic() - begin
        print(f"seen after {seconds:.2f} s")
        assert seconds < 2
        os.truncate(bed.log_of(dies), 0)
        bed.start_switch(dies)
        wait_until(lambda: bed.ping(0, host_ip(1), check=False), what="hosts reach each other again")
    finally:
        stream.kill()
    assert bed.switches[stays].poll() is None, bed.said(stays)


@needs_dpdk
@pytest.mark.slow
@pytest.mark.parametrize("change, says", [
    ({"--dpdk-args": "--no-such-thing"}, "ports by DPDK: it does not start with .*--no-such-thing"),
    ({"--port": "up=net_memif0,socket=/no/such/folder/s"}, "port up: /no/such/folder/s: there is no directory"),
    ({"--port": "up=0000:ff:1f.7"}, "port up: there is no PCI device 0000:ff:1f.7"),
    ({"--port": "up=net_memif0,socket=/tmp/s,bsize=1"}, "port up: device .*: bsize follows from --dpdk-mtu"),
    ({"--port": "up=net_xyzzy0"}, "port up: net_xyzzy0: .*"),
    ({"--cores": "2"}, "--cores: ports by DPDK have one core so far"),
], ids=["eal", "folder", "pci", "bsize", "driver", "cores"])
def test_what_is_wrong_is_said_in_one_line(bed, change, says):
    argv = bed.argv(0)[:-2]
    argv[argv.index("--control") + 1] += "x"
    argv += ["--port", f"up=net_memif0,socket={bed.path}x"] if "--port" not in change else []
    for option, value in change.items():
        argv += [f"{option}={value}"]
    done = bed.inside("sw", argv, check=False)
    lines = [line for line in done.stderr.splitlines() if "[info]" not in line]
    assert done.returncode == 2 and len(lines) == 1 and re.search(says, lines[0]), done.stderr
    assert not done.stdout


@pytest.mark.parametrize("module, says", [
    (None, "there is no epic_io_dpdk.so here: it is built where libdpdk-dev is installed"),
    (b"", "epic_io_dpdk.so: file too short; apt install dpdk"),
], ids=["none", "not loaded"])
def test_without_the_module_the_package_is_named(tmp_path, module, says):
    shutil.copy(program("EPIC_INCENGINE", "incengine"), tmp_path)
    if module is not None:
        (tmp_path / "epic_io_dpdk.so").write_bytes(module)
    done = run([tmp_path / "incengine", "--name", "s", "--address", "10.9.255.1", "--control", tmp_path / "c",
                "--io", "dpdk", "--port", "up=net_memif0,socket=/tmp/s"], check=False)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_device_takes_io_dpdk():
    done = run([program("EPIC_INCENGINE", "incengine"), "--name", "s", "--address", "10.9.255.1", "--control", "/tmp/c",
                "--port", "up=net_memif0,socket=/tmp/s"], check=False)
    assert done.returncode == 2 and "takes --io dpdk" in done.stderr
