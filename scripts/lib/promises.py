"""What tests show each promise of the documents: tests/promises.json, held against the documents and the tests.

A promise is a row of a table that counts, of the documents that the file names, and a rule of docs/RULES.md (rules.py).
The file has each table by its heading ("HEADING", or "HEADING: FIRST WORD OF ITS HEAD" where a heading has several):

    {"no promise": WHY}                                why its rows count for nothing
    {"rows": {ROW: ENTRY, ...}}                        by the row's first cell, or as many cells as tell it from the others
    {"each row": ENTRY}                                the same tests read the table and show every row
    {"column": HEAD, "table": HEADING, "rows": {}}     the tests stand in that column of the page, of another table if one is
                                                       named; "rows" has what else is to be said of some of them

An ENTRY is a list of tests, or {"tests": [...], "many": WHY, "part": WHAT, "without": WHY}: why a default run has more than
three of them, what of the row none shows, why there is none; or {"no promise": WHY} of a row that is none. promise_tests.py says
what tests are called.

"beds" has the hosts of each file of tests/e2e that is named, and of a test that has not all of them; "rules", if it is there, why a
rule has many tests ({RULE: WHY}).
"""
import argparse
import json
import pathlib
import re
import sys
import typing

import rules
from promise_tests import LEVELS, Tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "tests/promises.json"
MANY = 3  # tests of a promise in a default run, without a reason
RULES = "docs/RULES.md"


class Row(typing.NamedTuple):
    key: str
    cells: tuple[str, ...]


class Table(typing.NamedTuple):
    name: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]


class Promise(typing.NamedTuple):
    document: str
    table: str
    key: str
    tests: tuple[str, ...]
    many: str = ""
    part: str = ""
    without: str = ""


def _cells(line):
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))


def _rows(lines):
    """Each row by as few of its first cells as tell it from the others."""
    cells = [_cells(line) for line in lines]

    def key(row):
        begins = (row[:many] for many in range(1, len(row) + 1))
        begin = next((begin for begin in begins if any(begin) and sum(other[:len(begin)] == begin for other in cells) == 1), row)
        return " / ".join(filter(None, begin))

    return tuple(Row(key(row), row) for row in cells)


def tables(text):
    """The tables of a page, in order."""
    found, heading, lines = [], "", text.splitlines()
    for at, line in enumerate(lines):
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif re.match(r"\|[-:| ]+\|$", line) and at > 0 and lines[at - 1].startswith("|"):
            body = []
            for row in lines[at + 1:]:
                if not row.startswith("|"):
                    break
                body.append(row)
            found.append(Table(heading, _cells(lines[at - 1]), _rows(body)))
    headings = [table.name for table in found]
    named = []
    for table in found:
        word = next((cell for cell in table.head if cell), "")
        several = headings.count(table.name) > 1 and word
        named.append(table._replace(name=f"{table.name}: {word}" if several else table.name))
    return named


def _entry(document, table, key, entry, tests=()):
    entry = {"tests": entry} if isinstance(entry, list) else entry
    return Promise(document, table, key, tuple(dict.fromkeys((*tests, *entry.get("tests", ())))), entry.get("many", ""),
                   entry.get("part", ""), entry.get("without", ""))


class Documents:
    """The pages, by name, and what the file says of them. `wrong`: what does not fit, a line each."""

    def __init__(self, data, pages):
        self.data, self.wrong, self.promises = data, [], []
        for document, known in data["documents"].items():
            self._read(document, known, tables(pages[document]))

    def _read(self, document, known, found):
        names = [table.name for table in found]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.wrong.append(f"{document}: two tables are called \"{name}\"")
        for table in found:
            if table.name not in known:
                self.wrong.append(f"{document}: the table \"{table.name}\" is not in the file: its rows, or why they are no promises")
            elif "no promise" not in known[table.name]:
                self._rows_of(document, table, known[table.name], {other.name: other for other in found})
        self.wrong += [f"{document}: there is no table \"{name}\" any more" for name in known if name not in names]

    def _rows_of(self, document, table, how, found):
        own = how.get("rows", {})
        keys = [row.key for row in table.rows]
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            self.wrong.append(f"{document}, {table.name}: two rows are \"{key}\"")
        self.wrong += [f"{document}, {table.name}: there is no row \"{key}\" any more" for key in own if key not in keys]
        told = self._column(document, how, found) if "column" in how else {}
        for key in keys:
            if "each row" in how:
                self.promises.append(_entry(document, table.name, key, how["each row"]))
            elif "column" in how:
                self.promises.append(_entry(document, table.name, key, own.get(key, {}), told.get(key, ())))
            elif key in own:
                if "no promise" not in own[key]:
                    self.promises.append(_entry(document, table.name, key, own[key]))
            else:
                self.wrong.append(f"{document}, {table.name}: the row \"{key}\" is not in the file")

    def _column(self, document, how, found):
        """{row: the tests that the page names}"""
        table = found.get(how["table"])
        if table is None or how["column"] not in table.head:
            self.wrong.append(f"{document}: there is no column \"{how['column']}\" of \"{how['table']}\"")
            return {}
        at = table.head.index(how["column"])
        return {row.key: [f"tests/e2e/{name}" for name in re.findall(r"`(test_\w+\.py::test_\w+)`", row.cells[at])] for row in table.rows}

    def with_rules(self):
        """The promises, those of docs/RULES.md behind them."""
        why = self.data.get("rules", {})
        found = [Promise(RULES, row.section, row.rule, row.tests, many=why.get(row.rule, "")) for row in rules.rows()]
        for rule, there_is in rules.unproved():
            named = tuple(re.findall(r"`(\w+\.\w+)`", there_is))
            found.append(Promise(RULES, rules.UNPROVED, rule, named, part=there_is if named else "", without="" if named else there_is))
        return [*self.promises, *found]


def load(file=FILE):
    return json.loads(file.read_text(encoding="utf-8"))


def pages(data, root=ROOT):
    return {document: (root / document).read_text(encoding="utf-8") for document in data["documents"]}


def in_default(promise, tests):
    return [test for test in promise.tests if tests.in_default_run(test)]


def wrong_with(promise, tests, beds):
    """What is wrong with a promise, a line each."""
    where = f"{promise.document}, {promise.table}: \"{promise.key}\""
    found = [f"{where}: {why}" for test in promise.tests if (why := tests.wrong(test))]
    if not promise.tests and not promise.without:
        found.append(f"{where} has no test")
    if promise.tests and promise.without:
        found.append(f"{where} has tests, and a reason why it has none")
    many = in_default(promise, tests)
    if len(many) > MANY and not promise.many:
        found.append(f"{where} has {len(many)} tests in a default run, and no reason for that")
    if promise.many and len(many) <= MANY:
        found.append(f"{where} has a reason for many tests, and {len(many)} in a default run")
    return found + [f"{where}: \"beds\" does not say which hosts {test} has" for test in promise.tests
                    if "? bed" in tests.levels(test, beds)]


def findings(documents, tests):
    """All that is wrong, a line each."""
    beds = documents.data["beds"]
    named = {test.removeprefix("tests/e2e/") for promise in documents.promises for test in promise.tests}
    idle = sorted(set(beds) - named - {name.split("::")[0] for name in named})
    every = documents.with_rules()
    known = {promise.key for promise in every if promise.document == RULES}
    gone = [f"{RULES}: there is no rule \"{rule}\" any more" for rule in documents.data.get("rules", {}) if rule not in known]
    return documents.wrong + gone + [line for promise in every for line in wrong_with(promise, tests, beds)] + \
        [f"\"beds\": no promise names {name}" for name in idle]


def lines_of(promise, tests, beds):
    """What is printed of a promise."""
    out = [f"    {promise.key}"]
    for level in LEVELS:
        named = [test for test in promise.tests if level in tests.levels(test, beds)]
        out += [f"      {level:16} {test}{'' if tests.in_default_run(test) else '  (--full)'}" for test in named]
    if not promise.tests:
        out.append(f"      without a test: {promise.without}")
    for word, text in (("in part; not shown", promise.part), ("many", promise.many)):
        if text:
            out.append(f"      {word}: {text}")
    return out


def head(name, promises, tests):
    """Of a document, or of all: how many promises there are, and how many of them have what."""
    shown = [promise for promise in promises if promise.tests]
    only_full = [promise for promise in shown if not in_default(promise, tests)]
    return (f"{name}: {len(promises)} promises, {len(promises) - len(shown)} without a test, "
            f"{sum(bool(promise.part) for promise in shown)} shown in part, {len(only_full)} only with --full, "
            f"{sum(len(in_default(promise, tests)) > MANY for promise in shown)} with more than {MANY} tests in a default run")


def document_named(text, names):
    """The document that somebody means by docs/HOST.md, HOST.md or host. ValueError: it is none."""
    found = [name for name in names if pathlib.PurePath(name).stem.lower() == pathlib.PurePath(text).name.lower().removesuffix(".md")]
    if not found:
        raise ValueError(f"--document {text}: the documents are {', '.join(names)}")
    return found[0]


def arguments(argv, description, names):
    parser = argparse.ArgumentParser(prog="promises", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--document", metavar="NAME", help="of this document alone: HOST, MPI, SOFTNIC or RULES")
    parser.add_argument("--missing", action="store_true", help="only promises without a test, and those that tests show in part")
    parser.add_argument("--many", action="store_true", help=f"only those with more than {MANY} tests in a default run")
    args = parser.parse_args(argv)
    try:
        args.document = args.document and document_named(args.document, names)
    except ValueError as error:
        parser.error(str(error))
    return args


def is_asked_for(promise, args, tests):
    if not args.missing and not args.many:
        return True
    return (args.missing and bool(promise.part or not promise.tests)) or (args.many and len(in_default(promise, tests)) > MANY)


def main(description, argv=None, documents=None, tests=None):
    """The command; its exit status."""
    if documents is None:
        data = load()
        documents = Documents(data, pages(data))
    tests = tests or Tests()
    names = [*documents.data["documents"], RULES]
    args = arguments(argv, description, names)
    every = documents.with_rules()
    for name in [args.document] if args.document else names:
        found, table = [promise for promise in every if promise.document == name], None
        print(head(name, found, tests))
        for promise in found:
            if not is_asked_for(promise, args, tests):
                continue
            if promise.table != table:
                table = promise.table
                print(f"  {table}")
            print("\n".join(lines_of(promise, tests, documents.data["beds"])))
    if not args.document:
        print(head("all", every, tests))
    wrong = findings(documents, tests)
    for line in wrong:
        print(f"promises: {line}", file=sys.stderr)
    return 1 if wrong else 0
