"""How a program is run on a node of a test bed that is up."""

import json
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
        argv = [os.path.join(REPO, "scripts", "epic-run"), "--devices", host.get("device", "vec0"), "--", *argv]
    limit = ["timeout", "--foreground", "-k", "3", str(timeout_s)] if timeout_s else []
    return [*bed.enter(node), *limit, *argv], env


def guest_environment(bed, extra):
    """The variables of a command in a guest."""
    # Not the caller's PATH: wrappers that start many processes (pyenv's, say) take seconds in a guest.
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8",
            **{k: v for k, v in os.environ.items() if k.startswith("EPIC_") and k != "EPIC_CACHE"},
            **bed.environment(), **extra}


def command(bed, node, argv, timeout_s, stdin=False):
    """What does as `testbed exec --timeout` on any node, and starts in a third of the time: (command, environment). `stdin`: a
    guest, too, gets the standard input."""
    host = bed.host(node)
    if not host or host["kind"] != "rxe":
        return in_namespace(bed, node, argv, {}, timeout_s)
    asked = {"namespace": bed.namespace(beds.MGMT), "address": host["mgmt_address"], "argv": argv,
             "env": guest_environment(bed, {}), "timeout_s": timeout_s, "stdin": stdin}
    program = os.path.join(os.path.dirname(__file__), "guest_exec.py")
    # Without the machine's site packages (-S), whose search takes as long as all else.
    return [sys.executable, "-E", "-S", program, json.dumps(asked)], dict(os.environ)
