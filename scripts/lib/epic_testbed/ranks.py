"""Runs one program as a rank on each of several hosts: what each says is told apart, and they end together."""

import os
import re
import shutil

from epic_run import cli, together

from . import guest
from .bed import BedError, say
from .nodes import REPO


def hosts(bed, wanted):
    """The host's record of each rank, in their order, of a bed that is up: all hosts if `wanted` is None, the first so many if it
    is a number, else those of a list as h0:2,h1, several ranks on one where it says so."""
    bed.require_up()
    there, topology, options = bed.record["hosts"], bed.record["topology"], bed.record["options"]
    if wanted is None:
        chosen = there
    elif re.fullmatch("-?[0-9]+", wanted):
        if not 1 <= int(wanted) <= len(there):
            raise BedError(f"--hosts {wanted}: {topology} has {len(there)} hosts. Say 1 to {len(there)}, or names with numbers of ranks "
                           f"({there[0]['name']}:2), or bring up a topology with more (testbed down; testbed up star-16)")
        chosen = there[:int(wanted)]
    else:
        try:
            names = cli.hosts(wanted)
        except cli.UsageError as error:
            raise BedError(str(error)) from error
        unknown = [name for name in names if bed.host(name) is None]
        if unknown:
            raise BedError(f"--hosts {wanted}: there is no host '{unknown[0]}' in {topology}. Say some of "
                           f"{', '.join(host['name'] for host in there)}, with a number of ranks behind a colon")
        chosen = [bed.host(name) for name in names]
    names = [host["name"] for host in chosen if "device" in host]
    if len(set(names)) < len(names):
        raise BedError("with --ports memif a host runs one rank: its device has one user")
    if options["daemons"] != "engine":
        raise BedError("no switch of this test bed sums anything: it was brought up with "
                       f"{'--bridge' if options['daemons'] == 'bridge' else '--no-daemons'}. Bring it up without")
    without = [host["name"] for host in chosen if host["kind"] == "none"]
    if without:
        raise BedError(f"{', '.join(without)}: no RDMA there. Bring the test bed up with --hosts softnic or rxe")
    return chosen


def check(bed, chosen, program):
    """Raises BedError if the hosts cannot start the program."""
    path = shutil.which(program)
    if path is None:
        there = os.path.isfile(program)
        if there and os.sep not in program:
            raise BedError(f"no program '{program}' in $PATH. Did you mean ./{program}?")
        if there:
            raise BedError(f"{program} may not be executed: chmod +x {program}, or say first what runs it")
        raise BedError(f"there is no program '{program}': build it first, or say its whole path")
    path = os.path.realpath(path)
    shown = guest.hidden_from_guests([REPO, bed.record["build"]]) + [bed.file("share")]
    if any(host["kind"] == "rxe" for host in chosen) and path.startswith(("/tmp/", "/run/")) and \
            not any(path.startswith(folder + os.sep) for folder in shown):
        raise BedError(f"{path}: guests have a /tmp and a /run of their own. Put it elsewhere, or into {bed.file('share')}")


def run(commands, timeout_s=None):
    """Runs the commands of ranks 0, 1, ... to their end, each (host, argv, env); returns the worst exit status, 124 if
    timeout_s seconds were not enough. Ctrl-C ends all ranks; the status is then at least 130."""
    starts = [(host, lambda ended, command=(argv, env, prefix): together.Process(*command, ended))
              for (host, argv, env), prefix in zip(commands, together.prefixes(len(commands)))]
    worst, reason = together.run(starts, say, timeout_s)
    return reason if reason == together.EXIT_TIMEOUT else max(worst, reason or 0)
