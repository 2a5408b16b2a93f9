"""What --hosts means: each host's kind, and what it cannot be."""

import pytest

from epic_testbed import bed

NAMES = ["h0", "h1"]


@pytest.mark.parametrize("spec, kinds", [("rxe", ["rxe", "rxe"]), ("softnic,h1=rxe", ["softnic", "rxe"]),
                                         ("none,h0=rxe,h1=softnic", ["rxe", "softnic"])])
def test_hosts_are_of_one_kind_but_for_those_that_are_named(spec, kinds):
    assert bed.host_kinds(spec, NAMES) == dict(zip(NAMES, kinds))


@pytest.mark.parametrize("item", ["h2=rxe", "h0", "=rxe"])
def test_what_is_no_host_is_named(item):
    with pytest.raises(bed.BedError, match=f"'{item}' is not HOST=KIND with one of the hosts h0, h1"):
        bed.host_kinds(f"softnic,{item}", NAMES)


@pytest.mark.parametrize("spec", ["virtual", "rxe,h0=virtual"])
def test_what_is_no_kind_is_named(spec):
    with pytest.raises(bed.BedError, match="there is no kind 'virtual'; there are softnic, rxe, none"):
        bed.host_kinds(spec, NAMES)
