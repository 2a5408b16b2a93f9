"""Network namespaces for the tests of softnic; they go whatever happens."""

import os

import pytest

import pair as pairs


def pytest_sessionstart(session):
    # A test that cannot run has not passed: say what is missing instead of skipping.
    missing = []
    if os.geteuid() != 0:
        missing.append("root")
    if not (pairs.BUILD / "softnic" / "lib" / "libibverbs.so.1").exists():
        missing.append(f"a build: cmake --build {pairs.BUILD} --target epic_softnic")
    if missing and not session.config.option.collectonly:
        pytest.exit("the tests of softnic need " + "; ".join(missing), returncode=1)


@pytest.fixture(name="all_pair", scope="module")
def fixture_all_pair():
    yield from pairs.closed_at_the_end(pairs.Pair())


@pytest.fixture(name="pair")
def fixture_pair(all_pair):
    """Two hosts; programs that a test leaves behind are ended."""
    yield all_pair
    all_pair.end_programs()


@pytest.fixture(name="lossy_pair")
def fixture_lossy_pair():
    """Two hosts with the fault box between them."""
    yield from pairs.closed_at_the_end(pairs.Pair(lossy=True))


@pytest.fixture(name="all_lossy_guests", scope="session")
def fixture_all_lossy_guests():
    from test_interop import LossyGuestPair  # pylint: disable=import-outside-toplevel  # whose module is of tests
    yield from pairs.closed_at_the_end(LossyGuestPair())


@pytest.fixture(name="lossy_guests")
def fixture_lossy_guests(all_lossy_guests):
    """softnic and an rdma_rxe guest, with the fault box between them; programs and faults end with the test."""
    yield all_lossy_guests
    all_lossy_guests.end_programs()
