"""rdma-core's own tests on softnic and on rdma_rxe of a guest, side by side. Needs root and the guest kernel.

What is skipped on softnic is what docs/SOFTNIC.md lists, with what becomes of it on rdma_rxe.
"""

import fnmatch
import json
import re

import pytest

import pair as pairs
from test_interop import GuestPair

# pool: whole

PAGE = pairs.ROOT / "docs" / "SOFTNIC.md"
RUNNER = pairs.ROOT / "tests" / "softnic" / "pyverbs_runner.py"
GUEST_MB = 512  # the suite makes queues of any size that the device offers, in memory that is pinned


def run_suite(hosts, names, device, timeout_s):
    """{test: (verdict, reason)}; each host of these names does a part."""
    parts = [hosts.start(name, "/usr/bin/python3", RUNNER, device, "1", i, len(names)) for i, name in enumerate(names)]
    results = {}
    for part in parts:
        results |= json.loads(part.finish(timeout_s).splitlines()[-1])
    return {test: tuple(result) for test, result in results.items()}


@pytest.fixture(name="here", scope="module")
def fixture_here(all_pair):
    # Opening and closing devices is waiting for the kernel: two at once are twice as fast.
    return run_suite(all_pair, ["a", "b"], pairs.DEVICE, timeout_s=300)


@pytest.fixture(name="on_rxe", scope="module")
def fixture_on_rxe():
    guest = GuestPair(guest_mb=GUEST_MB)
    try:
        return run_suite(guest, ["rxe"], "rxe0", timeout_s=60)
    finally:
        guest.close()


@pytest.fixture(name="rows", scope="module")
def fixture_rows():
    """{pattern of tests: verdict on rdma_rxe} of the table, in its order."""
    table = PAGE.read_text(encoding="utf-8").partition("## rdma-core's own tests")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\S+)` \| (failed|skipped) \| \S.* \|$", table, re.M))


def with_verdict(results, verdict):
    return {test for test, (was, _) in results.items() if was == verdict}


def row_of(test, rows):
    """The pattern of the first row that fits, or nothing."""
    return next((pattern for pattern in rows if fnmatch.fnmatchcase(test, pattern)), None)


def test_none_fails_on_softnic(here):
    failed = {test: reason for test, (verdict, reason) in here.items() if verdict == "failed"}
    assert not failed, "\n".join(f"{test}: {reason}" for test, reason in failed.items())
    assert len(with_verdict(here, "passed")) >= 86


def test_every_skip_is_in_the_table(here, rows):
    unlisted = {test: here[test][1] for test in with_verdict(here, "skipped") if row_of(test, rows) is None}
    assert not unlisted


def test_every_row_has_a_skip(here, rows):
    used = {row_of(test, rows) for test in with_verdict(here, "skipped")}
    assert not rows.keys() - used, "nothing is skipped for these any more: the page has to say so"


def test_what_passes_on_rxe_passes_here(here, on_rxe):
    assert here.keys() == on_rxe.keys(), "the same suite"
    assert not {test: here[test] for test in with_verdict(on_rxe, "passed") - with_verdict(here, "passed")}


def test_the_table_says_what_becomes_of_them_on_rxe(here, on_rxe, rows):
    others = {test: on_rxe[test] for test in with_verdict(here, "skipped")
              if on_rxe[test][0] != rows.get(row_of(test, rows))}
    assert not others
