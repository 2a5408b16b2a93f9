"""A network without a topology file: the manager finds it, and follows what changes, while ordinary traffic goes on."""

import re
import time

import pytest
import yaml

import epic_ranks
from epic_testbed import net
from harness import SOON_S, assert_all_right

SPINES = str(epic_ranks.TESTBED.parent.parent / "tests" / "e2e" / "two-spines.yaml")


def wait_until(condition, what):
    """Returns the seconds that it took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() < begin + SOON_S, f"{what}: not within {SOON_S} s"
        time.sleep(0.1)
    return time.monotonic() - begin


def found(bed):
    """What the manager knows: its links as {"leaf1:swp1 root:swp2", ...}, a host by its address; those that are down apart."""
    text = bed.manager("topology")["yaml"]
    down = {line.split("#")[0].strip()[2:] for line in text.splitlines() if line.endswith(("# down", "nobody has been heard yet"))}
    links, without = set(), set()
    for link in yaml.safe_load(text)["links"] or []:
        end = frozenset((link["a"], link["b"]))
        (without if any(f'a: "{link["a"]}", b: "{link["b"]}"' in line for line in down) else links).add(end)
    return links, without


def made(bed, of_hosts):
    """The links that the test bed has made, as found() has them."""
    address = {host["name"]: host["address"] for host in bed.topology()["hosts"]}
    ends = [(link["a"], link["b"]) for link in bed.topology()["links"]]
    return {frozenset(address.get(end, end) for end in pair) for pair in ends
            if of_hosts or not any(end in address for end in pair)}


def wake_hosts(bed):
    """Every host says something; who is silent is found when somebody asks for it."""
    for program in [bed.start(host, "ping", "-c", "1", "-W", "1", "10.10.200.200") for host in bed.hosts]:
        program.wait()


def assert_all_reach_all(bed):
    """The first ping of a pair may be lost: a bridge on its way is told within a second where hosts are."""
    addresses = " ".join(host["address"] for host in bed.topology()["hosts"])
    script = f"for ip in {addresses}; do (ping -c 1 -w 20 $ip > /dev/null || echo $ip) & done; wait"
    programs = {host: bed.start(host, "sh", "-c", script) for host in bed.hosts}
    for host, program in programs.items():
        program.wait()
        assert program.output == "", f"{host} does not reach {program.output.split()}"


def events(bed):
    return [event["text"] for event in bed.manager("events")["events"]]


class Ping:
    """Pings from one host to another, 20 a second, until it is ended."""

    def __init__(self, bed, source, target):
        address = epic_ranks.node_of(bed.name, target)["address"]
        self._program = bed.start(source, "ping", "-i", "0.05", "-O", "-w", "300", address)
        self._program.wait_for(" ttl=")

    def numbers(self):
        return [int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", self._program.output)]

    def goes_on(self):
        """Waits for ten more answers."""
        before = len(self.numbers())
        wait_until(lambda: len(self.numbers()) >= before + 10, "ping goes on")

    def end(self):
        """Returns how many were lost since the first answer."""
        self.goes_on()
        self._program.end(2)
        assert "DUP" not in self._program.output, self._program.output
        numbers = self.numbers()
        return numbers[-1] + 1 - numbers[0] - len(numbers)


# Through bridges also below, in a smaller network.
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("fabric", ["direct", pytest.param("bridge", marks=pytest.mark.slow), "ovs"])
def test_the_whole_graph_is_found(beds, fabric):
    more = () if fabric == "direct" else ("--fabric", fabric)
    bed = beds.get("fat-tree-4", "--hosts", "none", "--discover", *more)
    seconds = wait_until(lambda: found(bed)[0] >= made(bed, False), "all links between switches")
    wake_hosts(bed)
    wait_until(lambda: found(bed)[0] == made(bed, True), "all hosts")
    print(f"\n{fabric}: all links {seconds:.1f} s after all switches were up")
    assert_all_reach_all(bed)


@pytest.fixture(name="spines")
def fixture_spines(beds, request):
    fabric = getattr(request, "param", "direct")
    more = () if fabric == "direct" else ("--fabric", fabric)
    bed = beds.get(SPINES, "--hosts", "none", "--discover", *more)
    wake_hosts(bed)
    wait_until(lambda: found(bed)[0] == made(bed, True), "the whole graph")
    return bed


@pytest.mark.parametrize("spines", ["bridge", "direct"], indirect=True)
def test_a_link_is_cut_and_mended(spines):
    """Direct links come last, so that the next tests go on with their test bed."""
    bed = spines
    pings = [Ping(bed, "h0", "h2"), Ping(bed, "h1", "h3")]
    for spine in ("spine1", "spine2"):
        port = {frozenset(p.split(":")[0] for p in link): link for link in made(bed, False)}[frozenset(("leaf1", spine))]
        end = next(p for p in port if p.startswith(spine)).split(":")
        bed.link(*end, "down")
        seconds = wait_until(lambda port=port: port in found(bed)[1], "the link is down")
        for ping in pings:
            ping.goes_on()
        bed.link(*end, "up")
        mended = wait_until(lambda port=port: port in found(bed)[0], "the link is back")
        for ping in pings:
            ping.goes_on()
        print(f"\nleaf1-{spine}: down after {seconds:.2f} s, up after {mended:.2f} s")
    print(f"pings lost: {[ping.end() for ping in pings]}")
    assert any("is down" in text for text in events(bed))


def test_a_host_moves(spines):
    """h1 and h3 change places: each takes the other's cable."""
    bed = spines
    ping = Ping(bed, "h0", "h3")
    before = found(bed)[0]
    nodes = {host: epic_ranks.node_of(bed.name, host) for host in ("h1", "h3")}

    def change_places():
        space = {host: f"epic-{bed.name}-{host}" for host in nodes}
        net.batch([f"link set vec0 name moves netns {space['h3']}"], space["h1"])
        net.batch([f"link set vec0 netns {space['h1']}", "link set moves name vec0"], space["h3"])
        for host, node in nodes.items():
            net.batch([f"link set vec0 address {node['mac']} up", f"addr add {node['address']}/16 dev vec0"], space[host])

    def is_found(condition):
        """A host speaks now and then. What it says while a switch may still be behind its port places nobody."""
        for host in nodes:
            bed.run(host, "ping", "-c", "1", "-W", "1", "10.10.200.200", check=False)
        return condition(found(bed)[0])

    change_places()
    h3 = nodes["h3"]["address"]
    home = next(link for link in before if h3 in link)
    seconds = wait_until(lambda: is_found(lambda links: home not in links and any(h3 in link for link in links)), "h3 has moved")
    ping.goes_on()
    change_places()
    wait_until(lambda: is_found(lambda links: links == before), "all are back")
    print(f"\nh3 was found at its new place {seconds:.2f} s after it had moved; pings lost: {ping.end()}")
    assert any("has moved" in text for text in events(bed))


def test_a_switch_is_added(spines):
    bed = spines
    daemons = {name: bed.kill(name) for name in ("spine2.agent", "spine2.engine")}
    bed.revive("manager", bed.kill("manager"))
    rest = {link for link in made(bed, True) if not any(end.startswith("spine2") for end in link)}

    def is_rest_found():
        return bed.manager_cli("switches").returncode == 0 and found(bed)[0] == rest

    wait_until(lambda: bed.manager_cli("switches").returncode == 0, "a new manager")
    wake_hosts(bed)
    wait_until(is_rest_found, "what there is without spine2")
    ping = Ping(bed, "h0", "h2")
    for name in ("spine2.engine", "spine2.agent"):
        bed.revive(name, daemons[name])
    seconds = wait_until(lambda: found(bed)[0] == made(bed, True), "spine2 and its links")
    bed.wait_for_switch("spine2")
    ping.goes_on()
    print(f"\nspine2 is in the graph {seconds:.1f} s after its start; pings lost: {ping.end()}")
    assert "switch spine2 is new" in events(bed)


def test_ranks_of_hosts_that_are_silent_are_found(beds):
    bed = beds.get("tree-3-2", "--hosts", "softnic", "--discover")
    assert_all_right(bed.loops())
    bed.assert_clean()
