"""The command line of epic-run --hosts; what its options mean is said by epic-run --help."""

import argparse
import os
import re
import shlex
import signal
import sys

from . import remote, together

# For epic-run alone: the library would warn about them. And who a rank is, is not what somebody else was.
_OURS = ("EPIC_SOFTNIC_LIB", "EPIC_BUILD", "EPIC_SSH", "EPIC_CACHE", "EPIC_RANK", "EPIC_SIZE", "EPIC_GROUP")
_USAGE = 2
_MOST_RANKS = 1024


class UsageError(Exception):
    """Something that cannot be meant: which argument, and what to say instead."""


def say(message):
    print(f"epic-run: {message}", file=sys.stderr, flush=True)


def hosts(text):
    """The host of each rank, in their order, of a list such as a:2,user@b,[fd00::1]:4."""
    ranks = []
    for entry in text.split(","):
        parts = re.fullmatch(r"([^@:\s\[\]]+@)?(?:\[([^\s\[\]]+)\]|([^@:\s\[\]]+))(:.*)?", entry)
        if not parts or entry.startswith("-"):
            raise UsageError(f"--hosts {text}: '{entry}' names no host. Say them as in --hosts a,b:2,user@c")
        count = (parts[4] or ":1")[1:]
        if not re.fullmatch("[1-9][0-9]{0,3}", count):
            raise UsageError(f"--hosts {text}: '{entry}': '{count}' is no number of ranks. Say it as in {parts[2] or parts[3]}:2, and "
                             "addresses with colons in brackets")
        ranks += [(parts[1] or "") + (parts[2] or parts[3])] * int(count)
    if len(ranks) > _MOST_RANKS:
        raise UsageError(f"--hosts: {len(ranks)} ranks; at most {_MOST_RANKS} are started")
    return ranks


def environment(passed, manager):
    """What ranks get of our environment: EPIC_..., and what -x names."""
    env = {key: value for key, value in os.environ.items() if key.startswith("EPIC_") and key not in _OURS}
    for item in passed:
        name, given, value = item.partition("=")
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"-x {item}: '{name}' is no variable's name")
        if not given and name not in os.environ:
            raise UsageError(f"-x {name}: there is no such variable here. Set it, or say -x {name}=VALUE")
        env[name] = value if given else os.environ[name]
    if manager is not None:
        env["EPIC_MANAGER"] = manager
    return env


def parse(argv):
    """Options, and behind -- the program and its arguments."""
    parser = argparse.ArgumentParser(prog="epic-run", add_help=False, allow_abbrev=False)
    parser.add_argument("--hosts")
    parser.add_argument("--group")
    parser.add_argument("--manager")
    parser.add_argument("--wdir", default=os.getcwd())
    parser.add_argument("--ssh", default=os.environ.get("EPIC_SSH") or remote.SSH)
    parser.add_argument("-x", dest="passed", action="append", default=[])
    parser.add_argument("--no-prefix", action="store_true")
    parser.add_argument("--softnic", help="the folder of its library, which epic-run has found")
    parser.add_argument("--no-softnic", action="store_true")
    cut = argv.index("--")  # epic-run puts it in front of the program
    args = parser.parse_args(argv[:cut])
    args.program = argv[cut + 1:]
    return args


def starts(args):
    """For each rank its host and what starts it."""
    if args.hosts is None:
        raise UsageError("on which hosts? --hosts a,b,c")
    names = hosts(args.hosts)
    env = environment(args.passed, args.manager)
    if len(names) > 1 and not env.get("EPIC_MANAGER"):
        raise UsageError("which manager? Say its HOST:PORT with --manager, or set EPIC_MANAGER")
    try:
        ssh = shlex.split(args.ssh)
    except ValueError as error:
        raise UsageError(f"--ssh {args.ssh}: {error}") from error
    if not ssh:
        raise UsageError("--ssh: an empty command")
    prefixes = [b""] * len(names) if args.no_prefix else together.prefixes(len(names))

    def rank(number, host, own):
        request = {"argv": args.program, "env": {**env, **own}, "folder": args.wdir, "library": args.softnic, "input": number == 0}
        return host, lambda ended: remote.Rank(ssh, host, request, prefixes[number], say, ended)

    return [rank(number, host, own)
            for number, (host, own) in enumerate(zip(names, together.variables(len(names), args.group)))]


def main(argv):
    args = parse(argv)
    try:
        ranks = starts(args)
    except UsageError as error:
        say(error)
        return _USAGE
    # In the background a terminal's input is none, and its output ours as well.
    for signum in (signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(signum, signal.SIG_IGN)
    worst, reason = together.run(ranks, say, one_ends_all=True, hand_on=(signal.SIGUSR1, signal.SIGUSR2))
    return reason or worst  # of the first that failed, where one ends all
