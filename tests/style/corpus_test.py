"""The archives of tests/corpus are what packing their seeds makes, and have no seed that is a file of its own as well."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/lib"))
import corpus  # noqa: E402

TARGETS = corpus.targets()


def wrong_with(target, folder):
    """What is not as it should be, as lines."""
    seeds, named = corpus.archived(target, folder), corpus.loose(target, folder)
    found = [f"{name} is in the archive and a file" for name, seed in named.items() if seed in seeds.values()]
    found += [f"{name} is called {corpus.name_of(seed)}" for name, seed in seeds.items() if name != corpus.name_of(seed)]
    found += [f"{name} has no name" for name, seed in named.items() if name == corpus.name_of(seed)]
    if seeds and corpus.packed(seeds.values()) != (folder / f"{target}.tar").read_bytes():
        found.append("the archive is not what packing its seeds makes")
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_an_archive_has_what_is_no_file(target):
    assert wrong_with(target, corpus.FOLDER) == []


def test_every_target_of_cmake_has_seeds():
    declared = {name for lists in ROOT.glob("*/CMakeLists.txt")
                for name in re.findall(r"^epic_fuzzer\((\w+)", lists.read_text(encoding="utf-8"), re.M)}
    assert declared == set(TARGETS)


def test_what_is_loose_is_not_packed(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/crashed_once").write_bytes(b"reason")
    assert corpus.pack("t", [b"other", b"reason", b"other"], tmp_path) == 1
    assert corpus.archived("t", tmp_path) == {corpus.name_of(b"other"): b"other"}
    (tmp_path / "t.tar").write_bytes(corpus.packed([b"other", b"reason"]))
    assert wrong_with("t", tmp_path) == ["crashed_once is in the archive and a file"]


def test_the_same_seeds_make_the_same_archive(tmp_path):
    corpus.pack("t", [b"1", b"2"], tmp_path)
    first = (tmp_path / "t.tar").read_bytes()
    corpus.pack("t", [b"2", b"1"], tmp_path)
    assert (tmp_path / "t.tar").read_bytes() == first and wrong_with("t", tmp_path) == []


def test_unpacking_leaves_nothing_of_before(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/named").write_bytes(b"1")
    corpus.pack("t", [b"2"], tmp_path)
    place = tmp_path / "build/seeds/t"
    place.mkdir(parents=True)
    (place / "of-before").write_bytes(b"3")
    corpus.unpack("t", place, tmp_path)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"named": b"1", corpus.name_of(b"2"): b"2"}


def test_the_script_says_what_it_does_and_what_it_does_not_know():
    script = ROOT / "scripts/lib/corpus.py"
    said = subprocess.run([script, "--help"], capture_output=True, text=True, check=True).stdout
    assert "TARGET.tar" in said and "unpack" in said
    done = subprocess.run([script, "list", "no_fuzz"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no seeds of no_fuzz" in done.stderr
