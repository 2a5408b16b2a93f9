"""softnic on devices that the kernel does not know: two hosts, each with a memif to a switch (docs/DPDK.md, "Hosts")."""

import os
import re
import shutil

import pytest

import pair as pairs
from perftest import ATOMIC, BW, LAT, PATIENCE, run_perftest

ENGINE = pairs.BUILD / "incengine" / "incengine"
MODULE = pairs.BUILD / "incengine" / "epic_io_dpdk.so"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MODULE.exists(), reason="built without DPDK: scripts/install-deps --dpdk")]


class MemifPair(pairs.Pair):
    """Its programs have the device rdma0; what they tell each other by TCP goes by eth0, as in other pairs."""

    def __init__(self):
        super().__init__()
        self.begin_switch()

    def socket(self, host):
        return os.path.join(self._directory.name, f"{host}.sock")

    def device(self, host, words=""):
        return f"rdma0=memif:{self.socket(host)},ip=10.9.0.{'ab'.index(host) + 1}/24{words}"

    def start(self, host, *argv):
        own = [] if "--devices" in argv else ["--devices", self.device(host)]
        return super().start(host, *own, *argv)

    def begin_switch(self):
        ports = [word for number, host in enumerate("ab") for word in ("--port", f"p{number}=net_memif{number},socket={self.socket(host)}")]
        argv = ["ip", "netns", "exec", self.namespace("a"), ENGINE, "--name", "s", "--address", "10.9.0.254", "--io", "dpdk",
                "--control", os.path.join(self._directory.name, "control"), *ports]
        self.switch = pairs.Program(argv, self._directory.name)
        self.switch.wait_for_line(" control on ")

    def close(self):
        print(self.switch.output)  # pytest shows it behind a failure
        self.switch.kill()
        super().close()


@pytest.fixture(name="all_pair", scope="module")
def fixture_all_pair():
    yield from pairs.closed_at_the_end(MemifPair())


@pytest.mark.parametrize("program", [*BW, *LAT, *ATOMIC])
def test_perftest(pair, program):
    run_perftest(pair, program, 8 if program in ATOMIC else 65536 if program in BW else 2, *PATIENCE)


def test_datagrams(pair):
    run_perftest(pair, "ib_send_bw", 2048, "-c", "UD")


def test_what_the_port_is(pair):
    said = pair.run("a", "ibv_devinfo", "-v")
    for line in (r"hca_id:\s*rdma0", r"state:\s*PORT_ACTIVE", r"active_mtu:\s*4096", r"GID\[ *1\]:\s*::ffff:10.9.0.1, RoCE v2",
                 r"node_guid:\s*00e1:0aff:fe09:0001"):
        assert re.search(line, said), f"{line} is not in\n{said}"


def test_no_right_is_needed_but_to_the_socket(pair):
    for path in (pair._directory.name, pair.socket("a")):  # pylint: disable=protected-access
        os.chmod(path, 0o777)
    said = pair.run("a", "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "ibv_devinfo")
    assert "PORT_ACTIVE" in said


def test_a_switch_that_dies_is_a_link_that_goes_down(pair):
    program = pair.start("a", "ibv_asyncwatch")
    program.wait_for_line("async event FD")
    pair.switch.kill()
    program.wait_for_line("IBV_EVENT_PORT_ERR")
    assert "IBV_EVENT_PORT_ACTIVE" not in program.output
    pair.begin_switch()
    program.wait_for_line("IBV_EVENT_PORT_ACTIVE")
    program.kill()
    run_perftest(pair, "ib_write_bw", 4096)


def test_without_a_switch_the_port_is_down(pair):
    said = pair.run("a", "--devices", f"rdma0=memif:{pair.socket('a')}x,ip=10.9.0.1/24", "ibv_devinfo")
    assert "PORT_DOWN" in said


@pytest.mark.parametrize("devices, why", [
    ("rdma0=memif:{socket}", "it needs ip=ADDRESS/BITS behind it"),
    ("rdma0=memif:{socket},ip=10.9.0/24", "ip is ADDRESS/BITS, as 10.0.0.7/16"),
    ("rdma0=pci:0000:ff:1f.7,ip=10.9.0.1/24", "rdma0"),
    ("rdma0=memif:/no/such/folder/at/all/s,role=server,ip=10.9.0.1/24", "/no/such/folder/at/all")])
def test_what_is_wrong_with_a_device_is_said(pair, devices, why):
    program = pair.start("a", "--devices", devices.format(socket=pair.socket("a")), "ibv_devinfo")
    program.process.wait(30)
    assert program.process.returncode != 0 or "No IB devices" in program.output
    assert "softnic: " in program.output and why in program.output, program.output


def test_what_dpdk_is_missing_is_said(pair, tmp_path):
    folder = tmp_path / "softnic" / "lib"
    shutil.copytree(pairs.BUILD / "softnic" / "lib", folder, symlinks=True)
    program = pair.start("a", "env", f"LD_LIBRARY_PATH={folder}", "ibv_devinfo")
    program.process.wait(30)
    assert "there is no epic_io_dpdk.so here" in program.output and "libdpdk-dev" in program.output
