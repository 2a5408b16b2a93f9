#!/usr/bin/python3
"""pool.py [--workers N] [--full] [--quick] [--keep-going] [--since REF] STAGE...: runs the tests of these stages, several at a time.

A task is a process: a file of pytest, which keeps a test bed of its own for as long as its tests ask for the same one, or a
test of ctest. Those that run alone begin first, then the longest. At most N run at a time, and of those that compute only as many as processors have
room for: what each waits and computes is known from the last measured run (build/test-times.json, or tests/times.json).

Each task's output is in build/logs/STAGE/, each test's seconds in build/ledger/tests.jsonl, each task's in tasks.jsonl.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from stage_pool import groups, ledger, stages, tasks  # noqa: E402

LOGS = stages.ROOT / "build/logs"
# Processors that tasks may keep busy together, as they are expected to, of each that is there: what waits leaves gaps.
BUSY = 1.3
TAIL_LINES = 80


class Running:
    """A task that has been started."""

    def __init__(self, task, number, group, go_on):
        self.task, self.begin, self.late = task, time.monotonic(), False
        self.group = group.child(f"{task.stage}-{number}")
        # Of a part of a file its number, too: "test_a.py 1/2".
        file, blank, part = task.name.partition(" ")
        name = re.sub(r"[^\w.-]+", "_", pathlib.Path(file).name + blank + part)
        self.log = LOGS / task.stage / f"{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = os.environ | task.environment | {"EPIC_LEDGER": str(ledger.TESTS), "EPIC_STAGE": task.stage}
        self.go_on = go_on
        with open(self.log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(task.argv, cwd=stages.ROOT, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=subprocess.STDOUT, preexec_fn=self.group.enter,
                                            start_new_session=True)  # a Ctrl-C reaches it once, through the pool

    def poll(self):
        """Exit status, or None while it runs; one beyond its time is killed."""
        status = self.process.poll()
        if status is None and self.task.timeout_s and time.monotonic() - self.begin > self.task.timeout_s:
            self.late = True
            self.process.kill()
            status = self.process.wait()
        return status

    def end(self, status):
        """Writes down what it took; whether it passed."""
        wall, cpu = time.monotonic() - self.begin, self.group.computed()
        line = {"stage": self.task.stage, "task": self.task.name, "wall": round(wall, 3), "cpu": round(cpu, 3),
                "stalled": round(self.group.kept_waiting(), 3), "pytest": self.task.pytest}
        ledger.append(ledger.TASKS, line)
        if not self.task.pytest:
            ledger.append(ledger.TESTS, {"test": self.task.name, **{k: line[k] for k in ("stage", "wall", "cpu", "stalled")}})
        self.group.remove()
        passed = status in (0, self.task.empty_status)
        word = "ok" if passed else f"not finished after {self.task.timeout_s:.0f} s" if self.late else f"FAILED ({status})"
        print(f"{self.task.stage}: {self.task.name}: {word} ({self.counted()}{wall:.1f} s, {cpu:.1f} s computed)", flush=True)
        return passed

    def counted(self):
        """What pytest said at its end."""
        found = re.findall(r"^=+ (.*) in [\d.]+s.*=+$", self.log.read_text(encoding="utf-8", errors="replace"), re.M)
        return f"{found[-1]}, " if found and self.task.pytest else ""

    def tail(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])


class Pool:
    """Runs tasks; `workers` at a time."""

    def __init__(self, waiting, workers, go_on):
        self.waiting = sorted(waiting, key=lambda task: (not task.alone, -task.wall))
        self.workers, self.go_on, self.count = workers, go_on, len(waiting)
        self.room = BUSY * (os.cpu_count() or 1)
        self.running, self.failed, self.ended, self.interrupted = [], [], 0, False
        self.group = groups.Group(groups.own())

    def next(self):
        """The first task for which there is room, or None."""
        if self.running and (self.running[0].task.alone or (self.waiting and self.waiting[0].alone)):
            return None
        left = self.room - sum(r.task.rate for r in self.running)
        if not self.waiting or len(self.running) >= self.workers:
            return None
        fits = [task for task in self.waiting if task.rate <= left]
        if not fits and self.running:
            return None
        return fits[0] if fits else self.waiting[0]

    def run(self):
        """Whether all passed."""
        signal.signal(signal.SIGINT, self.interrupt)
        signal.signal(signal.SIGTERM, self.interrupt)
        while self.running or (self.waiting and not self.interrupted):
            while not self.interrupted and (task := self.next()):
                self.waiting.remove(task)
                self.running.append(Running(task, self.count - len(self.waiting), self.group, self.go_on))
            self.look()
            time.sleep(0.05)
        if self.failed:
            print("\n".join(f"failed: {r.task.stage}: {r.task.name} ({r.log})" for r in self.failed))
        return not self.failed and not self.interrupted

    def look(self):
        """Takes note of those that have ended."""
        for running in list(self.running):
            status = running.poll()
            if status is None:
                continue
            self.running.remove(running)
            self.ended += 1
            if not running.end(status) and not self.interrupted:
                self.failed.append(running)
                print(f"--- the end of {running.log}:\n{running.tail()}\n---", flush=True)
                if not self.go_on:
                    self.interrupt()
            ledger.say(f"{self.ended} of {self.count}")

    def interrupt(self, *_):
        """Nothing new begins; who runs cleans up, as after Ctrl-C."""
        if self.interrupted:
            return
        self.interrupted = True
        for running in self.running:
            running.process.send_signal(signal.SIGINT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", metavar="STAGE", choices=list(stages.ALL))
    parser.add_argument("--workers", type=int, default=5 * (os.cpu_count() or 1) // 2, metavar="N",
                        help="tasks at a time (default: five for two processors)")
    parser.add_argument("--full", action="store_true", help="also what a default run leaves out")
    parser.add_argument("--quick", action="store_true", help="unit tests only: those that are not slow")
    parser.add_argument("--since", metavar="REF", help="only tests whose inputs differ from that commit")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--turn", action="store_true",
                        help="print the part of the stage that a default run of this commit has, and run nothing")
    args = parser.parse_args()
    if args.turn:
        print(*(tasks.turn(stages.ALL[name]) for name in args.stages))
        return
    known = tasks.Known(ledger.last_times())
    found, others = tasks.of_stages(args.stages, known, args)
    if "sanitized" in args.stages and not args.full:
        print(f"of tests that compute much, a part in {tasks.SANITIZED_PARTS}: {tasks.covers.replay()} has the same one again")
    for stage in (stages.ALL[name] for name in args.stages if stages.ALL[name].turns and not args.full):
        print(f"of {stage.name} the part {tasks.turn(stage)}, of {', '.join(stage.turns)}; "
              f"{tasks.covers.replay()} has the same one again")
    for task in others:
        print(f"{task.stage}: {task.name}: not run, as nothing that it depends on differs from {args.since}")
    sys.exit(0 if Pool(found, args.workers, args.keep_going).run() else 1)


if __name__ == "__main__":
    main()
