"""The checker's snapshots hold every field of a switch's state: one that check/snapshot_fields.h does not name does not compile
there, and one that it names it saves, or says that it need not be."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where fields are bound, and how a function ends there.
FILES = {"check/snapshot_fields.h": r"^}$", "check/snapshot_path.h": r"^}$", "check/snapshot.h": r"^  }$"}
# The plain structs of a context, to which modes add fields, by header; in each dictionary such as are told of in one compile.
# A struct within another one is told of only where that one is whole.
STRUCTS = ({"incengine/state/context.h": ("Context", "Endpoint", "Slot"), "check/path_host.h": ("PathHost",)},
           {"incengine/state/context.h": ("Invocation", "ControlSlot", "IndexRange", "HopState", "Repair"), "commlib/core/host_path.h": ("Connection",),
            "commlib/core/host_exchange.h": ("HostBlock", "Round")},
           {"commlib/core/host_path.h": ("HostPath",), "incengine/state/context.h": ("ChildProgress",)},
           {"commlib/core/host_call.h": ("HostCall",), "commlib/core/host_exchange.h": ("HostExchange",),
            "commlib/core/host_ring.h": ("HostRing",)})
WRITER = "epic::check::Writer"
SAVES = f"""#include "check/snapshot.h"
template void epic::Snapshot::Engine<{WRITER}>({WRITER}&, const epic::engine::Engine&, uint64_t);
template void epic::Snapshot::Endpoint<{WRITER}>({WRITER}&, const epic::engine::Endpoint&);
template void epic::Snapshot::Slots<{WRITER}>({WRITER}&, const epic::engine::Engine&, const epic::engine::Context&,
                                              const epic::Pipe&);
template void epic::Snapshot::Path<{WRITER}>({WRITER}&, const epic::check::PathHost&,
                                             const std::vector<epic::Snapshot::Buffers>&);
"""


def bindings(text, end):
    """Each structured binding: its names, and what follows within its function."""
    for match in re.finditer(r"auto& \[([^\]]*)\] =", text):
        body = text[match.end():]
        yield re.findall(r"\w+", match.group(1)), body[:re.search(end, body, re.M).start()]


def test_what_is_named_is_saved_or_said_to_be_left_out():
    idle, number = [], 0
    for file, end in FILES.items():
        for names, body in bindings((ROOT / file).read_text(encoding="utf-8"), end):
            number += 1
            idle += [f"{file}: {name} is named, and neither saved nor NotSaved" for name in names if not re.search(rf"\b{name}\b", body)]
    assert number >= 15
    assert idle == []


def test_times_are_saved_as_times():
    """A time that is saved as a number makes states differ that are the same but for the clock."""
    saved = (ROOT / "check/snapshot_fields.h").read_text(encoding="utf-8")
    context = (ROOT / "incengine/state/context.h").read_text(encoding="utf-8")
    times = re.findall(r"^  Nanos (\w+)", context, re.M)
    assert len(times) >= 9
    assert [f"{name}: by Deadline or Past" for name in times if not re.search(rf"a\.(Deadline|Past)\({name}\b", saved)] == []


def compiling_with_more(headers, folder):
    """A compiler that reads copies of headers, each with a field more in these structs of it."""
    for header, structs in headers.items():
        text = (ROOT / header).read_text(encoding="utf-8")
        for struct in structs:
            text, times = re.subn(rf"^( *(?:struct|class) {struct} {{)$", r"\1\n  bool added = false;", text, flags=re.M)
            assert times == 1, struct
        changed = folder / header
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text, encoding="utf-8")
    (folder / "saves.cc").write_text(SAVES, encoding="utf-8")
    compiler = ["c++", "-std=c++20", "-fsyntax-only", f"-I{folder}", f"-I{ROOT}", str(folder / "saves.cc")]
    return subprocess.Popen(compiler, stderr=subprocess.PIPE, text=True)


@pytest.mark.in_turn(len(STRUCTS))  # each takes five seconds of a processor, and a field that is forgotten fails the build
@pytest.mark.parametrize("headers", STRUCTS, ids=lambda headers: "-".join(struct for structs in headers.values() for struct in structs))
def test_a_field_that_is_not_named_does_not_compile(tmp_path, headers):
    with compiling_with_more(headers, tmp_path) as compiler:
        _, said = compiler.communicate()
    assert compiler.returncode != 0
    for struct in (struct for structs in headers.values() for struct in structs):
        assert re.search(rf"::{struct}['’] decomposes into", said), f"{struct}\n{said}"
