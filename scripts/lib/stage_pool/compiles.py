"""What compiles took: scripts/lib/compile-ledger writes a line for each object into build/TREE/compile-times."""
import re

from stage_pool import stages

FILE = "compile-times"


def seconds(text):
    """Of the shell's "1m2.345s"."""
    minutes, rest = re.fullmatch(r"(\d+)m([\d.]+)s", text).groups()
    return 60 * int(minutes) + float(rest)


def forget():
    """Of the trees that are there: a new run begins."""
    for file in (stages.ROOT / "build").glob(f"*/{FILE}"):
        file.unlink()


def of_tree(file):
    """{object: processor seconds} of one tree; of an object that was compiled twice, the last."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        user, system, name = line.split(" ", 2)
        found[name.replace("CMakeFiles/", "").replace(".dir/", "/")] = round(seconds(user) + seconds(system), 2)
    return found


def of_trees():
    """{tree: {object: processor seconds}} of what was compiled since forget()."""
    return {file.parent.name: of_tree(file) for file in sorted((stages.ROOT / "build").glob(f"*/{FILE}"))}
