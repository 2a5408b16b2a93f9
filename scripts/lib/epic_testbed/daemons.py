"""The daemons of a test bed: how they are started and started again, and when all switches are there."""

import json
import os
import subprocess
import time

from . import procs
from .bed import MANAGER, MGMT, BedError, say, switch_mgmt

AGENT_TIMEOUT_S = 30
_END_TIMEOUT_S = 10


def start_all(bed, options, memifs=None, mtu=None):
    """Starts the manager, and an engine and an agent for each switch, as the options of `up` have it. `memifs`: the links that are
    such (memif.Links), of this MTU."""
    def start(name, node, program, arguments):
        bed.start(name, [os.path.join(bed.record["build"], program, program)] + arguments, bed.namespace(node))

    topo = bed.topology()
    start("manager", MGMT, "incmanager",
          ["serve"] + ([] if options["discover"] else ["--topology", bed.file("topology.yaml")]) +
          ["--listen", MANAGER] + _store(options["manager_args"]) + options["manager_args"])
    for index, switch in enumerate(topo["switches"]):
        name, control = switch["name"], bed.file(switch["name"] + ".sock")
        ports = [argument for port in switch["ports"] for argument in ("--port", memifs.port(name, port) if memifs else port)]
        ports += memifs.arguments(name, mtu) if memifs else []
        start(f"{name}.engine", name, "incengine",
              ["--name", name, "--address", switch["address"], "--mac", switch["mac"]] + ports +
              ["--sram", options["sram"], "--control", control] + _forwarding(options["engine_args"]) +
              [a.replace("{name}", name) for a in options["engine_args"]])
        start(f"{name}.agent", name, "incagent",
              ["--name", name, "--engine", control, "--manager", MANAGER, "--listen", f"{switch_mgmt(index)}:7401"])


def _store(manager_args):
    """None, unless the options of `up` say otherwise: not that of this machine's own manager."""
    return [] if any(argument.startswith("--store") for argument in manager_args) else ["--store", "memory"]


def _forwarding(engine_args):
    """Static, unless the options of `up` say otherwise: an engine takes the word once."""
    return [] if any(argument.startswith("--forwarding") for argument in engine_args) else ["--forwarding", "static"]


def names(bed):
    """The daemons that can be started again, in the order in which they were started."""
    return [name for name in bed.record["processes"] if name == "manager" or name.endswith((".engine", ".agent"))]


def restart(bed, chosen):
    """Ends each daemon by SIGTERM, if it runs, and starts it again as it was started; returns when all switches are up. One
    that an interruption leaves ended is named."""
    there = names(bed)
    if not there:
        raise BedError("this test bed has no daemons of ours: it was brought up with --bridge or --no-daemons")
    for name in chosen:
        if name not in there:
            raise BedError(f"there is no daemon '{name}'. Say one of {', '.join(there)}")
    # A manager that starts last has heard of no switch by an agent that has gone since.
    told, begin = _switches(bed) or {}, {}
    for name in sorted(dict.fromkeys(chosen), key=lambda name: name == "manager"):
        record = bed.record["processes"][name]
        node, _, kind = name.partition(".")
        try:
            # Until it has gone: its ports and sockets are free then.
            procs.kill_all(lambda record=record: [record["pid"]] if procs.alive(record) else [], _END_TIMEOUT_S)
            bed.start(name, record["argv"], bed.namespace(MGMT if name == "manager" else node))
        except KeyboardInterrupt:
            if bed.record["processes"][name] is record:
                say(f"interrupted: {name} has been told to end, and is not started again. `testbed restart {name}` does that")
            raise
        if kind == "engine":
            _wait_until_it_answers(bed, name, bed.file(node + ".sock"))
        begin[node] = time.monotonic()
        say(f"{name} runs again")
    engines = {name.partition(".")[0] for name in chosen if name.endswith(".engine")}

    def told_anew(switch, asked):
        """What the manager has of a switch is of its daemons of before until the new ones have spoken."""
        name = switch["name"]
        boot, boot_before = (row.get("engine", {}).get("boot_id") for row in (switch, told.get(name, {})))
        if name in engines and boot is not None and boot == boot_before:
            return False
        return name not in begin or switch.get("last_heartbeat_ms_ago", 0) < 1000 * (asked - begin[name])

    wait_for_switches(bed, told_anew)


def _wait_until_it_answers(bed, name, control):
    """Until an engine does, its agent may not have missed the one before."""
    deadline = time.monotonic() + AGENT_TIMEOUT_S
    while not procs.answers(control):
        if not procs.alive(bed.record["processes"][name]) or time.monotonic() > deadline:
            raise BedError(f"{name} does not answer; {bed.tail(name)}")
        time.sleep(0.02)


def wait_for_switches(bed, counts=lambda switch, asked: True):
    """Waits until the manager has every switch as up, in a row that counts(row, when it was asked for by time.monotonic()).
    BedError, with the end of a log: a daemon has ended, or 30 s were not enough."""
    begin = said = time.monotonic()
    problem, switches = "the manager does not answer", bed.switch_names()
    while True:
        asked, rows = time.monotonic(), _switches(bed)
        states = rows and {name: row.get("state") if counts(row, asked) else "not heard of yet" for name, row in rows.items()}
        down = [n for n in switches if states is None or states.get(n) != "up"]
        now = time.monotonic()
        if not down:
            say(f"{len(states)} switch{'' if len(states) == 1 else 'es'} registered after {now - begin:.1f} s")
            return
        if states is not None:
            problem = "switches not up: " + ", ".join(f"{n} ({states.get(n, 'unknown')})" for n in down)
        for name in bed.record["processes"]:
            if bed.host(name) is None and not procs.alive(bed.record["processes"][name]):
                raise BedError(f"{name} ended; {bed.tail(name)}")
        if now > begin + AGENT_TIMEOUT_S:
            culprit = "manager" if states is None else f"{down[0]}.agent"
            raise BedError(f"after {AGENT_TIMEOUT_S} s {problem}; {bed.tail(culprit)}")
        if now > said + 5:
            said = now
            say(f"waiting: {problem} ({now - begin:.0f} s)")
        time.sleep(0.2)


def _switches(bed):
    """{switch: what the manager tells of it}, or None if it does not answer."""
    argv = [*bed.enter(MGMT), os.path.join(bed.record["build"], "incmanager", "incmanager"), "switches", "--json", "--manager", MANAGER]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
        listed = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return {switch.get("name"): switch for switch in listed.get("switches", [])}
