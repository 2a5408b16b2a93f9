"""A new field of a group's context, from the manager to the engine, touches at most four files: here one is added to copies of
them, as docs/HACKING.md says, and compiles, and travels."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 4
PROTO = "proto/switch.proto"
# A field that bounds how many children a switch may have in the group: file -> what is added there, behind which line.
EDITS = {
    PROTO: [("  uint64 block_bytes = 16;", "  uint32 most_children = 18;")],
    "protocol/group_parameters.h": [
        ("  uint64_t block_bytes = 0;", "  uint32_t most_children = 64;"),
        ("  if (message.prompt_ns() != 0)", "  out.most_children = message.most_children();"),
        ("  message->set_block_bytes(", "  message->set_most_children(parameters.most_children);")],
    "incmanager/groups/group_install.cc": [("  out.start_messages = ", "  out.most_children = 32;")],
    "incengine/state/config.cc": [
        ("  const uint32_t mtu = config.path_mtu;",
         '  if (config.children.size() > config.most_children) return Invalid("most_children: fewer than there are");')],
}
# The message has what its template says it has, so that no gRPC need be compiled.
PROGRAM = """#include "incengine/state/config.cc"
#include "incmanager/groups/group_install.cc"
%s
constexpr bool Travels() {
  epic::GroupParameters sent{.most_children = 5};
  Message message;
  epic::SetParameters(sent, &message);
  return epic::ParametersOf(message).most_children == 5;
}
static_assert(Travels());
static_assert(sizeof(epic::engine::GroupConfig::most_children) == sizeof(epic::manager::ContextPlan::most_children));
"""


def message_of(proto):
    """A struct with the accessors of the message's fields that are numbers, names or modes."""
    body = re.search(r"^message GroupConfig {\n(.*?)^}", proto, re.M | re.S)[1]
    kinds = {"string": "std::string", "bool": "bool", "Mode": "int", "uint32": "uint32_t", "uint64": "uint64_t"}
    fields = re.findall(r"^  (string|bool|Mode|uint32|uint64) (\w+) = \d+;", body, re.M)
    members = "".join(f"  {kinds[kind]} {name}_{{}};\n  constexpr {kinds[kind]} {name}() const {{ return {name}_; }}\n"
                      f"  constexpr void set_{name}({kinds[kind]} value) {{ {name}_ = value; }}\n" for kind, name in fields)
    return f"struct Message {{\n{members}}};\n"


def changed(folder, edits):
    """Copies of the files, with what is added."""
    for file, added in edits.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        for behind, line in added:
            text, times = re.subn(f"^{re.escape(behind)}.*$", lambda match, line=line: f"{match[0]}\n{line}", text, flags=re.M)
            assert times == 1, f"{file} has not one line that begins with {behind!r}"
        copy = folder / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")


def compiled(folder):
    (folder / "field.cc").write_text(PROGRAM % message_of((folder / PROTO).read_text(encoding="utf-8")), encoding="utf-8")
    command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{folder}", f"-I{ROOT}", str(folder / "field.cc")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_new_field_touches_at_most_four_files(tmp_path):
    assert len(EDITS) <= MOST
    changed(tmp_path, EDITS)
    done = compiled(tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_field_that_is_not_sent_is_found(tmp_path):
    edits = EDITS | {"protocol/group_parameters.h": EDITS["protocol/group_parameters.h"][:2]}
    changed(tmp_path, edits)
    done = compiled(tmp_path)
    assert done.returncode != 0 and "static assertion failed" in done.stderr and "Travels()" in done.stderr


def test_the_message_is_taken_apart_in_one_place():
    """Nobody else copies the fields one by one: what would be a fifth file."""
    own = "protocol/group_parameters.h"
    copies = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("*/**/*.cc")) + sorted(ROOT.glob("*/**/*.h"))
              if path.relative_to(ROOT).parts[0] != "build" and not path.stem.endswith(("_test", "_fuzz", "_testing"))
              and re.search(r"set_(block_bytes|accumulator_mtus)\(", path.read_text(encoding="utf-8"))]
    assert copies == [own]
