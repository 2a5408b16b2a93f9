"""The table of modes (protocol/modes.h) is the only list of them: whoever else names one is found here."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import modes  # noqa: E402

CODE = "base bench check commlib examples incagent incengine incmanager io proto protocol reduce roce sim softnic tests".split()
NAMED = "|".join(sorted(modes.enumerators(modes.TABLE.read_text(encoding="utf-8"))))
PROTO = "|".join(mode.proto for mode in modes.ROWS)
ENUMERATOR = re.compile(rf"\bMode::k({NAMED})\b|\b({PROTO})\b")
# Those who know single modes, and why. What is true of a mode belongs into its row.
MAY_NAME = {
    "protocol/modes.h": "the table",
    "incengine/modes/table.cc": "what the engine needs of each",
    "sim/scenario.cc": "what \"mixed\" chooses from",
}


def is_test(path):
    return path.parts[0] == "tests" or re.search(r"_(test|fuzz|bench|testing)\.(cc|h)$", path.name) is not None


def files(suffixes, folders=(*CODE, "scripts")):
    found = [f for folder in folders for f in sorted((ROOT / folder).rglob("*")) if f.suffix in suffixes and f.is_file()]
    return {str(f.relative_to(ROOT)): f.read_text(encoding="utf-8") for f in found if "corpus" not in f.parts}


def places(texts, pattern):
    """FILE:LINE of what matches, over lines."""
    return [f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(0)}" for name, text in texts.items() for m in pattern.finditer(text)]


def test_the_enumeration_the_table_and_the_messages_have_the_same_modes():
    numbers = modes.enumerators(modes.TABLE.read_text(encoding="utf-8"))
    rows = {mode.enumerator: mode.number for mode in modes.ROWS}
    assert rows == numbers, "each mode has a row of protocol/modes.h, as scripts/lib/modes.py reads them"
    assert modes.DEFAULT in modes.NUMBERS
    proto = (ROOT / "proto" / "switch.proto").read_text(encoding="utf-8")
    of_messages = {name: int(number) for name, number in re.findall(r"^  (MODE_\w+) = (\d+);", proto, re.M)}
    assert of_messages == {"MODE_UNSPECIFIED": 0} | {mode.proto: mode.number for mode in modes.ROWS}


def test_no_product_code_asks_for_single_modes():
    texts = {name: text for name, text in files((".cc", ".h")).items() if not is_test(pathlib.Path(name))}
    assert places({name: text for name, text in texts.items() if name not in MAY_NAME}, ENUMERATOR) == []
    idle = [name for name in MAY_NAME if not ENUMERATOR.search(texts.get(name, ""))]
    assert idle == [], "they name no mode any more"


def test_no_number_stands_for_the_first_or_last_mode():
    texts = files((".cc", ".h"))
    asked = re.compile(r"\b[mM]ode(?:\(\)|_)? ?(?:(?:<=?|>=?) ?(?:\d|Mode::|proto::MODE_)|[=!]= ?[1-9])|Mode>\(\w+(?:\[0\])? - '0'\)|"
                       r"static_cast<(?:\w+::)*Mode>\([4-9]\)")
    assert places(texts, asked) == [], "ModeNamed and ModeOfNumber know the modes; the one that there is not is 99"


def test_tests_take_all_modes_from_the_table():
    texts = {n: t for n, t in files((".cc", ".h")).items() if n not in ("protocol/modes.h", "incengine/modes/table.cc", "sim/scenario.cc")}
    numbers = re.compile(r'"1",\s*"2",\s*"3"')
    assert places({n: t for n, t in texts.items() if n != "protocol/modes_test.cc"}, numbers) == [], "AllModes(), sim::ModesOfScenarios()"
    listed = []
    for name, text in texts.items():
        for statement in re.split(r";|\bTEST", text):
            if len(set(ENUMERATOR.findall(statement))) >= len(modes.ALL):
                listed.append(f"{name}: {statement.strip()[:80]}")
    assert listed == [], "AllModes()"


def test_no_host_has_a_qpn_of_switches_that_bear_addresses():
    """Of mode IV: softnic's blocks of 256 end where the manager's range for switches begins."""
    first = re.search(r"kFirstBorneQpn = (0x\w+);", (ROOT / "incmanager/groups/qpn_pool.h").read_text(encoding="utf-8"))[1]
    end = re.search(r"kCount = (0x\w+) - kFirst;", (ROOT / "softnic/verbs/qpn_block.cc").read_text(encoding="utf-8"))[1]
    assert int(first, 16) == int(end, 16) * 256


def test_each_mode_is_explored():
    explored = (ROOT / "check" / "configurations.txt").read_text(encoding="utf-8")
    assert [m.name for m in modes.ALL if f"--mode {m.number} " not in explored] == [], "check/configurations.txt: what scripts/prove explores"


def test_scripts_take_all_modes_from_the_table():
    texts = files((".py", ""), ("scripts", "bench", "check", "tests"))
    del texts["tests/style/modes_test.py"]
    listed = re.compile(r"^(?=.*(?i:mode)).*(?:[\[(]1, 2, 3[\])]|range\(1, 4\)|\"1,2,3\"|'I' \*|\[123\]).*$", re.M)
    assert places(texts, listed) == [], "scripts/lib/modes.py has them"


def test_operators_are_told_of_each_mode():
    deploy = (ROOT / "docs" / "DEPLOY.md").read_text(encoding="utf-8")
    missing = [mode.name for mode in modes.ALL
               if not re.search(rf"^\| {mode.number}, {mode.name}\b", deploy, re.M) or not re.search(rf"^\| {mode.number} \|", deploy, re.M)]
    assert missing == [], "docs/DEPLOY.md, Modes: when to choose it, and its buffers"
    for mode in modes.ALL:
        row = re.search(rf"^\| {mode.number} \| (.*?) \| (.*?) \|", deploy, re.M)
        told = [cell.replace("·", "*").replace("−", "-") for cell in row.groups()]
        assert told[0] == mode.formula[False], mode.name
        assert told[1] == mode.formula[True] or (told[1] == "the same" and mode.formula[True] == mode.formula[False]), mode.name


def test_each_mode_has_its_tables():
    """In a section of docs/PROTOCOL.md, or in a page that the README names."""
    protocol = (ROOT / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for mode in modes.ALL:
        page = f"docs/PROTOCOL-MODE-{mode.numeral}.md"
        assert re.search(rf"^## \d+\. Mode {mode.numeral}:", protocol, re.M) or (ROOT / page).exists() and page in readme, page
