"""What --lend means: which hosts lend memory, and what is no host that can."""

import pytest

from epic_testbed import bed, lenders

KINDS = {"h0": "softnic", "h1": "rxe", "h2": "none"}


def test_hosts_lend_what_is_said():
    assert lenders.of(["h0=64M", "h1=1000000"], KINDS) == {"h0": "64M", "h1": "1000000"}
    assert not lenders.of([], KINDS)


@pytest.mark.parametrize("item", ["h3=64M", "h0", "h0=", "h0=much", "=64M", "h0=64T"])
def test_what_is_no_lender_is_named(item):
    with pytest.raises(bed.BedError, match=f"--lend {item}: it is not HOST=BYTES, as in h0=64M, with one of the hosts h0, h1, h2"):
        lenders.of([item], KINDS)


def test_a_host_without_rdma_lends_nothing():
    with pytest.raises(bed.BedError, match="h2 has no RDMA"):
        lenders.of(["h2=64M"], KINDS)
