"""The library knows each variable that a page or a script names, so that it warns of none that somebody sets as they say."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of the build, and names of the code.
NOT_OF_THE_ENVIRONMENT = {"EPIC_UNITE", "EPIC_PRECOMPILE", "EPIC_CHECK"}


def named(*folders):
    """Each word EPIC_... of the files there that git knows, and one file that has it."""
    listed = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words = {}
    for name in filter(None, listed.split("\0")):
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        words |= dict.fromkeys(re.findall(r"\bEPIC_[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?!_)", text), name)
    return words


def known():
    return set(re.findall('"(EPIC_[A-Z0-9_]+)"', (ROOT / "commlib/config.cc").read_text(encoding="utf-8")))


def unknown(words):
    return {word: where for word, where in words.items()
            if word not in known() | NOT_OF_THE_ENVIRONMENT and not word.startswith("EPIC_SOFTNIC_")}


def test_each_variable_that_is_named_is_known():
    assert unknown(named("README.md", "docs", "scripts", "examples")) == {}


def test_one_that_is_not_is_found():
    assert unknown({"EPIC_TIMEOUTS": "docs/HOST.md", "EPIC_TIMEOUT": "docs/HOST.md", "EPIC_SOFTNIC_X": "docs/SOFTNIC.md"}) == {
        "EPIC_TIMEOUTS": "docs/HOST.md"}
