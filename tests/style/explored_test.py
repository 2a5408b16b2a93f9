"""docs/PROOF.md says how far epic-check has gone: as check/explored.py reads it from the files, and no further."""
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "check"), str(ROOT / "scripts/lib")]
import explored  # noqa: E402
import page  # noqa: E402

PAGE = explored.PAGE.read_text(encoding="utf-8")


def of_file(tmp_path, text):
    file = tmp_path / "configurations.txt"
    file.write_text(text, encoding="utf-8")
    return explored.configurations([file])


def test_the_page_is_what_the_script_writes():
    assert page.put(PAGE, "explored", explored.block(explored.configurations())) == PAGE, "check/explored.py --write-page writes it anew"


def test_what_is_not_given_is_as_by_default():
    setup = (ROOT / "check/setup.h").read_text(encoding="utf-8")
    names = {"late-calls": "late_calls", "packets": "message_packets"}
    for option, value in explored.DEFAULTS.items():
        assert re.search(rf' {names.get(option, option)} = "?{value}"?;', setup), option


def test_the_most_is_said_and_nothing_twice(tmp_path):
    found = of_file(tmp_path, """# None.
--mode 3 --collective reduce@1,barrier*2 --topology star-3 --losses 1   # covers the next
--mode 3 --collective reduce --topology star-2 --losses 1
--mode 3 --collective reduce --topology star-2 --losses 2
--mode 133 --collective reduce+ --crashes 1 --losses 1
--mode 1 --late-calls any --topology star-2
--mode 1 --late-calls 3 --topology star-2 --calls after-results --reorder any --messages 2
--mode 3 --collective broadcast --topology star-2 --late-timers 2
""")
    by_fault = "\n".join(explored.by_fault(found))
    assert "| reduce | III | 1 on star-3; 2 on star-2 | – | – | – | – | – | – | – |" in by_fault
    assert "| barrier | III | 1 on star-3 | – |" in by_fault
    assert ("| reduce+ | I and III | 1 on tree-3-2 | – | – | – | – | 1 on tree-3-2 | – | tree-3-2, 1 loss, 1 crash |"
            ) in by_fault
    assert "| broadcast | III | – | – | – | – | 2 on star-2 | – | – | – |" in by_fault
    assert ("| allreduce | I | any: star-2; 3: star-2, after results, no order, 2 messages | – | "
            "star-2, 3 late, no order, 2 messages | star-2, 3 late, after results, 2 messages |"
            ) in "\n".join(explored.by_order(found))


def test_what_goes_between_the_hosts_is_in_no_tree(tmp_path):
    assert of_file(tmp_path, "--path hosts --ranks 3 --collective allreduce --losses 1\n") == set()


def test_the_papers_cases_are_six(tmp_path):
    found = of_file(tmp_path, "--paper --window 3\n")
    assert {(one.collective, one.mode) for one in found} == {
        (collective, mode) for collective in ("allreduce", "reduce", "broadcast") for mode in "23"}
    assert {(one.messages, one.faults[0]) for one in found} == {(3, 1)}


def normal(line):
    return {frozenset(options.items()) for options in explored.options_of(line) if options}


def test_what_the_tables_have_is_in_the_files():
    lines = [line for file in explored.TABLES for line in file.read_text(encoding="utf-8").splitlines()]
    known = set().union(*(normal(line) for line in lines if shlex.split(line, comments=True)))
    commands = re.findall(r"^\| `(--[^`]*)` \| [\d,]+ \|( [\d,]+ \|)?$", PAGE, re.M)
    assert len(commands) > 40
    for command, other_buffers in commands:
        assert normal(command + (" --buffers bounce" if other_buffers else "")) <= known, command
    losses = PAGE.split("| calls | mode | messages | losses |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (\w+) \| (\d) \| (\d+) \| (\d+) \|", losses, re.M)
    assert len(rows) > 10
    for collective, mode, messages, count in rows:
        line = f"--mode {mode} --collective {collective} --messages {messages} --losses {count}"
        assert (normal(f"{line} --window {messages}") | normal(line if messages == "2" else "")) & known, line
