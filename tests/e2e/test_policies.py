"""Groups under each policy in a network with tiers, and two tenants who want more than there is: who gets what, and the lines that explain it."""

import re

import pytest

import harness

MIB = 1 << 20


@pytest.fixture(name="bed")
def fixture_bed(beds):
    return beds.get("fat-tree-4", "--hosts", "softnic", f"--sram={4 * MIB}")


class Held:
    """A group whose ranks are there until `end`; `shown` is what `group show --json` has of it, `text` the page."""

    def __init__(self, bed, hosts, *options, path="network"):
        self.bed, self.name = bed, bed.new_group()
        named = [word for host in hosts for word in ("--host", host)]
        bed.manager("group", "create", self.name, "--size", str(len(hosts)), "--path", path, *named, *options)
        self.ranks = [bed.loop(rank, "--hold", group=self.name, size=len(hosts), host=host) for rank, host in enumerate(hosts)]
        for rank in self.ranks:
            rank.wait_for("joined")
        self.shown, self.text = bed.manager("group", "show", self.name), bed.manager_cli("group", "show", self.name).stdout
        print(self.text)

    @property
    def root(self):
        return self.shown["tree"][0]["switch_name"]

    def links(self):
        """Each link of the tree by its upper end."""
        return {(node["switch_name"], child["port"]) for node in self.shown["tree"] for child in node["config"]["children"]}

    def end(self):
        self.bed.release(self.ranks)
        harness.assert_all_right(self.ranks)
        self.bed.manager("group", "destroy", self.name)


def explained(bed, hosts, *options, status=0):
    """The lines of `explain`."""
    done = bed.manager_cli("explain", "--hosts", ",".join(hosts), *options)
    assert done.returncode == status, done.stdout + done.stderr
    print(done.stdout)
    return done.stdout.splitlines()


# Two in one pod each, one over two pods.
HOSTS = (["h0", "h2"], ["h1", "h3"], ["h4", "h8"])


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("policy", ["shortest", "edt", "spatial", "temporal"])
def test_three_groups_under_each_policy(bed, policy):
    """Each is where it was explained to go; all but those of shortest keep off each other's links."""
    groups, links = [], []
    for hosts in HOSTS:
        told = explained(bed, hosts, "--policy", policy, "--path", "network")
        group = Held(bed, hosts, "--policy", policy)
        assert told[-1].startswith(f"network: root {group.root}, {len(group.shown['tree'])} switch"), told
        assert any(line.startswith("memory: ") and f"{group.root} takes " in line for line in told), told
        assert f"policy      {policy}" in group.text, group.text
        assert ("width       " in group.text) == (policy != "shortest"), group.text
        blocks = re.findall(r"\bblock \d+ of 1\.0 MiB, duty 1 of 1", group.text)
        assert len(blocks) == (len(group.shown["tree"]) if policy == "temporal" else 0), group.text
        groups.append(group)
        links += group.links()
    if policy != "shortest":
        assert len(links) == len(set(links)), links
        assert [len(group.shown["tree"]) for group in groups] == [3, 3, 5]
    if policy == "edt":
        told = explained(bed, ["h0", "h15"], "--policy", "edt", "--path", "network", status=1)
        assert told[-1].startswith("refused: no resource: policy edt finds no tree: the link between edge1:"), told
        other = Held(bed, ["h0", "h15"], "--policy", "edt", path="auto")
        assert other.shown["path_taken"] == "PATH_HOSTS" and "is in another tree of policy edt" in other.text, other.text
        other.end()
    for group in groups:
        group.end()
    bed.wait_clean()


def test_a_rate_is_reserved(bed):
    rate = bed.topology()["link"]["rate_gbps"]
    most = Held(bed, ["h0", "h1"], "--policy", "spatial", "--rate", str(rate * 0.75))
    assert f", {rate * 0.75:g} Gbit/s reserved" in most.text, most.text
    told = explained(bed, ["h0", "h1"], "--policy", "spatial", "--rate", str(rate * 0.5), "--path", "network", status=1)
    assert f" has {rate * 0.25:g} Gbit/s for the group, {rate * 0.5:g} needed" in told[-1], told
    most.end()
    assert explained(bed, ["h0", "h1"], "--policy", "spatial", "--rate", str(rate * 0.5))[-1].startswith("network: root edge1")


def test_two_tenants_want_more_than_there_is(bed):
    """Red may have three eighths of a switch, blue is sure of half: red's second group and nobody's go by the hosts, blue's do not."""
    hosts = ["h0", "h1"]
    size = ("-M", "8", "-W", "8", "--path-mtu", "4096")
    bed.manager("tenant", "set", "red", "--limit-bytes", "1536K")
    bed.manager("tenant", "set", "blue", "--guarantee-bytes", "2M")
    done = bed.manager_cli("tenant", "set", "green", "--guarantee-bytes", "3M")
    assert done.returncode == 1 and "guarantee_bytes: those of all tenants would be 5.0 MiB, and core1 has 4.0 MiB" in done.stderr
    done = bed.manager_cli("tenant", "set", "green", "--limit-bytes", "5M")
    assert done.returncode == 1 and "limit_bytes: 5.0 MiB are more than the 4.0 MiB that core1 has" in done.stderr

    groups = [Held(bed, hosts, *size, "--tenant", "red", path="auto") for _ in range(2)]
    assert [group.shown["path_taken"] for group in groups] == ["PATH_NETWORK", "PATH_HOSTS"]
    assert "edge1 has 0.5 of 4.0 MiB free, 1.0 needed; no more is free for tenant red, which may have 1.5 MiB of a switch" in groups[1].text
    # What is kept for blue is not for others.
    assert explained(bed, hosts, *size)[-1] == "hosts: edge1 has 1021.0 of 4096.0 KiB free, 1027.0 needed; 2.0 MiB are kept for other tenants"
    groups += [Held(bed, hosts, *size, "--tenant", "blue") for _ in range(2)]
    assert "tenant      blue" in groups[3].text
    told = bed.manager("tenant", "show")["tenants"]
    assert [(state["tenant"]["name"], int(state["groups"])) for state in told] == [("blue", 2), ("red", 1)], told
    assert int(told[0]["bytes"]["edge1"]) == 2 * int(groups[0].shown["tree"][0]["arena_bytes"])
    print(bed.manager_cli("tenant", "show").stdout)
    done = bed.manager_cli("tenant", "remove", "blue")
    assert done.returncode == 1 and "group" in done.stderr
    for group in groups:
        group.end()
    bed.wait_clean()
    for name in ("red", "blue"):
        bed.manager("tenant", "remove", name)


def test_what_tenant_set_does_not_name_stays(bed):
    def limits():
        told, = bed.manager("tenant", "show")["tenants"]
        return {key: value for key, value in told["tenant"].items() if key != "name"}

    bed.manager("tenant", "set", "red", "--limit-bytes", "1M", "--limit-gbps", "2", "--guarantee-bytes", "1K")
    bed.manager("tenant", "set", "red", "--limit-groups", "12")
    assert limits() == {"limit_bytes": 1 << 20, "limit_groups": 12, "limit_gbps": 2, "guarantee_bytes": 1024}
    bed.manager("tenant", "set", "red", "--limit-bytes", "none", "--limit-gbps", "none")
    assert limits() == {"limit_groups": 12, "guarantee_bytes": 1024}
    bed.manager("tenant", "set", "red", "--limit-groups", "none", "--guarantee-bytes", "0")
    assert limits() == {"guarantee_bytes": 0}
    bed.manager("tenant", "remove", "red")


def test_what_is_no_policy_is_refused(bed):
    done = bed.manager_cli("group", "create", "no", "--size", "2", "--policy", "luck")
    assert (done.returncode, "policy: 'luck' is none of shortest, edt, spatial and temporal" in done.stderr) == (1, True), done
    done = bed.manager_cli("policy", "set", "fast")
    assert (done.returncode, "policy: 'fast' is none of" in done.stderr) == (1, True), done
    bed.manager("policy", "set", "edt")
    assert explained(bed, ["h0", "h2"])[-1].endswith(", policy edt")
    assert bed.manager_cli("policy", "set", "shortest").stdout == "policy shortest, of groups that ask for none\n"
    done = bed.manager_cli("group", "create", "no", "--size", "2", "--tenant", "nobody")
    assert (done.returncode, "tenant: there is no tenant nobody" in done.stderr) == (1, True), done
    done = bed.manager_cli("group", "create", "no", "--size", "2", "--policy", "temporal", "--duty", "0")
    assert (done.returncode, "duty: 0 is not more than 0 and at most 1" in done.stderr) == (1, True), done
    for option in (("--limit-groups", "-1"), ("--limit-bytes", "-1K")):
        done = bed.manager_cli("tenant", "set", "no", *option)
        assert (done.returncode, " is less than 0" in done.stderr) == (2, True), done
