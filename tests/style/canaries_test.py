"""Every known mistake of check/canaries applies. The build finds one that does not, but only behind most of what it builds."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import patches  # noqa: E402


@pytest.mark.parametrize("patch", sorted((ROOT / "check/canaries").glob("*.patch")), ids=lambda patch: patch.stem)
def test_every_canary_applies(patch):
    assert patches.apply(patch, ROOT, dry_run=True) is None
