"""How large the tree is: lines by folder, the median and the largest file of each, and the largest classes.

Lines are counted as they stand, blank ones and comments with them. A class's methods and members are what its definition in a
header declares at its own depth, as the format of the code has it (indented by two more than the class): functions, and data that
each object has.
"""
import io
import pathlib
import re
import statistics
import subprocess
import tarfile
import typing

CODE = {".cc", ".h", ".c", ".py", ".sh", ".proto"}
TEXT = {".md"}
TEST = re.compile(r"_(test|fuzz|bench|testing)\.|(^|/)tests/|_test\.py$")
CLASS = re.compile(r"^( *)(?:class|struct) (\w+)(?: final)?(?: : [^;{]*)? ?\{$")
NO_DATA = re.compile(r"^(using|friend|enum|struct|class|template|static|public|private|protected|typedef|return|if|for|case|//)\b|^//")


class Class(typing.NamedTuple):
    file: str
    name: str
    methods: int
    members: int


def files(root, rev=None):
    """{path: text} of what git tracks in the working tree, or in a commit: code and pages."""
    if rev is None:
        names = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout.split("\0")
        texts = {n: (pathlib.Path(root) / n) for n in names if n}
        return {n: path.read_text(encoding="utf-8", errors="replace") for n, path in texts.items() if path.is_file() and is_counted(n)}
    packed = subprocess.run(["git", "-C", root, "archive", rev], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {m.name: archive.extractfile(m).read().decode("utf-8", "replace") for m in archive if m.isfile() and is_counted(m.name)}


def is_counted(name):
    """Whether it is code or a page; a program in scripts has no suffix."""
    path = pathlib.PurePath(name)
    return path.suffix in CODE | TEXT or (path.suffix == "" and path.parts[0] in ("scripts", "bench"))


def folder_of(name):
    """As which it counts: tests and pages by themselves."""
    top = pathlib.PurePath(name).parts[0] if "/" in name else "."
    if pathlib.PurePath(name).suffix in TEXT:
        return "pages"
    return f"{top}, tests" if TEST.search(name) and top != "tests" else top


def by_folder(texts):
    """[(folder, files, lines, median, largest file, its lines)], the largest folder first."""
    found = {}
    for name, text in texts.items():
        found.setdefault(folder_of(name), {})[name] = text.count("\n")
    rows = []
    for folder, lines in found.items():
        largest = max(lines, key=lines.get)
        rows.append((folder, len(lines), sum(lines.values()), round(statistics.median(lines.values())), largest, lines[largest]))
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def classes_of(name, text):
    """Those that a header defines."""
    found, open_at = [], []
    statement = ""
    for line in text.splitlines():
        code = re.sub(r"\s*//.*| ABSL_\w+\([^)]*\)", "", line)
        indent = len(code) - len(code.lstrip(" "))
        while open_at and code.strip() in ("};", "}") and indent == open_at[-1][0]:
            _, which, methods, members = open_at.pop()
            found.append(Class(name, which, methods, members))
        if match := CLASS.match(code):
            open_at.append([indent, match[2], 0, 0])
            statement = ""
            continue
        if not open_at or not code.strip() or code.strip()[-1] == ":" or indent <= open_at[-1][0]:
            continue
        if indent == open_at[-1][0] + 2:
            statement = code.strip()
            if NO_DATA.match(statement) and "(" not in statement:
                continue
            before = re.split(r"[={]", statement)[0]
            if "(" in before or statement.startswith("template"):
                open_at[-1][2] += not NO_DATA.match(statement) or statement.startswith(("static", "friend"))
            elif re.match(r"[\w:<>,&* \[\]().]+ \w+", statement) and statement[-1] in ";," and not NO_DATA.match(statement):
                open_at[-1][3] += 1 + statement.count(", ") * (statement.count("<") == 0)
    return found


def classes(texts):
    """Of all headers that are no tests', the largest first."""
    all_of = [c for name, text in texts.items() if name.endswith(".h") and not TEST.search(name) for c in classes_of(name, text)]
    return sorted(all_of, key=lambda c: -(c.methods + c.members))


def run(root, rev, most):
    """Prints both tables."""
    texts = files(root, rev)
    print(f"{'folder':24}{'files':>7}{'lines':>9}{'median':>8}  largest")
    for folder, count, lines, median, largest, of_largest in by_folder(texts):
        print(f"{folder:24}{count:7}{lines:9}{median:8}  {largest} ({of_largest})")
    print(f"{'all':24}{len(texts):7}{sum(t.count(chr(10)) for t in texts.values()):9}")
    print(f"\n{'class':32}{'methods':>8}{'members':>8}  header")
    for c in classes(texts)[:most]:
        print(f"{c.name:32}{c.methods:8}{c.members:8}  {c.file}")
    return 0
