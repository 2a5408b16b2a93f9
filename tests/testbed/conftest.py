"""What tests of the test bed share beside tests/conftest.py: a build tree that sums nothing."""

import pytest


@pytest.fixture(name="build")
def fixture_build(tmp_path):
    """A build tree whose daemons only wait, and whose manager says that every switch is up; its softnic is empty."""
    programs = {
        "incengine": "exec sleep 1000",
        "incagent": "exec sleep 1000",
        "inchost": 'echo "$@"; echo "registered at the manager"; exec sleep 1000',
        "incmanager": """[ "$1" = serve ] && exec sleep 1000
echo '{"switches": [{"name": "s1", "state": "up"}]}'""",
    }
    for name, script in programs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name / name).chmod(0o755)
    (tmp_path / "softnic" / "lib").mkdir(parents=True)
    (tmp_path / "softnic" / "lib" / "libibverbs.so.1").touch()
    return tmp_path
