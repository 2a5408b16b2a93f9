"""UCX over softnic, as Debian has it: its own programs, between two namespaces."""

import re

import pair as pairs

DEVICE = f"{pairs.DEVICE}:1"


def run_both(pair, settings, *options):
    """ucx_perftest, with variables of UCX (NAME=VALUE): what the client says."""
    said = pair.run_both("env", *settings, "ucx_perftest", "-w", 10, "-n", 200, *options)
    for one in said:
        assert not re.search(r"UCX +(WARN|ERROR)", one), one
    assert re.search(r"^Final: +200 ", said[0], re.M), said[0]
    return said[0]


def test_ucx_sees_the_device_and_nobody_is_told_to_do_without(pair):
    said = pair.run("a", "ucx_info", "-d")
    for transport in ("rc_verbs", "ud_verbs"):
        assert re.search(rf"Transport: {transport}\n#\s+Device: {DEVICE}$", said, re.M), said
    assert "softnic:" not in said, "UCX connects by other means than librdmacm's"
    other = pair.run("a", "--devices", "rdma7=eth0", "ucx_info", "-d")
    assert "Device: rdma7:1" in other and DEVICE not in other


def test_reliable_connections(pair):
    run_both(pair, (), "-x", "rc_verbs", "-d", DEVICE, "-t", "am_lat", "-s", 32)


def test_datagrams(pair):
    """UCX takes only those that came to an address of its device; where in the header it stands, the completion says."""
    run_both(pair, (), "-x", "ud_verbs", "-d", DEVICE, "-t", "am_lat")


def test_what_programs_call_connects_by_datagrams_and_goes_on_by_connections(pair):
    """UCX compares networks of addresses that it knows for RoCE v2's, and needs the interface for that."""
    said = run_both(pair, ("UCX_TLS=ib", "UCX_IB_ROCE_LOCAL_SUBNET=y", "UCX_LOG_LEVEL=debug"), "-t", "tag_lat", "-s", 65536)
    assert re.search(r"IP addresses match with a 24-bit prefix: local IP is 10\.8\.0\.1, +remote IP is 10\.8\.0\.2", said), said
