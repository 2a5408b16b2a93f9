"""Every test that docs/RULES.md names exists."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_named_test_exists():
    text = "\n".join(f.read_text(encoding="utf-8") for folder in ("base", "roce", "reduce", "incengine", "commlib", "sim",
                                                                  "incmanager") for f in (ROOT / folder).rglob("*_test.cc"))
    tests = {".".join(m) for m in re.findall(r"TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text)}
    suites = {t.split(".")[0] for t in tests}
    named = re.findall(r"`(\w+)\.(\w+|\*)`", (ROOT / "docs" / "RULES.md").read_text(encoding="utf-8"))
    named = [(suite, test) for suite, test in named if test not in ("cc", "py", "md")]
    assert len(named) > 40
    assert [f"{s}.{t}" for s, t in named if f"{s}.{t}" not in tests and not (t == "*" and s in suites)] == []
