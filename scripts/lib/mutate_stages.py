"""scripts/mutate --stages and what goes with it: the mutants at the edges, and which tests of which stages kill them."""
import fnmatch
import shutil
import signal
import sys

import coverage_run
import copies
import edge
import judge
import kills
import stage_tests


def add_options(parser):
    group = parser.add_argument_group("mutants at the edges (tests/mutants/edge)")
    group.add_argument("--stages", nargs="+", metavar="NAME",
                       help="judge them by these stages: default, full (slow tests as well), or " + ", ".join(stage_tests.BY_NAME))
    group.add_argument("--first", action="store_true", help="a mutant that one stage kills is tried by no other")
    group.add_argument("--alone", metavar="STAGE", help="list those that this stage alone kills, as tests/kills.json says")
    group.add_argument("--coverage", nargs="+", metavar="NAME", help="run these stages with coverage, for --stages to choose tests by")


def wanted(args):
    return bool(args.stages or args.alone or args.coverage)


def alone(stage):
    """Prints them."""
    if stage not in stage_tests.BY_NAME:
        sys.exit(f"mutate: there is no stage {stage}: {', '.join(stage_tests.BY_NAME)}")
    table = kills.load()
    for name in kills.killed_by_alone(table, stage):
        print(f"{name}  {table[name]['stages'][stage]['test']}")
    return 0


def report(table, mutants):
    """What the table says of these, as lines."""
    entries = {mutant.name: table.get(mutant.name, {"stages": {}}) for mutant in mutants}
    dead = [name for name, entry in entries.items() if kills.killers(entry)]
    lives = [name for name, entry in entries.items() if entry["stages"] and not kills.killers(entry)]
    lines = [f"alive: {name} (tried: {', '.join(test for found in entries[name]['stages'].values() for test in found['tried'])})"
             for name in lives]
    return lines + [f"{len(dead)} of {len(mutants)} mutants are killed, {len(lives)} by nothing that was tried, "
                    f"{len(mutants) - len(dead) - len(lives)} are not judged"]


def main(args):
    if args.alone:
        return alone(args.alone)
    mutants = [mutant for mutant in edge.mutants() if any(fnmatch.fnmatch(mutant.name, glob) for glob in args.only or ["*"])]
    if not mutants:
        sys.exit(f"mutate: --only: no mutant at the edges is called {' or '.join(args.only)}")
    if args.list:
        for mutant in mutants:
            print(f"{mutant.name}  {mutant.mistake}; {mutant.origin}; {', '.join(mutant.likely)}")
        return 0
    try:
        stages = stage_tests.chosen(args.stages or args.coverage)
    except ValueError as wrong:
        sys.exit(f"mutate: {wrong}")
    full = "full" in (args.stages or args.coverage)
    processes = copies.Processes()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: processes.interrupt())
    try:
        if args.coverage:
            return coverage_run.main(processes, args.jobs, stages, full)
        judged = judge.Judge(processes, args.jobs, stages, full, args.first)
        judged.prepare()
        judged.judge_all(mutants)
        judged.without_mutants()
    except copies.Interrupted:
        print("mutate: interrupted; what was found is in tests/kills.json, and the next run goes on", file=sys.stderr)
        return 1
    finally:
        if not args.keep:
            shutil.rmtree(judge.PLACE, ignore_errors=True)
    print("\n".join(judged.wrong + report(judged.table, mutants)))
    return 1 if judged.wrong else 0
