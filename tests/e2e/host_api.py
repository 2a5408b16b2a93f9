"""What the tests of the host library's interface share: api_rank's steps on one test bed, and what it told of them."""

import json
import os
import signal
import time

import harness
from stalls import Stalls

API_RANK = harness.BUILD / "tests" / "e2e" / "api_rank"
C_RANK = harness.BUILD / "tests" / "e2e" / "c_rank"
C_OWNER = harness.BUILD / "tests" / "e2e" / "c_owner"
C_PATH = harness.BUILD / "tests" / "e2e" / "c_path"
RANKS = 4
# One bed for all. The bridge in each link is for cutting it as a dead port would: no end sees its carrier go.
BED = ("tree-3-2", "--hosts", "softnic", "--fabric", "bridge")
# docs/HOST.md, "Errors and deadlines": "at once" is a second, and whatever it promises may take so much longer while
# other programs want the processors; and as a processor stood still meanwhile.
AT_ONCE_S = 1
SLACK_S = 2
STALLS = Stalls()


# A failed group is left, and the same object joins another, which works.
ANEW = ("destroy", "init:{group}", "allreduce:300", "destroy")


class Rank:
    """api_rank on a host; `steps` are its command line, behind options; `before` is variables, and what runs it."""

    def __init__(self, bed, number, steps, group, size=RANKS, host=None, options=(), before=()):
        self.number = number
        self.program = bed.start(host or bed.hosts[number], "env", *before, API_RANK, "--group", group,
                                 "--rank", number, "--size", size, *options, *steps)

    def wait_until_doing(self, step, timeout_s=30):
        """Waits until the rank has begun a step."""
        self.program.wait_for(f'"doing":"{step}"', timeout_s)

    def signal(self, signum=signal.SIGUSR1):
        """SIGUSR1 ends its pause, SIGUSR2 makes it abort. Hosts on softnic share this machine's process numbers."""
        os.kill(json.loads(self.program.wait_for('"pid"'))["pid"], signum)

    def told(self):
        """What it told of each step, in order; waits for its end, and fails if an element was wrong."""
        assert self.program.wait() == 0, self.program.output
        return [line for line in self.program.json_lines() if "did" in line]

    def did(self, step):
        """What it told of the last such step."""
        return [line for line in self.told() if line["did"] == step][-1]

    def groups(self):
        """What it told, by group: each begins with an init."""
        told = self.told()
        begins = [place for place, line in enumerate(told) if line["did"].startswith("init")] + [len(told)]
        return [told[begin:end] for begin, end in zip(begins, begins[1:])]

    def outcome(self):
        """Each step with the name of the error that it returned, or "ok"."""
        return [(line["did"], line.get("error", "ok")) for line in self.told()]

    def errors(self):
        """Of each step with an error, what it told."""
        return [line for line in self.told() if "error" in line]


def start(bed, *steps, group=None, hosts=None, first=None, before=()):
    """Starts ranks 0, 1, ... of one group, each with its steps; `first` is more for rank 0 alone, as Rank takes it."""
    group = group or bed.new_group()
    hosts = hosts or bed.hosts
    return [Rank(bed, number, own, group, len(steps), hosts[number], **{"before": before, **((first or {}) if number == 0 else {})})
            for number, own in enumerate(steps)]


def seconds_between(cause, effect):
    """From the end of one rank's step to that of another's."""
    return (effect["at_us"] - cause["at_us"]) / 1e6


def assert_within(promised_s, seconds):
    stalled = STALLS.since(time.monotonic() - seconds - 60)  # it may be a minute ago
    print(f"{seconds:.2f} s, promised within {promised_s} s; a processor stood still for {stalled:.2f} s")
    assert seconds < promised_s + SLACK_S + stalled, f"{seconds:.1f} s instead of {promised_s} s, {stalled:.1f} s stalled"


def first_error(rank, nth=0):
    """What it told of the first step in the nth group that returned an error."""
    return next(line for line in rank.groups()[nth] if "error" in line)


def anew(bed):
    """The steps of ANEW for a group that was not used yet."""
    group = bed.new_group()
    return [step.format(group=group) for step in ANEW]


def assert_ended_everywhere(ranks, expected, nth=0):
    """The nth group ended with these errors, which all later calls, AsyncError and Destroy return too; the last group,
    another one, is right."""
    for rank, error in zip(ranks, expected):
        ended = rank.groups()[nth]
        from_then_on = ended[ended.index(first_error(rank, nth)):]
        said = {line["did"]: line.get("error") for line in from_then_on
                if not line["did"].startswith(("pause", "option"))}
        assert set(said.values()) == {error} and "destroy" in said, f"rank {rank.number}: {rank.outcome()}"
        assert [line["did"] for line in rank.groups()[-1] if "error" not in line][1:] == ["allreduce:300", "destroy"], \
            f"rank {rank.number}: {rank.outcome()}"
