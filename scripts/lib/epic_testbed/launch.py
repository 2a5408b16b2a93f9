"""MPI's and PyTorch's programs on a test bed: what starts them there as mpirun and torchrun do on machines of a cluster."""

import os
import secrets
import shutil
import sys

from epic_run import together

from . import nodes, ranks
from .bed import SHELL, TEMPORARY, BedError, say

# MPI's and torch's own messages have the management network: links that are slow by --rate are for the collectives.
OUTSIDE = "vec1"
MPIS = {"openmpi": ("mpirun.openmpi", "openmpi-bin"), "mpich": ("mpirun.mpich", "mpich")}


def mpirun(bed, args):
    """Runs mpirun on the host of rank 0, with a remote shell that knows the other hosts; returns its exit status."""
    chosen = _hosts(bed, args)
    if not args.rest:
        raise BedError("mpirun needs a program: testbed mpirun ./PROGRAM [ARGUMENT ...]")
    mpi, behind = _mpi_of(args.rest)
    program, package = MPIS[mpi]
    if shutil.which(program) is None:
        raise BedError(f"there is no {program}: apt-get install {package} (scripts/install-deps installs both MPIs)")
    slots = ",".join(f"{name}:{count}" for name, count in _slots(chosen))
    shell = bed.file(SHELL)
    if mpi == "openmpi":
        # Yielding while it waits: ranks that spin keep the switches from the processors that all of them share.
        own = ["--allow-run-as-root", "--host", slots, "--bind-to", "none", "--mca", "plm_rsh_agent", shell,
               "--mca", "btl_tcp_if_include", OUTSIDE, "--mca", "oob_tcp_if_include", OUTSIDE, "--mca", "mpi_yield_when_idle", "1"]
        own += [word for item in args.env for word in ("-x", item)]  # it hands no others on
    else:
        own = ["-launcher", "ssh", "-launcher-exec", shell, "-hosts", slots, "-iface", OUTSIDE]
        if not any(word in ("-n", "-np", "--n", "--np") for word in behind):
            own += ["-n", str(len(chosen))]
    extra = {"TMPDIR": bed.file(TEMPORARY), "EPIC_BUILD": bed.record["build"], "EPIC_SOFTNIC_LIB": bed.record["softnic"],
             "EPIC_SOFTNIC_DEVICES": "vec0", **_variables(args)}
    command = [os.path.join(nodes.REPO, "scripts", "epic-run"), "--mpi", program, *own, *behind]
    env = {**os.environ, **bed.environment(), **extra}
    return _run([("mpirun", [*bed.enter(chosen[0]["name"]), *command], env, b"")], args)


def torchrun(bed, args):
    """Runs torchrun on each host; returns the exit status of the first that fails, or 0."""
    chosen = _hosts(bed, args)
    if not args.rest:
        raise BedError("torchrun needs a program: testbed torchrun train.py [ARGUMENT ...]")
    module = os.path.join(bed.record["build"], "pytorch", "lib")
    if not os.path.isdir(os.path.join(module, "torch_epic")):
        raise BedError(f"there is no torch_epic in {module}: scripts/torch-test --install, then build the target torch_epic")
    extra = {"GLOO_SOCKET_IFNAME": OUTSIDE, "OMP_NUM_THREADS": "1",
             "PYTHONPATH": os.pathsep.join([module, *filter(None, [os.environ.get("PYTHONPATH")])]), **_variables(args)}
    slots = _slots(chosen)
    # A port that no run before it has left behind; ephemeral ones begin above.
    port = str(20000 + secrets.randbelow(10000))
    commands = []
    for number, (name, count) in enumerate(slots):
        # Debian's torchrun does not start without redirects and tee, for its Python is newer than this torch.
        argv = ["/usr/bin/python3", "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1", "--nnodes", str(len(slots)),
                "--node_rank", str(number), "--nproc_per_node", str(count), "--master_addr", chosen[0]["mgmt_address"],
                "--master_port", port, *args.rest]
        commands.append((name, *nodes.in_namespace(bed, name, argv, extra), f"[{name}] ".encode()))
    return _run(commands, args)


def _hosts(bed, args):
    """The records of the ranks' hosts."""
    chosen = ranks.hosts(bed, args.hosts)
    others = [host["name"] for host in chosen if host["kind"] != "softnic"]
    if others:
        raise BedError(f"{', '.join(others)}: {args.command} starts programs on softnic hosts only. Name others with --hosts, or bring "
                       "the test bed up with --hosts softnic")
    if args.command == "mpirun" and any("device" in host for host in chosen):
        raise BedError("mpirun gives all ranks one list of devices, and with --ports memif each host has its own. Bring the test bed up "
                       "without --ports")
    return chosen


def _slots(chosen):
    """[(host, ranks there)] in the order of the ranks."""
    counts = {}
    for host in chosen:
        counts[host["name"]] = counts.get(host["name"], 0) + 1
    return list(counts.items())


def _variables(args):
    return dict(item.partition("=")[::2] for item in args.env)


def _mpi_of(words):
    """(MPI, what stands behind its name): the one that is named first, else the one that the program is linked with."""
    named, behind = (words[0], words[1:]) if words[0] in MPIS else (None, words)
    linked = None
    for word in behind:
        if os.path.isfile(word) and os.access(word, os.X_OK):
            with open(word, "rb") as file:
                program = file.read()
            linked = "mpich" if b"libmpich.so" in program else "openmpi" if b"libmpi.so" in program else None
            break
    if named and linked and named != linked:
        raise BedError(f"{word} is built with the other MPI: say testbed mpirun {linked} {word}")
    return named or linked or "openmpi", behind


def _run(commands, args):
    """Runs (name, argv, env, prefix) to their end, all of them ended where one fails."""
    starts = [(name, lambda ended, command=(argv, env, prefix): together.Process(*command, ended)) for name, argv, env, prefix in commands]
    worst, reason = together.run(starts, say, args.timeout, one_ends_all=True)
    return reason or worst
