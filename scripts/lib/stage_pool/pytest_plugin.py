"""A plugin of pytest's for the pool: what each test takes goes into the ledger, and a file may be run in parts.

    EPIC_LEDGER   file that gets a line of JSON for each test; without it nothing is measured
    EPIC_STAGE    the stage's name in these lines
    EPIC_PART     "2/5": the second of five parts of the tests that were found, each of tests that follow each other
"""
import json
import os
import time

import pytest

from stage_pool import groups


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Runs after the folders' own, which leave out what is slow."""
    part = os.environ.get("EPIC_PART")
    if part:
        number, parts = map(int, part.split("/"))
        first, end = ((len(items) * n) // parts for n in (number - 1, number))
        config.hook.pytest_deselected(items=items[:first] + items[end:])
        items[:] = items[first:end]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """A test with what it sets up and takes down."""
    ledger = os.environ.get("EPIC_LEDGER")
    if not ledger:
        yield
        return
    group = groups.Group(groups.own())
    begin, computed, waited = time.monotonic(), group.computed(), group.kept_waiting()
    yield
    line = {"stage": os.environ.get("EPIC_STAGE", ""), "test": item.nodeid,
            "wall": round(time.monotonic() - begin, 3), "cpu": round(group.computed() - computed, 3),
            "stalled": round(group.kept_waiting() - waited, 3)}
    with open(ledger, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
