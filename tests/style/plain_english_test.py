"""Pages that a user reads: no sentence of theirs has more than 30 words, no line more than 120 columns; tables and commands aside."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/HOST.md", "docs/HOST-INTERNALS.md", "docs/MPI.md", "docs/DEPLOY.md", "docs/TORCH.md", "docs/SOFTNIC.md",
         "docs/TESTBED.md", "docs/REPRODUCED.md", "docs/PERFORMANCE.md")
WORDS, COLUMNS = 30, 120


def prose(text):
    """(number of its first line, lines) of each paragraph and item of a list; without headings, tables and commands."""
    text = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    paragraph, first = [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins_item = re.match(r"\s*([-*]|\d+\.) ", line)
        ends = not line.strip() or re.match(r"[|#<]|    (?! *[-*] )", line)
        if (ends or begins_item) and paragraph:
            yield first, paragraph
            paragraph = []
        if not ends:
            first = first if paragraph else number
            paragraph.append(line)


def sentences(paragraph):
    """Each sentence; code, links and what is in quotes count as they are read."""
    text = re.sub(r"`[^`]*`", "code", " ".join(line.strip() for line in paragraph))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.split(r"(?<=[.!?:])[)\"*]*\s+(?=[\w\"(\[*])", text)


def words(sentence):
    return len(re.findall(r"\S*\w\S*", sentence))


def too_long(text):
    return [f"{number}: {words(sentence)} words: {sentence}" for number, paragraph in prose(text)
            for sentence in sentences(paragraph) if words(sentence) > WORDS]


def too_wide(text):
    return [f"{number + place}: {len(line)} columns: {line}" for number, paragraph in prose(text)
            for place, line in enumerate(paragraph) if len(line) > COLUMNS]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short_and_lines_narrow(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert sum(1 for _ in prose(text)) > 10
    assert too_long(text) + too_wide(text) == []


def test_what_is_too_long_is_found():
    page = f"# A heading\n\n| a | {'word ' * 40}|\n\n    {'command ' * 40}\n\nShort. {'word ' * 31}end.\n\n- {'x' * 120}\n"
    assert [line.partition(":")[0] for line in too_long(page)] == ["7"] and [line.partition(":")[0] for line in too_wide(page)] == ["7", "9"]
    assert too_long(f"{'word ' * 16}end.\n{'word ' * 16}end.") == [] and len(too_long(f"{'word ' * 16}\n{'word ' * 16}")) == 1
