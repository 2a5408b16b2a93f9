"""scripts/dev tidy lints what has changed, and .clang-tidy looks into all folders' headers."""
import importlib
import pathlib
import re
import subprocess
import sys

from check_layers import MAY_INCLUDE

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load():
    sys.path.insert(0, str(ROOT / "scripts/lib"))
    return importlib.import_module("tidy")


def test_the_header_filter_covers_all_folders():
    text = (ROOT / ".clang-tidy").read_text(encoding="utf-8")
    covered = set(re.search(r"HeaderFilterRegex: '\((.*)\)/'", text)[1].split("|"))
    assert covered == {folder.split("/")[0] for folder in MAY_INCLUDE}


def test_a_header_is_linted_by_its_source_or_the_first_that_includes_it():
    known = {"a/x.cc", "a/y.cc", "b/z.cc"}
    includers = {"a/alone.h": ["b/z.cc", "a/y.cc"], "a/unused.h": []}
    chosen = load().sources_for(["a/x.h", "a/alone.h", "a/unused.h", "a/gone.cc", "docs/x.md"], known, lambda header: includers[header])
    assert chosen == ["a/x.cc", "a/y.cc"]


def test_where_nothing_has_changed_nothing_is_linted(tmp_path, monkeypatch, capsys):
    tidy = load()
    for command in (["init", "-q"], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    from stage_pool import stages
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    monkeypatch.setattr(tidy, "configured", lambda: 1 / 0)
    (tmp_path / "page.md").write_text("x")
    assert tidy.run("HEAD", 1) == 0
    assert "nothing is linted" in capsys.readouterr().out
