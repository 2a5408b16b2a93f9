"""clang-tidy over what has changed since a commit, or over all: scripts/dev tidy.

A source is linted with its own compile command, from a tree that is only configured (BUILD). A header is linted by the source of
its name, or else by the first that includes it, by whatever headers; what nothing includes is named. The messages' generated
headers are those of the release tree, if it has been built.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "tidy"
GENERATED = ROOT / "build" / "release"
SOURCES, HEADERS = (".cc", ".c"), (".h",)


def sources_for(files, known, includes):
    """The sources to lint for these files: known are all that are compiled, includes(header) those of them that include it."""
    found = set()
    for file in files:
        path = pathlib.PurePosixPath(file)
        if path.suffix in SOURCES and file in known:
            found.add(file)
        elif path.suffix in HEADERS:
            own = str(path.with_suffix(".cc"))
            found |= {own} if own in known else set(sorted(includes(file))[:1])
    return sorted(found)


def configured():
    """The compile commands of all sources, by path within the tree."""
    subprocess.run(["cmake", "--preset", "dev", "-B", str(BUILD), "-DEPIC_PRECOMPILE=OFF", "-DCMAKE_C_COMPILER=clang",
                    "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
    entries = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    inside = [pathlib.Path(entry["file"]) for entry in entries]
    return {str(path.relative_to(ROOT)) for path in inside if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build")}


def including(known):
    """A function from a header to the sources that include it, themselves or by other headers of ours."""
    users = {}

    def read(file):
        for included in re.findall(r'^#include "([^"]+)"', (ROOT / file).read_text(encoding="utf-8"), re.M):
            is_new = included not in users
            users.setdefault(included, set()).add(file)
            if is_new and (ROOT / included).exists():
                read(included)

    def includes(header):
        if not users:
            for file in sorted(known):
                read(file)
        found, todo = set(), [header]
        while todo:
            new = users.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return sorted(found & known)
    return includes


def lint(source):
    """What clang-tidy has against a source; nothing if it is right."""
    command = ["clang-tidy", "--quiet", "-p", str(BUILD), f"--extra-arg=-isystem{GENERATED}", str(ROOT / source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + ("" if done.stdout else done.stderr)


def run(ref, jobs):
    """Lints what differs from a commit, or with None all. The exit status."""
    begin = time.monotonic()
    changed = None
    if ref is not None:
        sys.path.insert(0, str(ROOT / "scripts" / "lib"))
        from stage_pool.since import changed_files  # pylint: disable=import-outside-toplevel
        changed = [file for file in changed_files(ref)
                   if pathlib.PurePosixPath(file).suffix in SOURCES + HEADERS and (ROOT / file).exists()]
        if not changed:
            print(f"no C++ differs from {ref}: nothing is linted")
            return 0
    known = configured()
    includes = including(known)
    chosen = sorted(known) if changed is None else sources_for(changed, known, includes)
    for file in changed or ():
        if not sources_for([file], known, includes):
            print(f"{file}: not linted: nothing that is compiled here has it")
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        for source, said in zip(chosen, pool.map(lint, chosen)):
            if said:
                wrong += 1
                print(f"{source}:\n{said}", flush=True)
    print(f"{len(chosen)} sources linted in {time.monotonic() - begin:.0f} s, {wrong} of them wrong")
    return 1 if wrong else 0
