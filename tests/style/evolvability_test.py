"""scripts/evolvability: runs on this tree, adds up, and finds what a small tree is made of."""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "evolvability"


def load():
    loader = importlib.machinery.SourceFileLoader("evolvability", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("evolvability", loader))
    loader.exec_module(module)
    return module


def test_this_tree_adds_up():
    found = json.loads(subprocess.run([SCRIPT, "--json"], check=True, capture_output=True, text=True).stdout)
    assert {"II", "III"} <= set(found["modes"])
    for mode in found["modes"].values():
        assert set(mode["calls"]) <= set(mode["modules"]) <= set(found["modules"])
        assert mode["lines"] == mode["own_lines"] + sum(found["modules"][m] for m in mode["modules"])
    two, three, reuse = found["modes"]["II"], found["modes"]["III"], found["reuse"]
    assert set(reuse["modules"]) == set(two["modules"]) & set(three["modules"])
    assert reuse["lines"] == sum(found["modules"][m] for m in reuse["modules"])
    assert reuse["share"] == reuse["lines"] / two["lines"]
    assert "pipe" in three["modules"] and "pipe" not in two["modules"]
    assert found["logic"] == {"IV": "II", "VI": "I"}


def test_a_small_tree(tmp_path):
    modules, modes = tmp_path / "incengine/modules", tmp_path / "incengine/modes"
    modules.mkdir(parents=True)
    modes.mkdir()
    (modules / "a.h").write_text("// void NotThis();\nvoid Do(int x);\n\n#define Y 1\n")
    (modules / "a.cc").write_text('void Do(int x) {\n  Deep("Other(");\n}\n')
    (modules / "b.h").write_text("struct S {\n  void Member();\n};\nint Deep(const char*);\n")
    (modules / "c.h").write_text("void Other();\n")
    (modes / "translated.cc").write_text("void M() {\n  Do(1);  // Other(1)\n}\n")
    (modes / "augmented.cc").write_text("void M() { Deep(0); }\n")
    assert load().declared(modules / "b.h") == {"Deep"}
    found = load().composition(tmp_path)
    assert found["modules"] == {"a": 5, "b": 4, "c": 1}
    assert found["modes"]["II"]["calls"] == {"a": ["Do"]}
    assert found["modes"]["II"]["modules"] == ["a", "b"]
    assert found["modes"]["II"]["lines"] == 3 + 5 + 4
    assert found["modes"]["III"]["modules"] == ["b"]
    assert found["reuse"]["share"] == 4 / 12
