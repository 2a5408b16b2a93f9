"""Patches that are mistakes: known ones (check/canaries), and rules taken out (tests/mutants).

A patch has a head of `Key: value`, a value may go on in the next lines, then an empty line and a unified diff with the
prefixes a/ and b/. It is applied to copies only, exactly: with another context than it was made for it is refused.
"""
import re
import subprocess


class Wrong(Exception):
    """What a patch, or what is run with it, is other than stated."""


def head_of(patch, keys):
    """The values of each key that the head has, in their order, each in one line. Only these begin a value."""
    text = patch.read_text(encoding="utf-8").split("\n\n")[0]
    names = "|".join(keys)
    found = {}
    for key, value in re.findall(rf"^({names}): (.*?)(?=^(?:{names}): |\Z)", text, re.S | re.M):
        found.setdefault(key, []).append(" ".join(value.split()))
    return found


def files_of(patch):
    """What it changes."""
    return re.findall(r"^--- a/(\S+)", patch.read_text(encoding="utf-8"), re.M)


def hunks_of(patch):
    """[(file, the lines that it has to have there, one after the other), ...]"""
    found, file, old = [], None, None
    for line in patch.read_text(encoding="utf-8").splitlines():
        if line.startswith("--- a/"):
            file, old = line[6:].split("\t")[0], None
        elif line.startswith("@@ "):
            old = []
            found.append((file, old))
        elif old is not None and line[:1] in (" ", "-"):
            old.append(line[1:])
    return found


def misfits(patches, tree):
    """["NAME: FILE has not ...", ...] of those that cannot be applied, each by itself; all in one pass, without `patch`."""
    texts, wrong = {}, []
    for patch in patches:
        if not hunks_of(patch):
            wrong.append(f"{patch.name}: no hunk in it")
        for file, old in hunks_of(patch):
            if file not in texts:
                texts[file] = "\n" + (tree / file).read_text(encoding="utf-8") if (tree / file).is_file() else ""
            if "\n" + "\n".join(old) + "\n" not in texts[file]:
                wrong.append(f"{patch.name}: {file} has not, in a row, {old}")
    return wrong


def apply(patch, tree, dry_run=False):
    """Applies it to the tree; what `patch` said if that cannot be done."""
    command = ["patch", "--strip=1", "--fuzz=0", "--no-backup-if-mismatch", "--batch", "--forward", "--reject-file=-",
               f"--directory={tree}", f"--input={patch}"]
    done = subprocess.run(command + (["--dry-run"] if dry_run else []), capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip()
