"""Unmodified Debian programs over softnic, between two namespaces and within one. Needs root, and no kernel module.

What is marked slow as a product is in the default run as a cover (test_covers.py).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import covers
import pair as pairs
from perftest import ATOMIC, BW, LAT, PATIENCE, PERFTEST, result, run_perftest


def test_devices_are_listed(pair):
    assert re.search(rf"^ +{pairs.DEVICE}\s+[0-9a-f]{{16}}$", pair.run("a", "ibv_devices"), re.M)
    said = pair.run("a", "ibv_devinfo", "-v")
    for line in (rf"hca_id:\s*{pairs.DEVICE}", r"state:\s*PORT_ACTIVE", r"active_mtu:\s*4096", r"link_layer:\s*Ethernet",
                 r"GID\[ *1\]:\s*::ffff:10.8.0.1, RoCE v2", r"transport:\s*InfiniBand"):
        assert re.search(line, said), f"{line} is not in\n{said}"


def test_devices_are_named_by_configuration(pair):
    said = pair.run("a", "--devices", "rdma7=eth0,lo", "ibv_devices")
    assert "rdma7" in said and "softnic_lo" in said and pairs.DEVICE not in said
    assert "softnic_lo" not in pair.run("a", "ibv_devices"), "the loopback interface has to be asked for"
    said = pair.run("a", "--devices", "nosuch,eth0", "ibv_devinfo")
    assert said.count("nosuch is no interface that is up and has an IPv4 address") == 1 and pairs.DEVICE in said, said


def test_the_path_mtu_is_the_largest_that_the_interface_holds(pair):
    """With 80 bytes of headers."""
    def set_mtu(mtu):
        pairs.net.run(["ip", "-n", pair.namespace("a"), "link", "set", "eth0", "mtu", str(mtu)])

    try:
        for mtu, path_mtu in ((4176, 4096), (4175, 2048), (1500, 1024), (592, 512), (591, 256)):
            set_mtu(mtu)
            assert re.search(rf"active_mtu:\s*{path_mtu} ", pair.run("a", "ibv_devinfo")), mtu
    finally:
        set_mtu(pairs.MTU)


OPENS = """
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  if (devices == NULL || devices[0] == NULL) return 1;
  printf("%s %s\\n", ibv_get_device_name(devices[0]), ibv_open_device(devices[0]) != NULL ? "opened" : "not opened");
}
"""
NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
AMBIENT = ("--inh-caps=+net_raw", "--ambient-caps=+net_raw")


def as_nobody(pair, *argv):
    """What a command of a user without rights says in the first namespace."""
    return subprocess.run(["ip", "netns", "exec", pair.namespace("a"), *NOBODY, *argv], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=30).stdout


def test_a_user_without_root_has_softnic_by_an_ambient_capability(pair):
    """From root, or from a starter that root has made; not by setcap on the program, unless it knows softnic's folder by itself."""
    page = (pairs.ROOT / "docs" / "SOFTNIC.md").read_text(encoding="utf-8")
    for words in " ".join((*AMBIENT, "epic-run ibv_devices")), "setcap cap_net_raw+ep /opt/epic/bin/with-net-raw":
        assert words in page, words
    # Where nobody may look, as this tree need not be.
    with tempfile.TemporaryDirectory(prefix="softnic-rights-") as folder:
        os.chmod(folder, 0o755)
        shutil.copy(pairs.BUILD / "softnic" / "lib" / "libibverbs.so.1", folder)
        epic_run, starter, program = (os.path.join(folder, name) for name in ("epic-run", "with-net-raw", "program"))
        by_epic_run = ("env", f"EPIC_SOFTNIC_LIB={folder}", epic_run)
        for path, source in (epic_run, pairs.EPIC_RUN), (starter, "/usr/bin/setpriv"), (program, "/usr/bin/ibv_devices"):
            shutil.copy(source, path)
        subprocess.run(["setcap", "cap_net_raw+ep", starter, "cap_net_raw+ep", program], check=True)
        said = subprocess.run(["ip", "netns", "exec", pair.namespace("a"), *NOBODY, *AMBIENT, *by_epic_run, "ibv_devices"],
                              capture_output=True, text=True, check=True).stdout
        assert pairs.DEVICE in said, said
        said = as_nobody(pair, starter, *AMBIENT, *by_epic_run, "ibv_devices")
        assert pairs.DEVICE in said, said
        said = as_nobody(pair, *by_epic_run, program)
        assert pairs.DEVICE not in said and f"epic-run: {program} has file capabilities" in said, said
        assert "file capabilities" not in pair.run("a", program), "root's own programs find softnic"
        source = os.path.join(folder, "opens.c")
        pathlib.Path(source).write_text(OPENS, encoding="ascii")
        subprocess.run(["cc", "-o", program, source, "-libverbs", f"-Wl,-rpath,{folder}"], check=True)
        subprocess.run(["setcap", "cap_net_raw+ep", program], check=True)
        assert as_nobody(pair, program) == f"{pairs.DEVICE} opened\n"


# Of verbs programs none says how much is inline; this one asks for so many bytes.
INLINE = """
import sys
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_QPT_RC
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr
device = Context(name=sys.argv[1])
domain, queue = PD(device), CQ(device, 4)
for most in sys.argv[2:]:
    try:
        QP(domain, QPInitAttr(qp_type=IBV_QPT_RC, scq=queue, rcq=queue, cap=QPCap(max_inline_data=int(most))))
        print(most, "can be had")
    except PyverbsRDMAError:
        print(most, "is refused")
"""


def test_the_device_says_its_limits(pair):
    """Those of the table in docs/SOFTNIC.md."""
    assert pair.run("a", "/usr/bin/python3", "-c", INLINE, pairs.DEVICE, 1024, 1025) == "1024 can be had\n1025 is refused\n"
    said = dict(re.findall(r"^\s*(max_\w+):\s*(\w+)", pair.run("a", "ibv_devinfo", "-v"), re.M))
    assert (said["max_qp"], said["max_qp_wr"], said["max_sge"]) == ("65536", "16384", "32")
    assert (said["max_qp_rd_atom"], said["max_qp_init_rd_atom"], int(said["max_msg_sz"], 16)) == ("128", "128", 1 << 30)
    assert all(900_000 < int(said[name]) < 1_100_000 for name in ("max_mr", "max_mw")), said


def test_locked_memory_has_no_say(pair):
    """Not more than 64 KiB may be locked, and a program registers 1 MB."""
    limit = ("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=65536")
    for said in pair.run_both(*limit, "ibv_rc_pingpong", "-g", "1", "-c", "-n", "3", "-s", "1000000"):
        assert "invalid data" not in said


def test_nothing_is_lost_for_who_looks_for_lost_memory(pair):
    """Devices stay for ever, as a program may have kept one."""
    assert pair.run("a", pairs.BUILD / "tests" / "softnic" / "verbs_listed") == "listed\n"


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong"])
@pytest.mark.parametrize("events", [(), ("-e",)], ids=["poll", "events"])
def test_pingpong(pair, program, events):
    client, server = pair.run_both(program, "-g", "1", "-c", "-n", "200", *events)
    for said in (client, server):
        assert "invalid data" not in said
        assert re.search(r"^\d+ bytes in [\d.]+ seconds", said, re.M), said


@pytest.mark.slow
@pytest.mark.parametrize("mtu", [256, 512, 1024, 2048, 4096])
def test_path_mtu(pair, mtu):
    client, _ = pair.run_both("ibv_rc_pingpong", "-g", "1", "-c", "-n", "20", "-s", "10000", "-m", str(mtu))
    assert "invalid data" not in client
    run_perftest(pair, "ib_write_bw", 100000, "-m", mtu, iterations=20)


@pytest.mark.slow
@pytest.mark.parametrize("program", BW + LAT)
@pytest.mark.parametrize("size", [2, 4096, 65536])
def test_perftest(pair, program, size):
    run_perftest(pair, program, size)


@pytest.mark.slow
@pytest.mark.parametrize("program", ATOMIC)
@pytest.mark.parametrize("operation", ["CMP_AND_SWAP", "FETCH_AND_ADD"])
def test_atomics(pair, program, operation):
    run_perftest(pair, program, 8, "-A", operation)


def test_atomics_of_several_queue_pairs(pair):
    run_perftest(pair, "ib_atomic_bw", 8, "-q", 4, iterations=1000)


@pytest.mark.slow
@pytest.mark.parametrize("program", BW)
def test_several_queue_pairs(pair, program):
    run_perftest(pair, program, 16384, "-q", 4)


@pytest.mark.parametrize("mtu", [256, 4096])
def test_reads_of_many_queue_pairs(pair, mtu):
    """Asked for all at once, at 256 they would be 8192 packets, and the ring has room for a thousand."""
    run_perftest(pair, "ib_read_bw", 65536, "-q", 32, "-m", mtu, *PATIENCE, iterations=20)


def test_reads_of_many_queue_pairs_on_one_machine(pair):
    """They come by the loopback interface, whose ring has fewer places."""
    run_perftest(pair, "ib_read_bw", 65536, "-q", 32, "-m", 4096, *PATIENCE, iterations=20, server="a", client="a")


def test_reads_of_many_queue_pairs_over_long_frames(pair):
    """The interface's MTU is no measure of the ring's places: no packet has more than 4096 bytes of data."""
    ports = [["ip", "-n", pair.namespace(host), "link", "set", "eth0", "mtu"] for host in "ab"]
    for port in ports:
        pairs.net.run(port + ["9000"])
    try:
        run_perftest(pair, "ib_read_bw", 65536, "-q", 32, "-m", 4096, *PATIENCE, iterations=20)
    finally:
        for port in ports:
            pairs.net.run(port + [str(pairs.MTU)])


@pytest.mark.slow
@pytest.mark.parametrize("program", BW)
def test_both_directions(pair, program):
    run_perftest(pair, program, 16384, "-b")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat", "ib_read_lat"])
def test_events(pair, program):
    run_perftest(pair, program, 4096, "-e")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_send_lat"])
@pytest.mark.parametrize("options", [(), ("-e",)], ids=["poll", "events"])
def test_datagrams(pair, program, options):
    # Datagrams may be lost when the receiver's ring is full, and perftest then waits for ever: as many as fit.
    run_perftest(pair, program, 1024, "-c", "UD", *options, iterations=64)


def test_shared_receive_queue(pair):
    run_perftest(pair, "ib_send_bw", 4096, "--use-srq", "-q", 2)


def test_datagrams_to_a_shared_receive_queue(pair):
    run_perftest(pair, "ib_send_bw", 1024, "-c", "UD", "--use-srq", iterations=64)


@pytest.mark.slow
def test_inline(pair):
    run_perftest(pair, "ib_write_lat", 64, "-I", 64)


@pytest.mark.parametrize("program", [pytest.param(name, marks=[] if name == BW[covers.seed() % len(BW)] else pytest.mark.slow)
                                     for name in BW])
def test_eight_mebibytes(pair, program):
    run_perftest(pair, program, 8 << 20, iterations=5)


def frames_sent(pair, host):
    """Frames that have left the host's interface; a super-frame is one."""
    said = subprocess.run(["ip", "-n", pair.namespace(host), "-j", "-s", "link", "show", "eth0"], check=True, capture_output=True)
    return json.loads(said.stdout)[0]["stats64"]["tx"]["packets"]


def frames_of_a_write(pair, *options):
    """Frames that the client of a run of 100 messages of 16 packets has sent."""
    before = frames_sent(pair, "a")
    client, _ = pair.run_both(*options, "ib_write_bw", *PERFTEST, "-s", 65536, "-n", 100)
    assert result(client, 65536)[0] == 100
    return frames_sent(pair, "a") - before


def test_listed_peers_get_super_frames(pair):
    assert frames_of_a_write(pair) >= 1600
    assert frames_of_a_write(pair, "--super-frames", "10.8.0.0/24") < 800
    assert frames_of_a_write(pair, "--super-frames", "10.8.1.0/24,10.8.0.3") >= 1600, "others are not meant"


def test_what_is_no_address_in_the_list_is_told(pair):
    said = pair.run_both("--super-frames", "eth0,10.8.0.2", "ibv_rc_pingpong", "-g", "1", "-n", "10")[0]
    assert "EPIC_SOFTNIC_SUPER_FRAMES: 'eth0' is no IPv4 address nor prefix" in said


def test_a_device_that_cannot_send_super_frames_says_so(pair):
    said = pair.run_both("--super-frames", "10.8.0.0/24", "env", "EPIC_SOFTNIC_SINGLE_FRAMES=1", "ibv_rc_pingpong", "-g", "1",
                         "-n", "10")[0]
    assert f"EPIC_SOFTNIC_SUPER_FRAMES: {pairs.DEVICE} does not carry super-frames" in said


def test_an_interface_that_cuts_no_udp_carries_no_super_frames(pair):
    def cut(word):
        pairs.net.run(["ip", "netns", "exec", pair.namespace("a"), "ethtool", "-K", "eth0", "tx-udp-segmentation", word])

    argv = ("ibv_rc_pingpong", "-g", "1", "-n", "10", "-p", "18401")
    cut("off")
    try:
        server = pair.start("b", *argv)
        pair.wait_for_listener("b", server, 18401)
        said = pair.run("a", "--super-frames", "10.8.0.0/24", *argv, pair.address["b"])
    finally:
        cut("on")
    assert f"EPIC_SOFTNIC_SUPER_FRAMES: {pairs.DEVICE} does not carry super-frames" in said


def test_a_listed_peer_that_takes_none_is_an_error_with_its_cure(pair):
    argv = ("ibv_rc_pingpong", "-g", "1", "-n", "10", "-s", "65536", "-p", "18400")
    server = pair.start("b", "env", "EPIC_SOFTNIC_SINGLE_FRAMES=1", *argv)
    pair.wait_for_listener("b", server, 18400)
    client = pair.start("a", "--super-frames", pair.address["b"], *argv, pair.address["b"])
    client.wait_for_line("transport retry counter exceeded")
    assert re.search(r"gets no answer from its peer, which EPIC_SOFTNIC_SUPER_FRAMES lists: .* take it off the list",
                     client.output), client.output


def test_programs_of_librdmacm_end_and_say_what_is_missing(pair):
    words = "softnic has no connection manager"
    assert words not in pair.run_both("ib_send_bw", *PERFTEST, "-n", 10)[0]
    for peer in (), (pair.address["b"],):
        program = pair.start("a", "ib_send_bw", "-R", *peer)
        assert program.process.wait(20) != 0
        assert program.output.count(words) == 1, program.output


@pytest.mark.slow
@pytest.mark.parametrize("program", BW + LAT)
def test_every_size(pair, program):
    client, _ = pair.run_both(program, *PERFTEST, "-a", "-n", 50, timeout_s=120)
    for power in range(1, 24):
        assert result(client, 1 << power)[0] == 50


@pytest.mark.slow
@pytest.mark.parametrize("program", BW)
@pytest.mark.parametrize("mtu", [1024, 4096])
def test_many_queue_pairs(pair, program, mtu):
    run_perftest(pair, program, 65536, "-q", 64, "-m", mtu, timeout_s=180)


# Over the interface's own address the packets take the loopback interface.
@pytest.mark.slow
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_lat", "ib_read_bw"])
def test_within_one_namespace(pair, program):
    run_perftest(pair, program, 65536, server="a", client="a")


@pytest.mark.slow
def test_pingpong_within_one_namespace(pair):
    for program in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
        client, _ = pair.run_both(program, "-g", "1", "-c", "-n", "50", "-e", server="a", client="a")
        assert "invalid data" not in client


def test_several_processes_at_once(pair):
    """Each has its own QPNs: nobody takes another's packets."""
    options = ("-g", "1", "-c", "-n", "200")
    started = [pair.start_both(program, *options, *more, server=server, client=client)
               for program, more in (("ibv_rc_pingpong", ("-e",)), ("ibv_srq_pingpong", ("-e", "-q", "4")))
               for server, client in (("a", "a"), ("a", "b"), ("b", "a"))]
    qpns = []
    for client, server in started:
        said = client.finish() + server.finish()
        assert "invalid data" not in said
        qpns += re.findall(r"local address: .*QPN (0x[0-9a-f]+)", said)
    assert len(qpns) == 3 * 2 * (1 + 4) and len(set(qpns)) == len(qpns)


@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_srq_pingpong"])
def test_pingpong_with_loss(lossy_pair, program):
    lossy_pair.wire.random_loss(10_000, seed=1)
    ends = lossy_pair.start_both(program, "-g", "1", "-c", "-n", "200", "-s", "10000", "-e")
    for end in ends:
        end.process.wait(60)
    completed = [bool(re.search(r"^\d+ bytes in [\d.]+ seconds", end.output, re.M)) for end in ends]
    # Who ends first does not repeat its last acknowledgement: if that is lost, the other's last Send (wr_id 2) fails.
    assert any(completed), [end.output for end in ends]
    for end, whole in zip(ends, completed):
        assert "invalid data" not in end.output
        assert whole or "retry counter exceeded (12) for wr_id 2" in end.output, end.output
    assert lossy_pair.wire.log(), "nothing was lost"


def test_perftest_with_loss(lossy_pair):
    lossy_pair.wire.random_loss(10_000, seed=2)
    for program in BW:
        before = len(lossy_pair.wire.log())
        run_perftest(lossy_pair, program, 65536, iterations=30)
        assert len(lossy_pair.wire.log()) > before, "nothing was lost"


def test_reads_of_many_queue_pairs_with_loss(lossy_pair):
    """What does not come any more is not waited for by the others."""
    lossy_pair.wire.random_loss(10_000, seed=5)
    run_perftest(lossy_pair, "ib_read_bw", 65536, "-q", 32, iterations=5)
    assert lossy_pair.wire.log(), "nothing was lost"


@pytest.mark.slow
@pytest.mark.parametrize("program", BW + LAT)
def test_every_size_with_loss(lossy_pair, program):
    lossy_pair.wire.random_loss(10_000, seed=4)
    client, _ = lossy_pair.run_both(program, *PERFTEST, "-a", "-n", 5, timeout_s=300)
    for power in range(1, 24):
        assert result(client, 1 << power)[0] == 5
    assert lossy_pair.wire.log(), "nothing was lost"


@pytest.mark.parametrize("program", ATOMIC)
def test_atomics_with_loss(lossy_pair, program):
    lossy_pair.wire.random_loss(10_000, seed=3)
    run_perftest(lossy_pair, program, 8, iterations=300)
    assert lossy_pair.wire.log(), "nothing was lost"
