"""A page of docs/ or bench/results/ of which a program writes a part: what stands between the marks

    <!-- NAME: written by COMMAND -->
    <!-- end of NAME -->
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def put(page, name, text):
    """The text of a page with `text` between the marks of that name. ValueError: they are not there."""
    marks = re.compile(rf"(<!-- {re.escape(name)}: written by [^>]* -->).*?(<!-- end of {re.escape(name)} -->)", re.S)
    if not marks.search(page):
        raise ValueError(f"the page has no '<!-- {name}: written by ... -->' with '<!-- end of {name} -->' behind it")
    return marks.sub(lambda found: f"{found[1]}\n\n{text.strip()}\n\n{found[2]}", page)


def results(name):
    """The file of bench/results/ that has the marks of that name."""
    return ROOT / "bench" / "results" / f"{name}.md"


def write(path, name, text):
    """The same in a file."""
    path.write_text(put(path.read_text(encoding="utf-8"), name, text), encoding="utf-8")
