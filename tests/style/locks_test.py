"""Clang finds what is touched without its mutex (base/mutex.h), in the classes that several threads use at once."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EPIC_BUILD", ROOT / "build/release"))  # of whom the generated headers are
CLANG = ["clang++", "-std=c++20", "-x", "c++", "-fsyntax-only", "-Wthread-safety", "-Werror",
         *(f"-I{folder}" for folder in (ROOT, ROOT / "commlib/include", BUILD)), "-"]
# The classes, and where their functions are. What is in a pair is one source to clang: it parses once what both include.
HOLDERS = [[("Comm", "commlib"), ("Adapter", "softnic/verbs")], [("ManagerCore", "incmanager/rpc")]]


def sources_of(name, folder):
    """Those that have functions of the class."""
    function = re.compile(rf"^(?=\w)[^(/\n]*\b{name}::~?[\w:]+\([^;\n]*$", re.M)
    files = (file for file in sorted((ROOT / folder).glob("*.cc")) if not re.search(r"_(test|bench|fuzz)$", file.stem))
    return [file.relative_to(ROOT) for file in files if function.search(file.read_text(encoding="utf-8"))]


def said_of(source):
    done = subprocess.run(CLANG, input=source, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_sources_are_found():
    assert [str(file) for file in sources_of("Comm", "commlib")] == [
        f"commlib/comm{part}.cc" for part in ("", "_hosts", "_init", "_progress", "_quantise")]


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("classes", HOLDERS)
def test_what_is_guarded_is_touched_with_its_mutex(classes):
    files = [file for name, folder in classes for file in sources_of(name, folder)]
    assert said_of("".join(f'#include "{file}"\n' for file in files)) == (0, "")


@pytest.mark.parametrize("body, wrong", [
    ("const epic::MutexLock lock(mutex_); ++number_;", None),
    ("++number_;", "writing variable 'number_' requires holding mutex 'mutex_'"),
    ("const epic::MutexLock lock(mutex_); const epic::MutexUnlock unlock(mutex_); ++number_;", "requires holding"),
    ("const epic::MutexLock lock(mutex_); { const epic::MutexUnlock unlock(mutex_); } ++number_;", None),
    ("epic::MutexLock lock(mutex_); lock.unlock(); Held();", "calling function 'Held' requires holding mutex"),
])
def test_clang_knows_these_locks(body, wrong):
    code, said = said_of('#include "base/mutex.h"\nclass Holder {\n  void Held() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);\n'
                         f"  void Do() {{ {body} }}\n"
                         "  epic::Mutex mutex_;\n  int number_ ABSL_GUARDED_BY(mutex_) = 0;\n};\n")
    assert (code == 0) == (wrong is None), said
    assert wrong is None or wrong in said
