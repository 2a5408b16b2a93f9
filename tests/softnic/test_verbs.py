"""Our own verbs programs on softnic: every call and error in one process, and two processes of which one dies.

Needs a build of verbs_test and verbs_peer. With EPIC_BUILD=build/tsan or build/asan-ubsan it runs under that sanitizer.
"""

import os
import signal

import pytest

import at_rest
import pair as pairs

PROGRAMS = pairs.BUILD / "tests" / "softnic"


@pytest.fixture(name="programs", autouse=True, scope="module")
def fixture_programs():
    for name in ("verbs_test", "verbs_peer"):
        assert os.access(PROGRAMS / name, os.X_OK), f"cmake --build {pairs.BUILD} --target verbs_test verbs_peer"


@pytest.mark.parametrize("suite", ["VerbsAtomics.*", "VerbsBatches.*", "VerbsWindows.*", "VerbsOwnWindows.*", "VerbsCalls.*", "VerbsDevice.*",
                                   "VerbsErrors.*", "VerbsExtended*", "VerbsMemory.*", "*RefusalTest.*", "VerbsThreads.*",
                                   "VerbsFork.*", "VerbsGid.*", "VerbsMulticast.*", "VerbsShortage.*", "VerbsStates.*", "VerbsUc.*", "*VerbsPieces.*"])
def test_calls(pair, suite):
    said = pair.run("a", PROGRAMS / "verbs_test", f"--gtest_filter={suite}", timeout_s=120)
    assert "[  PASSED  ]" in said and " 0 tests" not in said


class Peer:
    """A verbs_peer that obeys; several of them are connected by the tests."""

    def __init__(self, pair, host):
        self.program = pair.start(host, PROGRAMS / "verbs_peer")
        self._seen = 0

    def tell(self, command, answers=1, timeout_s=20):
        """Sends a command and returns as many lines of answer."""
        self.program.write(command + "\n")
        return self.read(answers, timeout_s)

    def read(self, answers=1, timeout_s=20):
        """The next lines."""
        wanted = self._seen + answers
        self.program.wait_for(lambda: self.program.output.count("\n") >= wanted, f"line {wanted}", timeout_s)
        lines = self.program.output.splitlines()[self._seen:wanted]
        self._seen = wanted
        return lines

    def new(self):
        """A new queue pair: its number, QPN and address."""
        words = self.tell("new")[0].split()
        assert words[0] == "qp", words
        return words[1], int(words[3]), words[5]

    def send(self, number, count=1, timeout_s=20):
        """Statuses of sends, and after how many ms each was known."""
        lines = [line.split() for line in self.tell(f"send {number} {count}", count, timeout_s)]
        assert all(words[0] == "status" for words in lines), lines
        return [int(words[1]) for words in lines], [float(words[3]) for words in lines]


def connect(one, other, timeout=14, retries=7):
    """Joins a new queue pair of each; their numbers."""
    (number, qpn, ip), (other_number, other_qpn, other_ip) = one.new(), other.new()
    assert one.tell(f"connect {number} {other_qpn} {other_ip} {timeout} {retries}") == ["connected"]
    assert other.tell(f"connect {other_number} {qpn} {ip} {timeout} {retries}") == ["connected"]
    return number, other_number


SUCCESS, FLUSHED, RETRIES_EXCEEDED = 0, 5, 12  # of ibv_wc_status


def test_peer_that_is_killed(pair):
    survivor, victim, bystander = Peer(pair, "a"), Peer(pair, "b"), Peer(pair, "b")
    timeout, retries = 14, 3
    lost, lost_too = (connect(survivor, victim, timeout, retries)[0] for _ in range(2))
    kept, received = connect(survivor, bystander)
    victim.tell("receive 0 8")
    assert survivor.send(lost)[0] == [SUCCESS]
    os.kill(victim.program.pid, signal.SIGKILL)
    victim.program.process.wait()
    statuses, times = survivor.send(lost, 4)
    assert statuses == [RETRIES_EXCEEDED] + [FLUSHED] * 3
    # Each try may take up to four times the stated time-out (InfiniBand specification 9.9.2.1.1).
    least = 4.096e-3 * 2 ** timeout * (retries + 1)
    print(f"retry exceeded after {times[0]:.1f} ms, {times[0] / least:.2f} of the least time")
    assert least <= times[0] <= 4 * least
    assert survivor.send(lost)[0] == [FLUSHED], "it stays in error"
    # The others go on: that to the bystander, and the second one to the victim finds out by itself.
    bystander.tell(f"receive {received} 4")
    assert survivor.send(kept, 2)[0] == [SUCCESS] * 2
    assert survivor.send(lost_too)[0] == [RETRIES_EXCEEDED]
    assert survivor.send(kept, 2)[0] == [SUCCESS] * 2
    assert survivor.tell(f"destroy {lost}") == ["destroyed"]
    # A successor of the victim is somebody else: it has other numbers.
    successor = Peer(pair, "b")
    used = {int(line.split()[3]) for line in victim.program.output.splitlines() if " qpn " in line}
    assert successor.new()[1] not in used
    fresh, answering = connect(survivor, successor)
    successor.tell(f"receive {answering} 1")
    assert survivor.send(fresh)[0] == [SUCCESS]


# Turns on a processor that two idle processes may have in a second. A thread that looked every 10 ms would have 100 by itself;
# ThreadSanitizer has a thread of its own in each, which looks every 100 ms.
IDLE_TURNS = 40
IDLE_S = 0.01  # of a processor, in that second: one that never sleeps has no turns either, but all of it


def assert_idle(*peers):
    """They sleep when what they did before has ended."""
    done = at_rest.within(1, *(peer.program.pid for peer in peers))
    assert done.turns <= IDLE_TURNS and done.seconds <= IDLE_S, done


def test_idle_processes_use_no_cpu(pair):
    """One waits for an event, its peer sleeps in the application; both are connected."""
    waiting, asleep = Peer(pair, "a"), Peer(pair, "b")
    number, other = connect(waiting, asleep)
    waiting.tell(f"receive {number} 2")
    assert asleep.send(other)[0] == [SUCCESS]
    assert waiting.tell("wait") == ["waiting"]
    assert_idle(waiting, asleep)
    assert asleep.send(other)[0] == [SUCCESS]
    assert waiting.read() == ["event"]


def test_idle_processes_use_no_cpu_when_their_port_has_gone_down(pair):
    peers = [Peer(pair, "a"), Peer(pair, "b")]
    number, other = connect(*peers)
    peers[0].tell(f"receive {number} 2")
    assert peers[1].send(other)[0] == [SUCCESS]
    assert peers[0].tell("wait") == ["waiting"]
    port = ["ip", "-n", pair.namespace("a"), "link", "set", "eth0"]
    pairs.net.run(port + ["down"])
    try:
        assert_idle(*peers)
    finally:
        pairs.net.run(port + ["up"])
    assert peers[1].send(other)[0] == [SUCCESS]
    assert peers[0].read() == ["event"]


def test_application_that_stays_away_still_answers(pair):
    """The helper thread receives and acknowledges for an application that does not enter verbs."""
    away, sender = Peer(pair, "a"), Peer(pair, "b")
    number, other = connect(away, sender, timeout=14, retries=1)
    away.tell(f"receive {number} 60")
    for _ in range(3):
        statuses, _ = sender.send(other, 20)
        assert statuses == [SUCCESS] * 20
