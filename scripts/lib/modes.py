"""The modes, as protocol/modes.h has them: scripts and tests read its table, and list none of their own."""
import argparse
import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parents[2] / "protocol" / "modes.h"
_ROW = re.compile(r'ModeInfo\{\s*\.mode = Mode::k(\w+),\s*\.numeral = "(\w+)",\s*\.name = "([\w-]+)",\s*'
                  r'\.reliability = Reliability::k(\w+),\s*(?:\.ends_connections = true,\s*)?(\.bears_hosts = true,)?\s*'
                  r'(?:\.reads_hosts = true,\s*)?(\.hidden = true,)?\s*(\.in_pool = true,)?.*?\.buffer = \{\.text = "([^"]+)".*?'
                  r'\.reproducible_buffer = \{\.text = "([^"]+)"', re.S)


class Mode:
    """A row: `number`, `numeral` ("II"), `name` ("translated"), `per_hop` (each hop sees to itself), the paper's `formula` for its buffers by
    whether sums are reproducible, the `enumerator` ("Translated"), and what it is in messages."""

    def __init__(self, number, row):
        self.number = number
        self.enumerator, self.numeral, self.name, reliability, bears, hidden, in_pool, *formulas = row
        self.per_hop = reliability == "PerHop"
        self.bears_hosts = bears != ""
        self.in_pool = in_pool != ""
        self.hidden = hidden != ""
        self.formula = dict(zip((False, True), formulas))
        self.proto = "MODE_" + re.sub(r"(?<!^)([A-Z])", r"_\1", self.enumerator).upper()


def enumerators(text):
    """{"Translated": 2} of the enumeration, without that which is no mode."""
    body = re.search(r"enum class Mode : uint8_t \{(.*?)\};", text, re.S).group(1)
    return {name: int(number) for name, number in re.findall(r"k(\w+) = (\d+)", body) if name != "Unspecified"}


def read(table=TABLE):
    """The rows of a table, in order."""
    text = table.read_text(encoding="utf-8")
    numbers = enumerators(text)
    return [Mode(numbers[row[0]], row) for row in _ROW.findall(text)]


def default(table=TABLE):
    """The number of the mode that a group has unless somebody chooses."""
    text = table.read_text(encoding="utf-8")
    return enumerators(text)[re.search(r"kDefaultMode = Mode::k(\w+);", text).group(1)]


ROWS = read()
# Those that somebody can choose.
ALL = [mode for mode in ROWS if not mode.hidden]
# Those whose groups need neither a pool nor a host that lends memory: what runs in every mode runs in these.
OWN_MEMORY = [mode for mode in ALL if not mode.in_pool]
DEFAULT = default()
NUMBERS = tuple(mode.number for mode in OWN_MEMORY)
# What modes have that is not another's: mode IV is mode II under hosts' addresses. Tests of sizes, memory, super-frames and back-pressure run
# in these; what an address can break (the matrix of collectives, losses, late ranks, faults, forged sources, cores, traces) in all.
OWN_LOGIC = tuple(mode.number for mode in OWN_MEMORY if not mode.bears_hosts)
BY_NUMBER = {mode.number: mode for mode in ALL}
CHOICE = ", ".join(f"{mode.number} ({mode.numeral}, {mode.name})" for mode in ALL)


def numeral(number):
    """ "II" of 2 or "2"."""
    return BY_NUMBER[int(number)].numeral


def number_of(text):
    """For argparse: the number of a mode by any of its names."""
    for mode in ALL:
        if text.lower() in (str(mode.number), mode.numeral.lower(), mode.name):
            return mode.number
    raise argparse.ArgumentTypeError(f"'{text}' is not a mode: {CHOICE}")
