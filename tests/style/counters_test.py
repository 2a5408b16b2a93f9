"""docs/COUNTERS.md has every counter that the code has, and no other, and says where it is shown."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/COUNTERS.md"
CONTROL = "incengine/daemon/control.cc"
# What the engine's control shows: each has a table (base/counter_table.h) in the header of its struct.
SHOWN_BY_CONTROL = {"ContextCounters", "EndpointCounters", "SwitchCounters", "SwitchPortCounters", "PortCounters", "PoolCounters", "LegCounters"}
# Those that nobody shows, by the page's name for what has them.
INSIDE = {"QpCounters": "rc", "UcCounters": "uc", "UdCounters": "ud", "NicCounters": "nic", "EthernetPortCounters": "port",
          "DevicePortCounters": "device"}
COLUMNS = ("tables", "group", "edge", "show", "calls", "report", "nowhere")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def in_page(text):
    """What the page's tables have, as (counter, where it is shown) pairs; each pair once."""
    pairs = []
    for name, shown in re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", text, re.M):
        pairs += [(name, where) for where in shown.strip().split(", ")]
    return pairs


def body(text, head):
    """From a line that begins with head to the brace at the margin that ends it."""
    begin = text.index(head)
    return text[begin:text.index("\n}", begin)]


def reasons(enum):
    """The names of an enum's values, as its function Name gives them."""
    files = [ROOT / "incengine/state/effects.cc", *sorted((ROOT / "incengine/core").glob("*.cc")), ROOT / "roce/frame.cc"]
    for path in files:
        text = path.read_text(encoding="utf-8")
        head = re.search(rf"^const char\* Name\((?:roce::)?{enum} \w+\) {{", text, re.M)
        if head:
            names = re.findall(r'return "(\w+)";', body(text, head[0]))
            return [name for name in names if name not in ("ok", "not_roce")][:len(names)]
    raise AssertionError(f"no Name({enum})")


def headers():
    """The text of all headers of programs."""
    return [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("*/**/*.h"))
            if path.parts[len(ROOT.parts)] not in ("build", "tests", "sim", "check")]


def rows(text):
    """The tables of a header: by the struct's name, which is the table's without its k, (name, member) pairs."""
    return {struct: re.findall(rf'{{"(\w+)", &{struct}::(\w+)}}', table)
            for struct, table in re.findall(r"^inline constexpr auto k(\w+) = std::to_array<CounterRow<\w+>>\(\{\n(.*?)^\}\);", text, re.M | re.S)}


def tables():
    return {struct: table for text in headers() for struct, table in rows(text).items()}


def added(text, where, known):
    """What a function of the engine's control adds, if these are the tables."""
    pairs = [(("port.NAME." if port else "") + name, where) for port, name in re.findall(r'out\.Add\((port \+ )?"(\w+)"', text)]
    for struct, port in re.findall(r"AddEach\(\w+::k(\w+), [^;]*?(, port)?\);", text) + re.findall(r"std::span \w+\(\w+::k(\w+)()\);", text):
        pairs += [(("port.NAME." if port else "") + name, where) for name, _ in known[struct]]
    for enum, port, prefix in re.findall(r'AddReasons<engine::(\w+)>\((port \+ )?"(\w+_)"', text):
        pairs += [(f"{'port.NAME.' if port else ''}{prefix}{name}", where) for name in reasons(enum) if name != "unknown"]
    if 'fmt::format("bad_roce_{}"' in text:
        pairs += [(f"bad_roce_{name}", where) for name in reasons("ParseResult") if name != "unknown"]
    return pairs


def in_engine():
    text, known = read(CONTROL), tables()
    pairs = added(body(text, "void SwitchControl::DumpCounters("), "tables", known)
    pairs += added(body(text, "proto::GroupDump SwitchControl::DumpGroup("), "group", known)
    return pairs + added(body(text, "proto::EndpointDump DumpEndpoint("), "edge", known)


def in_show():
    text = body(read("incmanager/rpc/convert_engine.cc"), "void AddTrouble(")
    return [(name, "show") for name in set(re.findall(r'"(\w+)"', text)) - {"rnr_naks_sent"}] + [("rnr_naks_sent", "show")]


def counters_structs():
    """The fields of each struct that is called so, in headers of all programs."""
    for text in headers():
        for name, fields in re.findall(r"^struct (\w*Counters) {\n(.*?)^};", text, re.M | re.S):
            yield name, re.findall(r"^  (?:uint64_t|std::array<uint64_t[^;]*>) (\w+)", fields, re.M)


def inside():
    pairs = []
    for struct, fields in counters_structs():
        if struct in SHOWN_BY_CONTROL:
            continue
        assert struct in INSIDE, f"{struct}: where is it shown? {__file__} does not know it"
        pairs += [(f"{INSIDE[struct]}.{field}", "nowhere") for field in fields if field != "parse_results"]
    return pairs


def in_library():
    api = read("commlib/include/epic/epic.h")
    pairs = []
    for struct in ("Quantisation", "Sharing"):
        pairs += [(name, "calls") for name in re.findall(r"^  uint64_t (\w+)", body(api, f"struct {struct} {{"), re.M)]
    report = re.search(r"struct Count {(.*?)};", read("mpi/core/report.h"), re.S)[1]
    return pairs + [(name, "report") for name in re.findall(r"uint64_t (\w+)", report)]


def in_code():
    return in_engine() + in_show() + inside() + in_library()


def test_the_page_has_what_the_code_has():
    page, code = in_page(read(PAGE)), in_code()
    assert len(set(code)) > 150
    assert sorted(set(code) - set(page)) == [], "not in the page"
    assert sorted(set(page) - set(code)) == [], "not in the code"
    assert sorted(pair for pair in set(page) if page.count(pair) > 1) == [], "twice in the page"
    assert {where for _, where in page} == set(COLUMNS)


def test_every_counter_of_the_engine_is_shown():
    """A field that is counted and added to no answer is seen by nobody; it is shown by its own name."""
    control, known = read(CONTROL), tables()
    assert set(known) == SHOWN_BY_CONTROL
    assert [row for table in known.values() for row in table if row[0] != row[1]] == []
    shown = {struct: {name for name, _ in table} for struct, table in known.items()}
    hidden = [f"{struct}::{field}" for struct, fields in counters_structs() if struct in SHOWN_BY_CONTROL
              for field in fields if field not in shown[struct] and not re.search(rf"\.{field}\b", control)]
    assert hidden == []


def test_a_counter_more_or_less_is_found():
    page = read(PAGE)
    assert set(in_page(page.replace("| `repeats` |", "| `repetitions` |"))) - set(in_code()) == {
        ("repetitions", where) for where in ("tables", "group", "show")}
    known = tables() | rows(read("incengine/state/context.h").replace('{"asks",', '{"questions",'))
    more = added(body(read(CONTROL), "void SwitchControl::DumpCounters("), "tables", known)
    in_tables = {pair for pair in in_engine() if pair[1] == "tables"}
    assert set(more) ^ in_tables == {("questions", "tables"), ("asks", "tables")}
    assert set(more) - set(in_page(page)) == {("questions", "tables")}


def test_what_is_repeated_is_said_to_be_so():
    """What group show calls repeated are the page's repetitions."""
    listed = re.search(r"kRepeated\[\] = {(.*?)};", read("incmanager/cli/render.cc"), re.S)[1]
    section = re.search(r"^## Repetitions\n(.*?)^## ", read(PAGE), re.M | re.S)[1]
    assert set(re.findall(r'"(\w+)"', listed)) == {name for name, where in in_page(section) if where == "show"}
