"""Copies of the tree that are changed, built and tested, and processes that end with this one.

A copy has what the tree has, changes that are not committed included, and a build tree of its own. What is compiled is
looked up in ccache where that is installed, as if the copy stood where the tree stands.
"""
import filecmp
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_COPIED = {".git", "build", "__pycache__", ".pytest_cache", ".cache"}
MEMORY = 4 << 30  # bytes of address space; a mutant may ask for memory without end


class Interrupted(Exception):
    """The program was told to end."""


class Processes:
    """Those that run, each the leader of a process group, which is ended as a whole."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.interrupted = False

    def run(self, command, seconds=None, **options):
        """Exit code (negative: a signal's number), output, and whether it was killed for its time."""
        with self.lock:
            if self.interrupted:
                raise Interrupted
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                                       **options)
            self.running.add(process)
        late = False
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        finally:
            with self.lock:
                self.running.discard(process)
        if self.interrupted:
            raise Interrupted
        return process.returncode, output, late

    def interrupt(self):
        self.interrupted = True
        for process in list(self.running):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def limit_memory():
    """For a child: no more than MEMORY, and no core file."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def sources(tree):
    """The files of a tree, as paths within it."""
    found = []
    for folder, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name not in NOT_COPIED]
        found += [pathlib.Path(folder, name).relative_to(tree) for name in files if name not in NOT_COPIED]
    return set(found)


def first_error(output):
    """The compiler's first error, or the end of what it printed."""
    found = re.search(r"^.*\berror: .*$", output, re.M)
    return found[0] if found else output[-400:]


class Copy:
    """A copy of the tree at `place`; of one that is there only the differences are copied."""

    def __init__(self, place, processes, jobs):
        self.place, self.processes, self.jobs = place, processes, jobs
        self.build_tree = place / "build/release"
        self.environment = dict(os.environ, CCACHE_BASEDIR=str(place), CCACHE_NOHASHDIR="1")
        if shutil.which("ccache"):
            self.environment |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}

    def refresh(self):
        """Makes it what the tree is now."""
        wanted = sources(ROOT)
        if self.place.exists():
            for path in sources(self.place) - wanted:
                (self.place / path).unlink()
        for path in wanted:
            there = self.place / path
            if not there.exists() or not filecmp.cmp(ROOT / path, there, shallow=False):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, there)
                shutil.copymode(ROOT / path, there)

    def configure(self):
        """Output of cmake if it failed."""
        code, output, _ = self.processes.run(["cmake", "--preset", "release"], cwd=self.place, env=self.environment)
        return output if code else None

    def build(self, programs):
        """Builds programs, given as FOLDER/NAME; output of the compiler if that failed."""
        targets = sorted({program.split("/")[-1] for program in programs})
        code, output, _ = self.processes.run(
            ["cmake", "--build", str(self.build_tree), "-j", str(self.jobs), "--target", *targets],
            cwd=self.place, env=self.environment)
        return output if code else None

    def run(self, program, arguments, seconds=None):
        """As Processes.run."""
        return self.processes.run([str(self.build_tree / program), *arguments], seconds, cwd=self.place,
                                  preexec_fn=limit_memory)

    def remove(self):
        shutil.rmtree(self.place, ignore_errors=True)
