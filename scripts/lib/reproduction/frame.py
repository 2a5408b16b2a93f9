"""What a paper's figures are, beside ours: rows with a tolerance, and programs in virtual time that some of them ask.

A paper is a module with a PAPER; papers.py lists them. A figure's rows are made when it is asked for, from formulas alone
or by a program that prints one JSON object: the same on every machine.
"""
import json
import pathlib
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]


class NotBuilt(Exception):
    """A program is not there, or has failed; the text says which."""


class Row(typing.NamedTuple):
    """One figure of the paper and ours. `paper` is text, as the paper has it; ours must be from `low` to `high`."""
    what: str
    paper: str
    ours: float
    low: float
    high: float
    digits: int = 2  # behind the point, of ours and of the bounds
    unit: str = ""

    def right(self):
        return self.low <= self.ours <= self.high

    def cells(self):
        def number(value):
            return f"{value:.{self.digits}f}"
        bounds = number(self.low) if self.low == self.high else f"{number(self.low)} to {number(self.high)}"
        unit = f" {self.unit}" if self.unit else ""
        return [self.what, self.paper, number(self.ours) + unit, bounds, "" if self.right() else "OUT"]


class Figure(typing.NamedTuple):
    """`rows` is a function of a Programs; `why`, what the figure is made of and why ours differs from the paper's, where it
    does; `more`, a function that gives a text below the table."""
    name: str
    title: str
    rows: typing.Callable
    why: str
    by_program: bool = False  # else by formulas alone
    more: typing.Callable = lambda: ""
    is_long: bool = False  # made only when it is asked for


class Paper(typing.NamedTuple):
    """`errata`: what is wrong in it, as far as its figures show it. `left_out`: pairs of a figure and why it is not here."""
    name: str
    title: str
    figures: tuple
    errata: tuple
    left_out: tuple

    def chosen(self, only=None, formulas=False, long=False):
        """Its figures: the one of that name; or all, without those by programs, and with those that take long."""
        return [figure for figure in self.figures
                if (long or not figure.is_long if only is None else figure.name == only)
                and not (formulas and figure.by_program)]


class Programs:
    """Programs of a build tree; keeps the commands that were run. What each has printed all of them know: figures that are made
    of the same run ask for it once."""
    _printed: typing.ClassVar = {}

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.commands = []

    def run(self, program, *options):
        """The object that a program prints. NotBuilt if it is not there, or fails."""
        words = [str(self.build / program), *map(str, options)]
        command = " ".join([program.rsplit("/", 1)[-1], *words[1:]])
        self.commands.append(command)
        known = " ".join(words)
        if known in self._printed:
            return self._printed[known]
        try:
            ran = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            raise NotBuilt(f"{words[0]}: {error.strerror} (cmake --build --preset release --target {words[0].rsplit('/', 1)[-1]})"
                           ) from error
        if ran.returncode != 0:
            raise NotBuilt(f"{command}: exit status {ran.returncode}: {ran.stderr.strip()}")
        self._printed[known] = json.loads(ran.stdout)
        return self._printed[known]


def table(heads, rows):
    """A table of Markdown; the first column is text."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


class Shown(typing.NamedTuple):
    """A figure that was made: its text, and the rows that are out of their bounds."""
    text: str
    out: list


def show(figure, build):
    """Makes a figure. NotBuilt as Programs."""
    programs = Programs(build)
    rows = figure.rows(programs)
    parts = [f"### {figure.name}: {figure.title}",
             table(["", "paper", "ours", "ours may be", ""], [row.cells() for row in rows])]
    more = figure.more()
    if more:
        parts.append(more)
    parts.append(figure.why)
    if programs.commands:
        parts.append("\n".join(["By:", "", *(f"    {command}" for command in dict.fromkeys(programs.commands))]))
    return Shown("\n\n".join(parts), [f"{figure.name}: {row.what}" for row in rows if not row.right()])


def epilogue(paper):
    """What is behind the figures."""
    parts = []
    if paper.errata:
        parts.append("### Errata\n\n" + "\n".join(f"- {text}" for text in paper.errata))
    if paper.left_out:
        rows = [list(pair) for pair in paper.left_out]
        parts.append("### Left out\n\n" + "\n".join(
            ["| | why |", "|---|---|"] + ["| " + " | ".join(row) + " |" for row in rows]))
    return "\n\n".join(parts)
