"""What pages and comments point to is there: files, headings, and sections of the protocol's pages."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "bench" / "results").glob("*.md"))]
FOLDERS = ("base bench check commlib docs examples inchost incagent incengine incmanager io mpi proto protocol pytorch reduce roce scripts "
           "sim softnic tests").split()
PROTOCOL = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("PROTOCOL", "PROTOCOL-CONTROL", "PROTOCOL-MODE-I")}


def prose(text):
    """Without what is code, in which brackets are no links."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)


def anchors(text):
    """The names by which a page's headings are linked to."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def has_heading(text, heading):
    """Whether a page has one that begins so, its number aside; bold words at a line's start are headings, too."""
    wanted = re.sub(r"\s+", " ", heading)
    return any(found.startswith(wanted) for found in re.findall(r"^(?:#+ (?:[\d.]+ )?|- \*\*|\*\*)(.*)$", text, re.M))


def broken_links(path, text):
    """Links that lead to no file or to no heading of it; and headings that another page is said to have (PAGE.md, "A heading")."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        file, _, anchor = target.partition("#")
        other = path if not file else path.parent / file
        if "://" not in target and (not other.exists() or (anchor and anchor not in anchors(other.read_text(encoding="utf-8")))):
            broken.append(target)
    for name, heading in re.findall(r'\b([A-Z][A-Z-]*\.md)(?:\]\([^)]*\))?,\s+"([^"]+)"', text):
        other = ROOT / "docs" / name
        if not other.exists() or not has_heading(other.read_text(encoding="utf-8"), heading):
            broken.append(f'{name}, "{heading}"')
    return broken


def sections(text):
    """The numbers of a page's headings, and those of which the page says where they are (a table's row with a link)."""
    return set(re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", text, re.M)) | set(re.findall(r"^\| (\d+(?:\.\d+)?) \| \[", text, re.M))


def wrong_sections(text):
    """Of "PROTOCOL.md, section 7.1" and the like, over the lines of a comment, those that the page has not."""
    text = re.sub(r"\s*\n\s*(?://+|#+|\*)?\s*", " ", text)
    named = re.findall(r"\b(PROTOCOL(?:-CONTROL|-MODE-I)?)\.md(?:\]\([^)]*\))?,? (?:sections? )?(\d+(?:\.\d+)?)((?:, | and | to )\d+(?:\.\d+)?)?\b", text)
    pairs = [(page, number) for page, first, second in named for number in (first, re.sub(r"[^\d.]", "", second)) if number]
    return [f"{page}.md, {number}" for page, number in pairs if number not in sections(PROTOCOL[page])]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    assert broken_links(path, path.read_text(encoding="utf-8")) == []


def test_a_link_to_nothing_is_found():
    text = '[a](README.md) [b](NONE.md) [c](docs/HOST.md#none) [d](docs/HOST.md#fork) HOST.md, "No such heading" HOST.md, "Fork" `[e](NONE.md)`'
    assert broken_links(ROOT / "README.md", text) == ["NONE.md", "docs/HOST.md#none", 'HOST.md, "No such heading"']


def test_sections_of_the_protocol_that_are_named_exist():
    found, wrong = 0, []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".c", ".py", ".proto", ".md", ".patch") and path.is_file() and path != pathlib.Path(__file__):
                text = path.read_text(encoding="utf-8", errors="replace")
                if "PROTOCOL" in text:
                    found += 1
                    wrong += [f"{path.relative_to(ROOT)}: {one}" for one in wrong_sections(text)]
    assert wrong == [] and found > 100


def test_a_section_that_is_not_there_is_found():
    text = "// (docs/PROTOCOL.md,\n// section 7.1; PROTOCOL-CONTROL.md, 7.9; PROTOCOL.md, sections 4 and 99)"
    assert wrong_sections(text) == ["PROTOCOL-CONTROL.md, 7.9", "PROTOCOL.md, 99"]


def test_files_of_the_glossary_exist():
    named = re.findall(r"`([a-z]\w*/[\w./]+)`", (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8"))
    assert len(named) > 15 and [name for name in named if not (ROOT / name).exists()] == []
