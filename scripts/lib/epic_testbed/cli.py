"""The command line of scripts/testbed."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys

from epic_run import together

from . import bed as beds
from . import bring_up, daemons, fabric, guest, launch, memif, net, nodes, procs, ranks, rate, topology
from .bed import BedError, say

DESCRIPTION = """Brings up switches (each in its own network namespace) and hosts (namespaces with the userspace NIC
softnic, or User-Mode Linux guests with the real rdma_rxe driver), and removes them without a trace. Needs root. Exit status: 0 done, 1 refused or
failed, 2 usage; exec passes on the command's own (124 after a timeout), run the worst of its ranks."""
RUN = """Runs a program on all hosts of the test bed that is up, or on those of --hosts, as ranks 0, 1, ... of one group: with
EPIC_RANK, EPIC_SIZE, EPIC_GROUP, EPIC_MANAGER and EPIC_IFNAME set, and on softnic where a host has that. What stands behind
PROGRAM is its own. Each line of output has the rank in front. Ctrl-C ends all ranks, by SIGTERM and SIGKILL if need be. Exit
status: the worst of the ranks'."""
MPIRUN = """Runs a program of Open MPI or MPICH, whose collectives EPIC computes, on all hosts of the test bed that is up, or on those of
--hosts. The MPI is the one that is named, else the one that the program is built with. Options of mpirun's own stand behind the
MPI's name: testbed mpirun openmpi -np 2 ./program. Ctrl-C ends all ranks. Exit status: mpirun's."""
TORCHRUN = """Runs torchrun on all hosts of the test bed that is up, or on those of --hosts, with a program of torch.distributed whose backend
is epic. Options of torchrun's own stand behind --: testbed torchrun -- --max_restarts 0 train.py. Each line of output has the host in front. Ctrl-C, and a host whose
torchrun fails, end all. Exit status: that of the first that failed."""
RESTART = """Ends daemons by SIGTERM, starts them again with the same arguments, and waits until the manager has all switches as up. One
that has died, or was killed to see what happens, is started all the same."""
INTERRUPTED = 130  # exit status


def parse(argv):
    """The arguments; in .rest what exec, run, mpirun and torchrun are to run, and what follows the first -- of other commands."""
    cut = argv.index("--") if "--" in argv and argv[:1] not in [[command] for command in ("exec", *RUNS)] else len(argv)
    args = _parser().parse_args(argv[:cut])
    args.rest = argv[cut + 1:]
    if "program" in args:
        args.rest = args.program[1:] if args.program[:1] == ["--"] else args.program
    elif args.rest and args.command != "capture":
        raise BedError(f"{args.command} takes nothing after --")
    return args


def _parser():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default=os.environ.get("TESTBED_NAME", "default"),
                        help="which test bed (default: $TESTBED_NAME or 'default')")
    parser = argparse.ArgumentParser(prog="testbed", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, text, usage=None, description=None, **more):
        return commands.add_parser(name, parents=[common], help=text, description=description or text, usage=usage, **more)

    up = command("up", "bring a topology up; does nothing if it is up already")
    up.add_argument("topology", help="a name (tree-3-2, fat-tree-4, star-N) or a .yaml file")
    up.add_argument("--build", metavar="DIR",
                    help="build tree with the daemons (default: build/release, then build/dev)")
    up.add_argument("--hosts", default="softnic", metavar="KIND[,HOST=KIND...]",
                    help="softnic: namespaces whose programs run on the userspace NIC; rxe: guests with "
                         "rdma_rxe; none: plain namespaces with a port vec0, without RDMA. Single hosts may "
                         "differ: softnic,h0=rxe")
    up.add_argument("--mtu", type=int, metavar="BYTES",
                    help="path MTU (256 to 4096) instead of the topology's")
    up.add_argument("--hosts-per-edge", type=int, metavar="N", help="fat tree: hosts at each edge switch")
    up.add_argument("--guest-mem", type=int, default=192, metavar="MB",
                    help="memory of a guest (default 192)")
    up.add_argument("--sram", default="16M", metavar="BYTES", help="arena of each switch (default 16M)")
    up.add_argument("--lend", action="append", default=[], metavar="HOST=BYTES",
                    help="starts inchost on the host, which lends so much memory to groups of mode pooled, as h0=64M; "
                         "repeatable. Such groups also need --engine-arg=--pool=BYTES")
    up.add_argument("--manager-arg", action="append", default=[], metavar="ARG",
                    help="one more argument for incmanager serve, as --manager-arg=--start-psn=16777200; "
                         "repeatable")
    up.add_argument("--engine-arg", action="append", default=[], metavar="ARG",
                    help="one more argument for every incengine; {name} in it is the switch's, as "
                         "--engine-arg=--trace=/tmp/{name}.ndjson; repeatable")
    up.add_argument("--wire", action="store_true",
                    help="every link passes through the fault box, which loses, repeats, reorders, delays or "
                         "corrupts frames when a test says so")
    up.add_argument("--fabric", choices=fabric.KINDS, default="direct",
                    help="what is in the middle of every link: nothing (direct), a Linux bridge, Open "
                         "vSwitch with the userspace datapath, or, between switches only, an IP router")
    up.add_argument("--ports", choices=memif.KINDS, default="veth",
                    help="what links between switches, and to softnic hosts, are: pairs of the kernel's devices, or memifs, which DPDK "
                         "drives (docs/DPDK.md); there a host runs one program at a time")
    up.add_argument("--discover", action="store_true",
                    help="the manager gets no topology file, and finds switches, hosts and links")
    up.add_argument("--rate", metavar="RATE", help="limits every link, each way, to so many mbit or gbit a second, as 100mbit")
    size = up.add_mutually_exclusive_group()
    size.add_argument("--single-frames", dest="frames", action="store_const", const="single", default="auto",
                      help="each packet in a frame of its own, also between switches and to softnic hosts")
    size.add_argument("--super-frames", dest="frames", action="store_const", const="super",
                      help="super-frames there also through the fault box (--wire), which takes each for one frame")
    instead = up.add_mutually_exclusive_group()
    instead.add_argument("--bridge", action="store_true",
                         help="a Linux bridge in each switch instead of our daemons")
    instead.add_argument("--no-daemons", action="store_true", help="switches without any forwarding")

    command("down", "remove the test bed: processes, namespaces, devices, files")
    command("status", "show what is up").add_argument("--json", action="store_true")

    execute = command("exec", "run a command on a host, in a switch's namespace, or in mgmt; output is live",
                      "testbed exec [options] NODE [--] CMD [ARGUMENT ...]", allow_abbrev=False)
    execute.add_argument("--timeout", type=float, metavar="S",
                         help="end the command after S seconds (status 124)")
    execute.add_argument("-i", "--stdin", action="store_true", help="pass standard input on to a guest")
    execute.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="repeatable")
    execute.add_argument("node", help="host, switch, mgmt, wire or fabric")
    execute.add_argument("program", nargs=argparse.REMAINDER, help="the command and its arguments")

    def runs(name, text, usage, description):
        run_all = command(name, text, usage, description=description, allow_abbrev=False)
        run_all.add_argument("--hosts", metavar="N|LIST", help="on the first N hosts, or on these, with more ranks than one where a number "
                             "stands behind a colon: h0:2,h1 (default: a rank on each)")
        run_all.add_argument("--timeout", type=float, metavar="S", help="end the ranks after S seconds (status 124)")
        run_all.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="repeatable")
        run_all.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
        return run_all

    runs("run", "run a program on all hosts, or some, as the ranks of a group", "testbed run [options] PROGRAM [ARGUMENT ...]",
         RUN).add_argument("--group", metavar="NAME", help="the group's name (default: $EPIC_GROUP, else a new name each time)")
    runs("mpirun", "run a program of Open MPI or MPICH on all hosts, or some, on EPIC",
         "testbed mpirun [options] [openmpi|mpich] [MPIRUN-OPTION ...] PROGRAM [ARGUMENT ...]", MPIRUN)
    runs("torchrun", "run a program of torch.distributed on all hosts, or some, on EPIC",
         "testbed torchrun [options] [-- TORCHRUN-OPTION ...] PROGRAM [ARGUMENT ...]", TORCHRUN)

    again = command("restart", "end daemons and start them again", "testbed restart [--name NAME] DAEMON ...", description=RESTART)
    again.add_argument("daemon", nargs="+", help="manager, leaf1.engine, leaf1.agent, ... as `testbed logs` has them")

    capture = command("capture", "run tcpdump at a switch's port",
                      "testbed capture [options] PORT [-- TCPDUMP-OPTIONS FILTER]")
    capture.add_argument("port", help="leaf1:swp1, or a host's name for the switch port that it is at")
    capture.add_argument("-w", "--write", metavar="FILE", help="write a pcap file instead of text")
    capture.add_argument("-c", "--count", type=int, metavar="N", help="stop after N packets")

    logs = command("logs", "show the end of the logs")
    logs.add_argument("log", nargs="?", help="manager, leaf1.engine, leaf1.agent, h0, ... (default: all)")
    logs.add_argument("-n", "--lines", type=int, default=20)
    logs.add_argument("-f", "--follow", action="store_true")
    return parser


def main(argv=None):
    try:
        args = parse(sys.argv[1:] if argv is None else argv)
        if os.geteuid() != 0:
            raise BedError("needs root, for namespaces and devices: run it with sudo")
        return COMMANDS[args.command](beds.Bed(args.name), args) or 0
    except (BedError, topology.TopologyError, net.NetError, guest.GuestError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return 1


def up(bed, args):
    topo = topology.load(args.topology, args.mtu, args.hosts_per_edge)
    if args.fabric == "routed":
        topo = topology.with_routers(topo)
    rate_mbit = rate.mbit_of(args.rate) if args.rate is not None else None
    if rate_mbit:
        topo = topology.with_rate(topo, rate_mbit / 1000)
    if not 64 <= args.guest_mem <= 16384:
        raise BedError("a guest's memory is 64 to 16384 MB")
    options = {"hosts": args.hosts,
               "daemons": "bridge" if args.bridge else "none" if args.no_daemons else "engine",
               "build": os.path.realpath(args.build) if args.build else None, "guest_mem": args.guest_mem,
               "sram": args.sram, "manager_args": args.manager_arg, "engine_args": args.engine_arg,
               "wire": args.wire, "fabric": args.fabric, "frames": args.frames, "rate_mbit": rate_mbit,
               "discover": args.discover, "lend": args.lend, "ports": args.ports}
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, procs.interrupt)
    with beds.lock(bed.name):
        if bed.load() and bed.record["phase"] == "up":
            return _already_up(bed, topo, options)
        run = bring_up.BringUp(bed, topo, options)
        if bed.leftovers():
            say("removing what an interrupted run left behind")
            bed.down()
        try:
            run.run()
        except BaseException:
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(signum, signal.SIG_IGN)
            say("removing what was brought up")
            bed.down()
            raise
    return 0


def _already_up(bed, topo, options):
    if topology.dump(bed.topology()) != topology.dump(topo) or bed.record["options"] != options:
        raise BedError(f"test bed '{bed.name}' holds {bed.record['topology']}, another topology or "
                       "with other options: run `testbed down` first, or choose another --name")
    dead = [name for name, record in bed.record["processes"].items() if not procs.alive(record)]
    if dead:
        raise BedError(f"{bed.record['topology']} is up, but {', '.join(dead)} ended: "
                       f"see `testbed logs {dead[0]}`, then run `testbed down`")
    say(f"{topo['name']} is up already")
    return 0


def down(bed, _args):
    with beds.lock(bed.name):
        if bed.leftovers():
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(signum, signal.SIG_IGN)  # half a removal helps nobody; it takes seconds
            bed.down()
            say(f"test bed '{bed.name}' is removed")
        else:
            say(f"there is no test bed '{bed.name}'")


def status(bed, args):
    if not bed.load():
        down_json = json.dumps({"name": bed.name, "phase": "down"})
        print(down_json if args.json else f"test bed '{bed.name}' is down")
        return 0
    topo, record = bed.topology(), bed.record
    alive = {name: procs.alive(process) for name, process in record["processes"].items()}
    if args.json:
        print(json.dumps({"name": bed.name, "run_dir": bed.run_dir, "alive": alive,
                          "switches": topo["switches"], **record}, indent=1))
        return 0
    print(f"{record['topology']} in test bed '{bed.name}', {record['phase']}; path MTU {topo['path_mtu']}; "
          f"hosts: {record['options']['hosts']}; switches: {record['options']['daemons']}; "
          f"links: {record['options']['fabric']}{_rate(record['options']['rate_mbit'])}; "
          f"files: {bed.run_dir}")
    print(f"{'node':<12}{'address':<16}{'management':<16}{'state':<26}ports")
    for index, switch in enumerate(topo["switches"]):
        state = ", ".join(f"{p} {_word(alive, switch['name'] + '.' + p)}" for p in ("engine", "agent")
                          if f"{switch['name']}.{p}" in alive) or record["options"]["daemons"]
        print(f"{switch['name']:<12}{switch['address']:<16}{beds.switch_mgmt(index):<16}{state:<26}"
              f"{' '.join(switch['ports'])}")
    for host in record["hosts"]:
        state = f"guest {_word(alive, host['name'])}" if host["name"] in alive else host["kind"]
        print(f"{host['name']:<12}{host['address']:<16}{host['mgmt_address']:<16}{state:<26}"
              f"at {host['switch']}:{host['port']}")
    manager = f"manager {_word(alive, 'manager')}" if "manager" in alive else "no manager"
    print(f"{beds.MGMT:<12}{'':<16}{beds.MANAGER.split(':')[0]:<16}{manager}")
    return 0


def _rate(mbit):
    return f", {mbit} Mbit/s" if mbit else ""


def _word(alive, name):
    return "up" if alive.get(name) else "DEAD"


def execute(bed, args):
    bed.require_up()
    argv = args.rest
    if not argv:
        raise BedError("exec needs a command: testbed exec h0 -- ibv_devinfo")
    extra = dict(item.partition("=")[::2] for item in args.env)
    host = bed.host(args.node)
    if host and host["kind"] == "rxe":
        env = nodes.guest_environment(bed, extra)
        with guest.connect(bed.namespace(beds.MGMT), host["mgmt_address"]) as connection:
            return guest.execute(connection, argv, env, os.getcwd(), args.timeout, args.stdin)
    if host is None and args.node not in [beds.MGMT, *bed.inner_nodes(), *bed.switch_names()]:
        raise BedError(f"no host or switch '{args.node}' in {bed.record['topology']}")
    return _replace(*nodes.in_namespace(bed, args.node, argv, extra, args.timeout))


def _replace(argv, env):
    """Becomes argv, so that signals and the exit status are its own."""
    sys.stdout.flush()
    os.execvpe(argv[0], argv, env)


def run(bed, args):
    hosts = ranks.hosts(bed, args.hosts)
    if not args.rest:
        raise BedError("run needs a program: testbed run ./PROGRAM [ARGUMENT ...]")
    ranks.check(bed, hosts, args.rest[0])
    commands = []
    for host, own in zip(hosts, together.variables(len(hosts), args.group)):
        extra = {**own, **dict(item.partition("=")[::2] for item in args.env)}
        if host["kind"] == "rxe":
            # Its client has a signal handler and a connection of its own.
            argv = [sys.executable, os.path.join(nodes.REPO, "scripts", "testbed"), "exec", "--name", bed.name]
            argv += [word for item in extra.items() for word in ("--env", "=".join(item))]
            commands.append((host["name"], [*argv, host["name"], "--", *args.rest], dict(os.environ)))
        else:
            commands.append((host["name"], *nodes.in_namespace(bed, host["name"], args.rest, extra)))
    return ranks.run(commands, args.timeout)


def restart(bed, args):
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, procs.interrupt)
    with beds.lock(bed.name):
        bed.require_up()
        daemons.restart(bed, args.daemon)


def capture(bed, args):
    bed.require_up()
    host = bed.host(args.port)
    switch, _, port = (host["switch"], "", host["port"]) if host else args.port.partition(":")
    node = next((s for s in bed.topology()["switches"] if s["name"] == switch), None)
    if node is None or port not in node["ports"]:
        first = bed.record["hosts"][0]
        raise BedError(f"no port '{args.port}': say SWITCH:PORT, like {first['switch']}:{first['port']} "
                       "(see `testbed status`)")
    argv = ["tcpdump", "-n", "--immediate-mode", "-Z", "root", "-i", port]
    argv += ["-U", "-w", args.write] if args.write else ["-e"]
    argv += ["-c", str(args.count)] if args.count else []
    return _replace(*nodes.in_namespace(bed, switch, argv + args.rest, {}))


def logs(bed, args):
    if not bed.load():
        raise BedError(f"there is no test bed '{bed.name}'")
    names = sorted((f[:-4] for f in os.listdir(bed.file("logs"))),
                   key=lambda n: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", n)])
    if args.log:
        if args.log not in names:
            raise BedError(f"no log '{args.log}'; there are {', '.join(names)}")
        names = [args.log]
    follow = ["-F"] if args.follow else []
    tail = ["tail", "-n", str(args.lines)] + follow + [bed.log(name) for name in names]
    return subprocess.run(tail, check=False).returncode


RUNS = {"run": run, "mpirun": launch.mpirun, "torchrun": launch.torchrun}
COMMANDS = {"up": up, "down": down, "status": status, "exec": execute, **RUNS, "restart": restart, "capture": capture, "logs": logs}
