"""Judges mutants at the edges by tests of the stages, in a copy of the tree with a build of its own.

For each mutant and stage the tests that are likely to see it, as its head says, then those that a run with coverage has seen in
the changed lines (scripts/lib/line_tests.py), the cheapest first, up to the first that fails. What is found is written after each
mutant, so that a run goes on where the last one was stopped. A test that has failed has to pass without the mutant.
"""
import collections
import fcntl
import json
import os
import re
import signal
import subprocess
import time

import copies
import kills
import line_tests
import mutation
import stage_tests

PLACE = copies.ROOT / "build/mutants/stages"
PASSED_FILE = copies.ROOT / "build/mutants/passed.json"
MOST_SECONDS = 150     # of what is run for one mutant and one stage
LATE_TIMES = 2         # so much again for what has not ended then; if it has not either, it hangs
GRACE_SECONDS = 20     # for fixtures that take their beds down
MOST_BY_COVERAGE = 12  # tests for each mutant and stage beyond the likely ones
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - (.*))?$", re.M)


_LINKED = re.compile(r"^build (\S+).*: (?:(?:C|CXX|Fortran)_(?:EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)_LINKER|CMAKE_SYMLINK_LIBRARY)",
                     re.M)
_PARTS = re.compile(r"^build [\w/]+/(\w+): phony [\w/]+/CMakeFiles/\1 ", re.M)


class Failure(mutation.Wrong):
    """Why nothing can be judged."""


class Runner:
    """Runs tests in the copy, and leaves nothing of them behind."""

    def __init__(self, copy):
        self.copy = copy

    def _run(self, argv, seconds):
        """Exit status (None: it did not end in time) and output."""
        environment = dict(os.environ, EPIC_BUILD=str(self.copy.build_tree), PYTHONDONTWRITEBYTECODE="1",
                           COLUMNS="400")
        process = subprocess.Popen(argv, cwd=self.copy.place, env=environment, stdin=subprocess.DEVNULL, text=True, errors="replace",
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        with self.copy.processes.lock:
            self.copy.processes.running.add(process)
        try:
            try:
                output, _ = process.communicate(timeout=seconds)
                return process.returncode, output
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
            try:
                output, _ = process.communicate(timeout=GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
            return None, output
        finally:
            with self.copy.processes.lock:
                self.copy.processes.running.discard(process)
            self._clean(process.pid)
            if self.copy.processes.interrupted:
                raise copies.Interrupted

    def _clean(self, pid):
        """Beds and namespaces have the number of the process that made them in their names."""
        own = re.compile(rf"(?<!\d){pid % 100000}(?!\d)")
        beds = [name for name in os.listdir("/run/epic") if own.search(name)] if os.path.isdir("/run/epic") else []
        for bed in beds:
            subprocess.run([self.copy.place / "scripts/testbed", "down", "--name", bed], capture_output=True, check=False)
        names = [name for name in os.listdir("/run/netns") if own.search(name)] if os.path.isdir("/run/netns") else []
        for name in names:
            for member in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout.split():
                try:
                    os.kill(int(member), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def first_failure(self, stage, tests, full, seconds=MOST_SECONDS):
        """(test, how) of the first of these that fails, or None."""
        programs = [test for test in tests if stage_tests.program_of(test)]
        for test in programs:
            status, output = self._run(["ctest", "--test-dir", str(self.copy.build_tree), "-R", f"^{stage_tests.program_of(test)}$", "-L",
                                        stage.label, "--output-on-failure", "--no-tests=error", "--timeout", str(seconds)], seconds + 30)
            if "No tests were found" in output:
                continue  # of another stage
            if status != 0:
                said = re.findall(r"^\d*:? ?\[  FAILED  \] (\S+)", output, re.M)
                return test, said[0] if said else "it did not end" if status is None else f"exit {status}"
        by_folder = collections.defaultdict(list)  # their conftest.py have one name
        for test in tests:
            if test not in programs:
                by_folder[stage_tests.file_of(test).rpartition("/")[0]].append(test)
        failures = (self._first_of_pytest(stage, of_folder, full, seconds) for of_folder in by_folder.values())
        return next((failure for failure in failures if failure), None)

    def _first_of_pytest(self, stage, tests, full, seconds):
        """As above. All in one process: what they have in common, such as a bed, is brought up once."""
        if not tests:
            return None
        options = ["-m", stage.marks] if stage.marks else []
        options += ["--full"] if full else ["--all-turns"]  # what some default run kills is killed
        argv = ["/usr/bin/python3", "-m", "pytest", "-x", "-v", "-rfE", "-p", "no:cacheprovider", *options, *tests]
        status, output = self._run(argv, seconds)
        if status is None:  # by other work on this machine, perhaps
            status, output = self._run(argv, LATE_TIMES * seconds)
        if status in (0, 5):  # 5: none of these is the stage's
            return None
        if status is None:
            begun = re.findall(r"^(tests/\S+?::.+?)(?: (?:PASSED|FAILED|ERROR).*)?$", output, re.M)
            return begun[-1].strip() if begun else tests[0], f"it did not end within {LATE_TIMES * seconds} s"
        found = FAILED.findall(output)
        if found:
            return found[0][0], found[0][1].replace(f"{self.copy.place}/", "")[:140]
        raise Failure(f"{' '.join(tests)}: {output[-800:]}")


class Judge:
    """One copy, in which mutants are judged in turn."""

    def __init__(self, processes, jobs, stages, full, first):
        self.stages, self.full, self.first = stages, full, first
        self.copy = copies.Copy(PLACE, processes, jobs)
        self.runner = Runner(self.copy)
        self.table = kills.load()
        self.lines = line_tests.load()
        self.programs, self.lock = set(), None
        self.wrong = []

    def build(self, stage, tests, cached=True):
        """What these tests of the stage start; output of the compiler if that failed. What a mutant is compiled to is not kept: it
        would fill the cache, and a file that changes while it is compiled would be kept as what it was before."""
        ninja = (self.copy.build_tree / "build.ninja").read_text(encoding="utf-8")
        linked = _LINKED.findall(ninja)
        programs = {stage_tests.program_of(test) for test in tests}
        started = [] if programs and None not in programs else [folder + "/" for folder in stage.starts]
        targets = [path for path in linked if path.split("/")[-1] in programs or
                   (path.startswith(tuple(started)) and path.split("/")[-1] not in self.programs)]
        targets += stage.targets if started else ()
        # Of a program with several tests each is a target of its own.
        targets += [name for name in _PARTS.findall(ninja) if name in programs]
        code, output, _ = self.copy.processes.run(["cmake", "--build", str(self.copy.build_tree), "-j", str(self.copy.jobs), "--target",
                                                   *targets], cwd=self.copy.place,
                                                  env=self.copy.environment | ({} if cached else {"CCACHE_DISABLE": "1"}))
        return output if code else None

    def prepare(self):
        """The copy as the tree is, configured; what is needed is built when it is. One program at a time has it."""
        PLACE.mkdir(parents=True, exist_ok=True)
        self.lock = os.open(PLACE, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another scripts/mutate works in {PLACE}") from None
        self.copy.refresh()
        output = self.copy.configure()
        if output:
            raise Failure(f"{self.copy.place} cannot be configured: {copies.first_error(output)}")
        said = subprocess.run(["ctest", "--test-dir", self.copy.build_tree, "-N", "--show-only=json-v1"], capture_output=True, text=True,
                              check=True).stdout
        self.programs = {test["name"] for test in json.loads(said)["tests"]}

    def candidates(self, mutant, stage):
        """The stage's tests to try, in this order."""
        likely = [test for test in mutant.likely if stage_tests.may_have(stage, test)]
        seen = [test for test in line_tests.of_edits(mutant.edits, self.lines) if stage_tests.may_have(stage, test)]
        return likely + [test for test in seen if test not in likely][:MOST_BY_COVERAGE]

    def judge_all(self, mutants):
        """What is still to be judged, stage by stage."""
        for number, mutant in enumerate(mutants, 1):
            entry = kills.entry_of(mutant, self.table)
            if self.first and any(kills.is_judged(entry["stages"][stage], ()) for stage, _ in kills.killers(entry)):
                continue
            todo = [(stage, tests) for stage in self.stages if (tests := self.candidates(mutant, stage)) and
                    not kills.is_judged(entry["stages"].get(stage.name), tests)]
            # First where the head says that it is likely.
            todo.sort(key=lambda one: min((mutant.likely.index(test) for test in one[1] if test in mutant.likely), default=99))
            if not todo:
                continue
            print(f"[{number}/{len(mutants)}] {mutant.name}: {mutant.mistake}", flush=True)
            try:
                self.judge(mutant, entry, todo)
            except Failure as failure:
                self.wrong.append(f"{mutant.name}: {failure}")

    def judge(self, mutant, entry, todo):
        begin = time.monotonic()
        files = [self.copy.place / file for file in mutant.files]
        before = {file: file.read_bytes() for file in files}
        try:
            refused = mutation.apply(mutant.edits, self.copy.place)
            for stage, tests in [] if refused else todo:
                output = self.build(stage, tests, cached=False)
                refused = output and copies.first_error(output)
                if refused or (self.judge_stage(mutant, entry, stage, tests, begin) and self.first):
                    break
            if refused:
                self.wrong.append(f"{mutant.name}: {refused}")
                print(f"      BROKEN {refused}", flush=True)
        finally:
            for file, content in before.items():
                file.write_bytes(content)

    def judge_stage(self, mutant, entry, stage, tests, begin):
        """Whether the stage kills it."""
        killer = self.runner.first_failure(stage, tests, self.full)
        if killer is None:
            sources = (file for test in tests for file in kills.sources_of(test))
            entry["stages"][stage.name] = {"test": None, "tried": tests, "by": kills.hash_of(*sources)}
        else:
            test, how = killer
            entry["stages"][stage.name] = {"test": test, "how": how, "by": kills.hash_of(*kills.sources_of(test))}
        self.table[mutant.name] = entry
        kills.save(self.table)
        print(f"      {stage.name}: {f'{killer[0]}: {killer[1]}' if killer else 'nothing of ' + ', '.join(tests)} "
              f"({time.monotonic() - begin:.0f} s)", flush=True)
        return killer is not None

    def without_mutants(self):
        """Each killer passes in the copy as it is; else it is none, and is taken out of the table."""
        passed = set(line_tests.load(PASSED_FILE).get("passed", []))
        by_stage = collections.defaultdict(set)
        for entry in self.table.values():
            for stage, test in kills.killers(entry):
                if f"{test} {kills.hash_of(*kills.sources_of(test))}" not in passed:
                    by_stage[stage].add(test)
        for stage, tests in by_stage.items():
            left = sorted(tests)
            output = self.build(stage_tests.BY_NAME[stage], left)
            if output:
                raise Failure(f"without any mutant: {copies.first_error(output)}")
            while left:
                failed = self.runner.first_failure(stage_tests.BY_NAME[stage], left, self.full, MOST_SECONDS + 30 * len(left))
                if failed is None:
                    break
                self.wrong.append(f"{failed[0]} fails without any mutant: {failed[1]}")
                self.forget(failed[0])
                left = [test for test in left if test != failed[0]]
            passed |= {f"{test} {kills.hash_of(*kills.sources_of(test))}" for test in left}
            line_tests.save({"passed": sorted(passed)}, PASSED_FILE)
        kills.save(self.table)

    def forget(self, test):
        for entry in self.table.values():
            for stage, killer in kills.killers(entry):
                if killer == test:
                    del entry["stages"][stage]
