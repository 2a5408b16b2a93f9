"""The tests' own ICRC against frames of rdma_rxe: what test_capture relies on."""

import pytest

import harness
import pcap

GOLDEN = harness.ROOT / "tests" / "golden"


@pytest.mark.parametrize("name", ["rc_send", "rc_imm", "rc_write", "rc_nak", "rc_rnr"])
def test_frames_of_rxe_have_the_icrc_that_we_compute(name):
    roce = [frame for frame in pcap.frames(GOLDEN / f"{name}.pcap") if pcap.is_roce(frame)]
    assert roce and all(pcap.icrc_ok(frame) for frame in roce)
    broken = roce[0][:50] + bytes([roce[0][50] ^ 1]) + roce[0][51:]
    assert not pcap.icrc_ok(broken) and pcap.icrc_ok(pcap.with_icrc(broken))
