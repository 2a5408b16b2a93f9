"""docs/ADDING-A-MODE.md quotes code that exists: each line of its C++ blocks is in the sources that it speaks of. The files that
docs/HACKING.md names for additions exist."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "ADDING-A-MODE.md"


def squeezed(line):
    return re.sub(r"\s+", " ", re.sub(r"//.*", "", line)).strip()


def test_every_quoted_line_is_in_the_sources():
    # An example that has become a mode of the product is among those.
    sources = [*(ROOT / "examples").glob("*_mode/*.*"), *(ROOT / "incengine/modes").glob("*.*")]
    lines = {squeezed(line) for f in sources for line in f.read_text(encoding="utf-8").splitlines()}
    quoted = re.findall(r"```cpp\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    assert len(quoted) >= 5
    missing = [line for block in quoted for line in block.splitlines() if squeezed(line) not in lines | {"};"}]
    assert not missing


def test_files_that_it_names_exist():
    names = re.findall(r"`((?:incengine|incmanager|examples|sim|proto|docs|scripts)/[\w./-]+)`", GUIDE.read_text(encoding="utf-8"))
    assert names and [n for n in names if not (ROOT / n).exists()] == []


def test_files_for_additions_exist():
    table = (ROOT / "docs" / "HACKING.md").read_text(encoding="utf-8").partition("\n## Where to add what\n")[2].partition("\n## ")[0]
    names = {name for name in re.findall(r"`([\w./-]+)`", table) if "/" in name or name in ("README.md", "docs", "reduce")}
    assert len(names) > 30 and [n for n in sorted(names) if not (ROOT / n).exists()] == ["topologies/NAME.yaml"]
