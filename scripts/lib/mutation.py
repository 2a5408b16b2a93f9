"""Mutants: mistakes that tests or the checker must find, in tests/mutants. Each is a few edits, made to copies only.

A file there has an entry for each mutant, under its name. What an entry says beside its `edits` depends on its kind: rules that are
taken out (rules.py), mistakes at the edges (edge.py), canaries (canaries.py). An edit says where, and lines in a row:

    - file: incengine/modes/translated_state.cc
      in: Prompt
      lines: |
        = ++child.counters.prompts;
        + if (env.now > 0) return;

`= line` stays, `- line` goes, `+ line` comes. Those that stay or go must be there, one after the other, in the definition that is
named: once in all of that name. Without `in` the whole file counts. What is around them may change, and their indentation, as long as
they keep it to each other. What comes is indented as they are.
"""
import hashlib
import json
import pathlib
import re
import typing

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/mutants"
KINDS = {"rules": "rules/*.yaml", "edge": "edge/*.yaml", "canaries": "canaries.yaml"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What begins a line with a name and braces, and is no definition of that name.
CONTROL = re.compile(r"(?:\} *)?(?:if|else|elif|for|while|switch|case|return|do|try|catch|with|except)\b")
PYTHON = re.compile(r"(?:async )?(?:def|class) ")


class Wrong(Exception):
    """What a mutant, or what is run with it, is other than stated."""


class Edit(typing.NamedTuple):
    file: str
    within: str | None                   # a definition of this name; None: anywhere in the file
    lines: tuple[tuple[str, str], ...]   # (mark, text), at least one of which stays or goes

    def old(self):
        return [text for mark, text in self.lines if mark != "+"]

    def place(self):
        return f"{self.file}, {self.within}" if self.within else self.file


def entries(kind, folder=FOLDER):
    """{name: entry} of a kind, in the order of its files."""
    found = {}
    for file in sorted(folder.glob(KINDS[kind])):
        text = file.read_text(encoding="utf-8")
        table = yaml.load(text, LOADER)
        # A mapping has each name once, whatever the file has.
        names = re.findall(r"^([^\s#:]+):", text, re.M)
        if twice := sorted({name for name in names if names.count(name) > 1 or name in found}):
            raise Wrong(f"{file.name}: there are two of {', '.join(twice)}")
        found |= table
    return found


def check_keys(name, entry, needed, others=()):
    """Refuses an entry that lacks one of these, or has one that nobody reads."""
    if missing := [key for key in needed if key not in entry]:
        raise Wrong(f"{name}: it lacks {', '.join(missing)}")
    if unknown := sorted(set(entry) - {*needed, *others}):
        raise Wrong(f"{name}: nobody reads {', '.join(unknown)}")


def edits_of(name, entry):
    """The entry's edits, checked as far as that needs no tree."""
    found = []
    for edit in entry["edits"]:
        check_keys(name, edit, ("file", "lines"), ("in",))
        lines = tuple((line[:1], line[2:]) for line in edit["lines"].splitlines())
        if any(mark not in ("=", "-", "+") or (text and line[1:2] != " ")
               for (mark, text), line in zip(lines, edit["lines"].splitlines())):
            raise Wrong(f"{name}: {edit['file']}: a line begins with neither '= ' nor '- ' nor '+ '")
        if not any(mark != "+" and text for mark, text in lines) or all(mark == "=" for mark, _ in lines):
            raise Wrong(f"{name}: {edit['file']}: an edit changes something, behind or before a line that is there")
        found.append(Edit(edit["file"], edit.get("in"), lines))
    return tuple(found)


def files_of(edits):
    """What they change, each file once."""
    return tuple(dict.fromkeys(edit.file for edit in edits))


def hash_of(edits):
    """Short; the same as long as they do the same by the same words."""
    return hashlib.sha256(json.dumps(edits).encode()).hexdigest()[:12]


def _indent(line):
    return len(line) - len(line.lstrip(" "))


def definitions(lines, name):
    """[(first, end), ...] of the definitions of this name, as indentation shows them: functions, types, constants.

    One begins in a line with the name and ends before the next that is not indented more, or with it if that closes a brace.
    """
    word = re.compile(rf"(?<![\w:~]){re.escape(name)}(?!\w)")
    found = []
    for first, line in enumerate(lines):
        if name not in line or not word.search(line) or CONTROL.match(line.lstrip()):
            continue
        depth, end = _indent(line), first + 1
        # The preprocessor's lines are not indented.
        while end < len(lines) and (not lines[end].strip() or lines[end].lstrip()[:1] == "#" or _indent(lines[end]) > depth):
            end += 1
        closed = end < len(lines) and lines[end].startswith(" " * depth + "}")
        while not closed and not lines[end - 1].strip():
            end -= 1
        if depth == 0 or closed or PYTHON.match(line.lstrip()):
            found.append((first, end + closed))
    return found


def _shift(lines, first, old):
    """By how much `lines` from `first` on are indented more than these, or None if they are others."""
    shift = None
    for line, text in zip(lines[first:first + len(old)], old):
        if line.lstrip(" ") != text.lstrip(" "):
            return None
        if text:
            more = _indent(line) - _indent(text)
            if shift is not None and more != shift:
                return None
            shift = more
    return shift


def find(edit, lines):
    """(first line, indentation to add) of where the edit is to be made in these lines of its file."""
    old = edit.old()
    hits = {}
    for first, end in definitions(lines, edit.within) if edit.within else [(0, len(lines))]:
        for line in range(first, end - len(old) + 1):
            if line not in hits and (shift := _shift(lines, line, old)) is not None:
                hits[line] = shift
    if len(hits) == 1:
        return next(iter(hits.items()))
    if edit.within and not definitions(lines, edit.within):
        raise Wrong(f"{edit.file} has no {edit.within}")
    raise Wrong(f"{edit.place()} has {f'{len(hits)} times' if hits else 'not'}, in a row, {old}")


def _new_lines(edit, lines, first, shift):
    """What takes the place of the edit's old lines, which are at `first`."""
    new, line = [], first
    for mark, text in edit.lines:
        if mark == "+":
            if text and _indent(text) + shift < 0:
                raise Wrong(f"{edit.place()}: nothing can be indented less than {lines[first]!r}, as {text!r} is")
            new.append(" " * (_indent(text) + shift) + text.lstrip(" ") if text else "")
            continue
        if mark == "=":
            new.append(lines[line])
        line += 1
    return new


def changed(edits, text_of):
    """{file: text with the edits of it}; text_of(file) is what it is without. Wrong: one does not fit, or two are of one line."""
    by_file = {file: [edit for edit in edits if edit.file == file] for file in files_of(edits)}
    found = {}
    for file, of_file in by_file.items():
        lines = text_of(file).split("\n")
        places = sorted(((*find(edit, lines), edit) for edit in of_file), key=lambda place: place[0])
        if any(first + len(edit.old()) > then for (first, _, edit), (then, _, _) in zip(places, places[1:])):
            raise Wrong(f"{file}: two edits of the same line")
        for first, shift, edit in reversed(places):
            lines[first:first + len(edit.old())] = _new_lines(edit, lines, first, shift)
        found[file] = "\n".join(lines)
    return found


def reader(tree):
    """text_of() of a tree, which reads each file once; one that is not there is empty."""
    texts = {}

    def text_of(file):
        if file not in texts:
            texts[file] = (tree / file).read_text(encoding="utf-8") if (tree / file).is_file() else ""
        return texts[file]

    return text_of


def misfits(mutants, tree):
    """["NAME: why", ...] of those that cannot be applied to the tree, each by itself. They have `name` and `edits`."""
    text_of, wrong = reader(tree), []
    for mutant in mutants:
        try:
            changed(mutant.edits, text_of)
        except Wrong as why:
            wrong.append(f"{mutant.name}: {why}")
    return wrong


def apply(edits, tree):
    """Makes the edits in the tree; why not, if that cannot be done, and then none."""
    try:
        texts = changed(edits, reader(tree))
    except Wrong as why:
        return str(why)
    for file, text in texts.items():
        (tree / file).write_text(text, encoding="utf-8")
    return None


def changed_lines(edits, tree):
    """["FILE:LINE", ...] as the tree has them: those that go, and the last before what comes."""
    text_of, found = reader(tree), []
    for edit in edits:
        line = find(edit, text_of(edit.file).split("\n"))[0] + 1
        for mark, _ in edit.lines:
            if mark != "=":
                found.append(f"{edit.file}:{line - (mark == '+')}")
            line += mark != "+"
    return list(dict.fromkeys(found))
