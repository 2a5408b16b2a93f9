"""How a program is run on a node of a test bed that is up."""

import os
import sys

from . import bed as beds

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


def in_namespace(bed, node, argv, extra, timeout_s=None):
    """The command that runs argv on a node that is no guest, with these more variables, and the command's environment. It
    ends with status 124 after timeout_s seconds, if any."""
    env = {**os.environ, **bed.environment(), **extra}
    if node == beds.FABRIC:
        env = {**env, "OVS_RUNDIR": bed.file(beds.FABRIC)}
    host = bed.host(node)
    if host and host["kind"] == "softnic":
        env["EPIC_SOFTNIC_LIB"] = bed.record["softnic"]
        argv = [os.path.join(REPO, "scripts", "epic-run"), "--devices", "vec0", "--", *argv]
    limit = ["timeout", "--foreground", "-k", "3", str(timeout_s)] if timeout_s else []
    return ["nsenter", f"--net=/run/netns/{bed.namespace(node)}", "--", *limit, *argv], env


def command(bed, node, argv, timeout_s):
    """As `testbed exec --timeout` runs it, on any node; where that would become another command this is it, which starts in
    a fourth of the time."""
    host = bed.host(node)
    if host and host["kind"] == "rxe":
        run = [sys.executable, os.path.join(REPO, "scripts", "testbed"), "exec", "--name", bed.name]
        return [*run, "--timeout", str(timeout_s), node, "--", *argv], dict(os.environ)
    return in_namespace(bed, node, argv, {}, timeout_s)
