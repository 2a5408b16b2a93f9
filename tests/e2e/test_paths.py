"""Which way a group goes, and the one line that says why: docs/DEPLOY.md, "Which path a group takes", on daemons.

Each situation has two groups. That of `auto` goes by the hosts, and everybody says the reason in the same words: `group
show` and `group list`, Communicator::Path() on each rank, epicCommPath on the one that is written in C, one line of
rank 0's log and none of the others'. That of `network` is refused, with the error of the table.

Four processes go through all groups, since what is slow is to bring a situation about; the tests look at what was said.
"""

import contextlib
import dataclasses
import os
import pathlib
import signal

import pytest

from epic_testbed import net
from altered import Altered, state_of, wait_for
import host_api
from host_api import Rank

pytestmark = pytest.mark.endings

BED = (str(pathlib.Path(__file__).parent / "two-spines.yaml"), "--hosts", "softnic",
       "--manager-arg=--window-packets=256")
RANKS = 4
SMALL = ("-M", "2", "-W", "8")  # a group that leaf1 has room for
# The hosts of ranks between which spine1 forwards, whatever becomes of spine2.
BY_SPINE1 = ("h0", "h1", "h3", "h3")


@dataclasses.dataclass
class Situation:
    """What keeps a group from its switches; error and message are those of path network."""
    options: tuple  # of `group create`
    reason: str
    error: str
    message: str


def same(options, error, words):
    return Situation(options, words, error, words)


def no_tree(options, words):
    return Situation(options, words, "no tree", words)


def hangs_on(options, host, switch, words):
    return Situation(options, f"{switch}: {words}", "no tree",
                     f"h{host} (rank {host}) hangs on {switch}, which cannot take part: {words}")


CUT_OFF = ("no path over usable switches joins h0 and {}; not usable: spine1 (its agent is lost), "
           "spine2 (its engine is down)")
SITUATIONS = {
    "a window that no NIC has":
        same(("-M", "4", "-W", "64"), "invalid argument",
             "M*W: 256 packets are more than the 128 that may be in flight"),
    "a link that carries less":
        same(("--path-mtu", "4096"), "path MTU",
             "path_mtu: 4096 is more than the link at leaf2:swp3 (MTU 1500) carries (1024)"),
    "no room in a switch":
        Situation(("-M", "4", "-W", "16"), "leaf1 has 0.7 of 1.0 MiB free, 1.0 needed", "no resource",
                  "switch leaf1: arena: 1051648 bytes needed, 785664 of 1048576 bytes left"),
    "an operation that a switch lacks":
        no_tree(("--operations", "sum,product"), "operation product is not in leaf1 (version 0.1.0)"),
    "a type that a switch lacks":
        no_tree(("--types", "float32,float64"), "type float64 is not in leaf1 (version 0.1.0)"),
    "an engine that states no operations":
        no_tree(("--operations", "sum,bxor"), "operation bxor is not in leaf1 (version 0.0.9)"),
    "a mode that a switch does not offer":
        hangs_on(("--mode", "3"), 0, "leaf1", "its engine does not offer mode III"),
    "a payload that a switch does not sum":
        same(("--path-mtu", "4096"), "path MTU", "path_mtu: 4096 is more than the engine of leaf1 carries (1024)"),
    "more children than a switch takes":
        same((), "no resource", "leaf1 would have 2 children in this group; it takes at most 1"),
    "an agent that does not answer":
        Situation(SMALL, "switch leaf2: the agent of leaf2 at 10.255.1.2:7401 does not answer", "", ""),
    "an agent that is lost":
        hangs_on((), 2, "leaf2", "its agent is lost"),
    "no switch that reaches all, though spine1 forwards":
        no_tree((), CUT_OFF.format("h2")),
}


# --- the bed

@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get(*BED)


@contextlib.contextmanager
def port_mtu(bed, switch, port, mtu):
    """Its own end only: the agent says what it is at its next heartbeat."""
    def set_to(value):
        net.batch([f"link set {port} mtu {value}"], f"epic-{bed.name}-{switch}")
        wait_for(bed, switch, lambda state: {"name": port, "mtu": value}.items() <= next(
            p for p in state["engine"]["ports"] if p["name"] == port).items())
    before = next(p for p in state_of(bed, switch)["engine"]["ports"] if p["name"] == port)["mtu"]
    set_to(mtu)
    yield
    set_to(before)


def leaf1_of(bed):
    """The engine of leaf1 with 1 MiB, and with the first types and operations alone; what it states can be altered."""
    def small(engine):
        engine[engine.index("--sram") + 1] = "1M"
        return engine + ["--types=float32,int32,float16,bfloat16,byte", "--operations=sum,min,max"]
    leaf1 = Altered(bed, "leaf1", small)
    wait_for(bed, "leaf1", lambda state: state["engine"]["capability"]["arena_bytes"] == 1 << 20)
    return leaf1


# --- the groups

def logged(program, group):
    """What the library has logged of the group at level warn."""
    mark = f" warn: group {group}: "
    return [line.partition(mark)[2] for line in program.output.splitlines() if mark in line]


class Ranks:
    """Processes that go through groups. Rank 0 waits before each, and in one of path auto before it leaves."""

    def __init__(self, bed, hosts, groups, before=None):
        """groups: {name: whether rank 0 waits in it}; before: {rank: variables}. The last rank is the one in C."""
        self.bed, self.hosts, self.held, self.in_c, before = bed, hosts, groups, len(hosts) - 1, before or {}
        variables = ("EPIC_JOIN_TIMEOUT=200", *before.get(self.in_c, ()))
        self.c = bed.start(hosts[self.in_c], "env", *variables, host_api.C_PATH, self.in_c, len(hosts), *groups)
        self.api = {number: Rank(bed, number, [step for group in groups for step in self.steps(number, group)], "-",
                                 len(hosts), hosts[number], ("--join-timeout-ms", 200_000), before.get(number, ()))
                    for number in range(self.in_c)}

    def steps(self, number, group):
        pauses = [f"pause:{group}"] if number == 0 else []
        held = [f"pause:{group}-held"] if number == 0 and self.held[group] else []
        return [*pauses, f"init:{group}", "path", "barrier", *held, "destroy"]

    def go(self, group):
        """Through this group. Returns what `group show` and `group list` say of its path, if rank 0 waits in it."""
        self.api[0].wait_until_doing(f"pause:{group}")
        self.api[0].signal()
        if not self.held[group]:
            return self.api[0].program.wait_for(f'"did":"init:{group}"')
        self.api[0].wait_until_doing(f"pause:{group}-held")
        lines = [line for command in (["show", group], ["list"])
                 for line in self.bed.manager_cli("group", *command).stdout.splitlines()]
        self.api[0].signal()
        return [line for line in lines if line.startswith(("path  ", f"{group} "))]

    def end(self):
        """Waits for all; nothing was wrong."""
        assert self.c.wait() == 0, self.c.output
        for rank in self.api.values():
            rank.told()

    def program(self, number):
        return self.c if number == self.in_c else self.api[number].program

    def told(self, group):
        """Of each rank the path and reason, or the error and message of Init."""
        told = {}
        for number, rank in self.api.items():
            init, path = next(lines for lines in rank.groups() if lines[0]["did"] == f"init:{group}")[:2]
            told[number] = (init["error"], init["message"]) if "error" in init else (path["path"], path["reason"])
        line = next(line for line in self.c.output.splitlines() if line.startswith(f"{group}: "))
        told[self.in_c] = tuple(line.split(": ", 3)[2:])
        return [told[number] for number in sorted(told)]

    def logged(self, group):
        return [logged(self.program(number), group) for number in range(len(self.hosts))]


# What leaf1 has, and what it lacks, by turns and at once.
MIXED = ("allreduce:10000", "allreduce:10000,int32,prod", "start-allreduce:300000", "start-reduce:5000,double,sum,3",
         "start-broadcast:30000,int16,sum,1", "start-reducescatter:500,int32,prod", "start-allgather:5001,half",
         "wait:1", "wait:2", "wait:3", "wait:4", "wait:5", "barrier")


def start_mixed(bed):
    """A group of five ranks on three hosts, through switches of which leaf1 lacks types and operations."""
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", "5", *SMALL)
    steps = ["init", "path", "path:int32,prod", "path:double,sum", "path:int16", *MIXED, "destroy"]
    return [Rank(bed, number, steps, group, 5, host) for number, host in enumerate(("h0", "h0", "h1", "h2", "h2"))]


class MadeAnew:
    """A group through spine2, which dies, and at once the same ranks in a group of the same name."""

    def __init__(self, bed):
        self.bed, self.group = bed, bed.new_group()
        bed.manager("group", "create", self.group, "--size", str(RANKS), *SMALL)
        steps = ["init", "path", "until-error", "destroy", f"init:{self.group}", "path", "allreduce:100000"]
        self.ranks = [Rank(bed, number, [*steps, *["pause"][number:], "destroy"], self.group, host=host)
                      for number, host in enumerate(BY_SPINE1)]
        for rank in self.ranks:
            rank.wait_until_doing("until-error")

    def go_on(self):
        self.ranks[0].wait_until_doing("pause")
        self.shown = self.bed.manager_cli("group", "show", self.group).stdout
        self.ranks[0].signal()
        for rank in self.ranks:
            rank.told()


def created(bed, situation, path):
    group = bed.new_group()
    bed.manager("group", "create", group, "--size", str(RANKS), "--path", path, *situation.options)
    return group


@pytest.fixture(name="seen", scope="module")
def fixture_seen(all_beds):
    """What was seen of each situation: (the ranks, the group under auto and what is shown of it, that of network)."""
    bed = all_beds.get(*BED)
    autos = {name: created(bed, situation, "auto") for name, situation in SITUATIONS.items()}
    networks = {name: created(bed, situation, "network") for name, situation in SITUATIONS.items() if situation.error}
    held = {group: not of_network for name in SITUATIONS
            for group, of_network in ((autos[name], False), (networks.get(name), True)) if group}
    ranks, shown = Ranks(bed, bed.hosts, held), {}

    def go(*names):
        for name in names:
            shown[name] = ranks.go(autos[name])
            if name in networks:
                ranks.go(networks[name])

    names = iter(SITUATIONS)
    go(next(names))
    with port_mtu(bed, "leaf2", "swp3", 1500):
        go(next(names))
    leaf1 = leaf1_of(bed)
    others = bed.loops("--hold", "--counts", "100", group=bed.network_group(*SMALL))
    for rank in others:
        rank.wait_for("joined")
    go(next(names))
    bed.release(others)
    go(next(names), next(names))
    mixed = start_mixed(bed)
    for rank in mixed:
        rank.told()
    leaf1.alter("0.0.9", operations=[], modes=[1, 2], max_path_mtu=1024)
    go(next(names), next(names), next(names))
    leaf1.alter("0.0.8", max_children=1)
    go(next(names))
    leaf1.alter("0.1.0")
    agent = bed.record()["processes"]["leaf2.agent"]["pid"]
    os.kill(agent, signal.SIGSTOP)
    go(next(names))
    bed.kill("spine1.agent")
    bed.wait_for_switch("leaf2", "agent lost")
    go(next(names))
    os.kill(agent, signal.SIGCONT)
    bed.wait_for_switch("leaf2")
    bed.wait_for_switch("spine1", "agent lost")
    anew = MadeAnew(bed)
    bed.kill("spine2.engine")
    bed.wait_for_switch("spine2", "engine down")
    go(next(names))
    anew.go_on()
    ranks.end()
    yield {"anew": anew, "mixed": mixed,
           **{name: (ranks, autos[name], shown[name], networks.get(name)) for name in SITUATIONS}}
    all_beds.close()  # nobody else wants one in this state


# --- nothing is in the way

def through_one(bed, hosts, *create, before=None, first=None):
    """A group by itself: the ranks and what is shown. `first` is a rank that must have joined before rank 0 does."""
    group = bed.new_group()
    if create:
        bed.manager("group", "create", group, "--size", str(len(hosts)), *create)
    ranks = Ranks(bed, hosts, {group: True}, before)
    if first is not None:
        bed.wait_for_rank(group, first)
    shown = ranks.go(group)
    ranks.end()
    return ranks, group, shown


def test_the_network_is_taken_where_it_can_be(bed):
    """Also with several ranks on a host; it has no reason, and nobody has anything to say."""
    ranks, group, shown = through_one(bed, ("h0", "h0", "h1", "h2", "h2"))
    assert shown[0] == "path        network; calls that its switches lack go by the hosts (auto was asked for)"
    assert "network" in shown[1] and "hosts" not in shown[1], shown
    assert ranks.told(group) == [("network", "")] * 5
    assert ranks.logged(group) == [[]] * 5


HOSTS = ("EPIC_PATH=hosts",)


@pytest.mark.parametrize("who, create, before, warned", [
    ("its operator", ("--path", "hosts"), {}, True), ("rank 1", (), {1: HOSTS}, True),
    ("rank 1", (), {0: HOSTS, 1: HOSTS}, False)],
                         ids=["operator", "another", "both"])
def test_hosts_that_were_asked_for(bed, who, create, before, warned):
    """Rank 0 says so, but if it has asked itself."""
    ranks, group, shown = through_one(bed, ("h0", "h1"), *create, before=before, first=1 if 1 in before else None)
    reason = f"asked for by {who}"
    assert shown[0] == f"path        hosts: {reason} (hosts was asked for)"
    assert ranks.told(group) == [("hosts", reason)] * 2
    assert ranks.logged(group) == [[f"hosts: {reason}"] if warned else [], []]


def test_a_group_of_one_rank_needs_nobody(bed):
    told = bed.run("h0", "env", "EPIC_MANAGER=127.0.0.1:9", host_api.C_PATH, 0, 1, "alone")
    assert "alone: path: hosts: the group has one rank\n" in told and "group alone" not in told, told
    rank = Rank(bed, 0, ["init", "path", "allreduce:1000", "destroy"], "alone", 1, before=("EPIC_MANAGER=127.0.0.1:9",))
    assert rank.errors() == [] and logged(rank.program, "alone") == []
    assert (rank.did("path")["path"], rank.did("path")["reason"]) == ("hosts", "the group has one rank")


# --- something is

@pytest.mark.parametrize("name", [name for name, situation in SITUATIONS.items() if situation.reason])
def test_a_group_goes_by_the_hosts_and_all_say_why(seen, name):
    ranks, group, shown, _ = seen[name]
    reason = SITUATIONS[name].reason
    assert shown[0] == f"path        hosts: {reason} (auto was asked for)"
    assert f"  hosts: {reason}  " in shown[1], shown
    assert ranks.told(group) == [("hosts", reason)] * RANKS
    assert ranks.logged(group) == [[f"hosts: {reason}"], [], [], []]


@pytest.mark.parametrize("name", [name for name, situation in SITUATIONS.items() if situation.error])
def test_a_group_of_path_network_is_refused(seen, name):
    ranks, _, _, group = seen[name]
    assert ranks.told(group) == [(SITUATIONS[name].error, SITUATIONS[name].message)] * RANKS
    assert ranks.logged(group) == [[]] * RANKS


def test_single_calls_go_by_the_hosts_beside_those_through_switches(seen):
    """With several ranks on a host; rank 0 says it once of each thing that is missing."""
    product, double = (f"{what} is not in leaf1 (version 0.1.0)" for what in ("operation product", "type float64"))
    for number, rank in enumerate(seen["mixed"]):
        assert rank.errors() == []
        paths = [(line["path"], line["reason"]) for line in rank.told() if line["did"].startswith("path")]
        assert paths == [("network", ""), ("hosts", product), ("hosts", double), ("network", "")]
        assert sum("wrong" in line for line in rank.told()) == 8
        words = [line.partition(": hosts: ")[2] for line in rank.program.output.splitlines() if " warn: group " in line]
        assert words == ([product, double] if number == 0 else []), words


def test_a_group_made_anew_without_its_switch_goes_by_the_hosts(seen):
    anew, reason = seen["anew"], CUT_OFF.format("h3")
    for number, rank in enumerate(anew.ranks):
        before, after = rank.groups()
        assert (before[1]["path"], before[1]["reason"]) == ("network", "")
        assert before[2]["error"] == "switch lost" and "spine2" in before[2]["message"], before[2]
        assert (after[1]["path"], after[1]["reason"]) == ("hosts", reason)
        assert [line for line in after if "error" in line] == []
        assert logged(rank.program, anew.group) == ([f"hosts: {reason}"] if number == 0 else [])
    assert f"path        hosts: {reason} (auto was asked for)\n" in anew.shown
