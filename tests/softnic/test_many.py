"""Many of them: two devices in a process, 64 processes on an interface. Programs as in test_verbs.py."""

import pathlib

import pair as pairs
from test_verbs import PROGRAMS, SUCCESS, Peer

PROCESSES = 64
MESSAGES = 20


class TwoNetworks(pairs.Pair):
    """Each host has a second interface, in a network of its own."""

    def _make_network(self, lossy):
        super()._make_network(lossy)
        self._veth("a", "eth1", "b", "eth1")
        for host, address in (("a", "10.9.0.1"), ("b", "10.9.0.2")):
            pairs.net.run(["ip", "-n", self.namespace(host), "addr", "add", f"{address}/24", "dev", "eth1"])


def test_two_devices_in_a_process():
    pair = TwoNetworks()
    try:
        said = pair.run("a", PROGRAMS / "verbs_test", "--gtest_filter=VerbsDevices.*", timeout_s=60)
        assert "[  PASSED  ]" in said and " 0 tests" not in said
    finally:
        pair.close()


def resident_mib(peer):
    """What the process has in memory, the rings of its sockets included."""
    status = pathlib.Path(f"/proc/{peer.program.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_64_processes_on_an_interface(pair):
    """A ring: each process exchanges with the next one, all at the same time."""
    peers = [Peer(pair, "a") for _ in range(PROCESSES)]
    back, forth = ([peer.new() for peer in peers] for _ in range(2))
    assert len({qpn for _, qpn, _ in back + forth}) == 2 * PROCESSES
    for i, peer in enumerate(peers):
        successor = (i + 1) % PROCESSES
        for one, (number, _, _), (_, qpn, ip) in ((peer, forth[i], back[successor]), (peers[successor], back[successor], forth[i])):
            assert one.tell(f"connect {number} {qpn} {ip} 18 7") == ["connected"]
    for peer in peers:
        assert peer.tell(f"receive 0 {MESSAGES}") + peer.tell(f"receive 1 {MESSAGES}") == ["posted"] * 2
    for number in (0, 1):
        for peer in peers:
            peer.program.write(f"send {number} {MESSAGES}\n")
        for peer in peers:
            lines = peer.read(MESSAGES, timeout_s=60)
            assert all(line.startswith(f"status {SUCCESS} ") for line in lines), lines
    resident = [resident_mib(peer) for peer in peers]
    print(f"resident: at most {max(resident):.1f} MiB each, {sum(resident):.0f} MiB in all")
    assert max(resident) < 64
