"""How bench/compare runs what it measures."""
import json
import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import systems


class RunTest(unittest.TestCase):
    # pylint: disable=protected-access
    def test_a_command_that_fails_says_what_it_said(self):
        with self.assertRaisesRegex(systems.Failed, "ours: exit status 3\nwhy not"):
            systems._run(["sh", "-c", "echo why not >&2; exit 3"], "ours")

    def test_with_a_launcher_that_is_late_its_ranks_end_too(self):
        with tempfile.TemporaryDirectory() as place:
            fifo = pathlib.Path(place) / "held"
            os.mkfifo(fifo)
            # The rank holds the pipe's writing end open: the end of the file is its own.
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            with mock.patch.object(systems, "TIMEOUT_S", 0.5), self.assertRaisesRegex(systems.Failed, "not done after"):
                systems._run(["sh", "-c", f"sleep 600 >{fifo} 2>&1 & wait"], "ours")
            os.set_blocking(reader, True)
            self.assertEqual(os.read(reader, 1), b"")
            os.close(reader)


# What two hosts have sent and received at least.
ENOUGH = {"sent_bytes": [1 << 30] * 2, "received_bytes": [1 << 30] * 2}


class Ranks:
    BED = types.SimpleNamespace(name="bed", hosts=["h1", "h2"])

    def ranks_that_say(self, status, output):
        """In place of the ranks; `asked` gets the command of each rank of each run."""
        self.asked = []

        def run_ranks(_bed, hosts, argv_of_rank, _timeout):
            self.asked.append([list(map(str, argv_of_rank(rank))) for rank in range(len(hosts))])
            return [types.SimpleNamespace(status=status, output=output) for _ in hosts]

        return mock.patch.object(systems.epic_ranks, "run_ranks", run_ranks)


class EpicTest(Ranks, unittest.TestCase):
    def test_all_sizes_are_one_run_and_each_has_its_own_time(self):
        # Of one byte there is no call: an element has four. A size's row has the bytes that were possible.
        rows = [{"size": 4, "out_of_place": {"time_us": us, **ENOUGH}} for us in (7.0, 8.0, 9.0)]
        with self.ranks_that_say(0, json.dumps({"results": rows})):
            times = systems.Epic("mode II", "--mode", 2).time(self.BED, "allreduce", {1: 200, 4: 100, 1 << 20: 15})
        self.assertEqual(times, {1: 7.0, 4: 8.0, 1 << 20: 9.0})
        self.assertEqual(len(self.asked), 1)
        for rank, argv in enumerate(self.asked[0]):
            self.assertEqual(argv[argv.index("--rank") + 1], str(rank))
            self.assertEqual(argv[argv.index("--calls") + 1], "4:200,4:100,1048576:15")
            self.assertEqual(argv[argv.index("--mode") + 1], "2")
            self.assertEqual(argv[argv.index("--size") + 1], str(len(self.BED.hosts)))
            self.assertEqual(argv[argv.index("--count-bytes") + 1], "vec0")

    def test_blocks_of_int8_are_a_fourth_on_the_links(self):
        def measure(name):
            counted = {"sent_bytes": [1 << 18] * 2, "received_bytes": [1 << 18] * 2}
            with self.ranks_that_say(0, json.dumps({"results": [{"size": 1 << 20, "out_of_place": {"time_us": 7.0, **counted}}]})):
                return systems.SYSTEMS[name].measure(self.BED, "allreduce", {1 << 20: 1})

        self.assertEqual(measure("epic2-int8")[1 << 20].us, 7.0)
        self.assertIn("int8", self.asked[0][0])
        with self.assertRaisesRegex(systems.Failed, "not over"):
            measure("epic2")
        self.assertFalse(systems.SYSTEMS["hosts-int8"].can("broadcast"))

    def test_what_has_not_been_on_the_links_is_no_figure(self):
        def measure(name, sent):
            counted = {"sent_bytes": [sent, sent], "received_bytes": [40, 40]}
            with self.ranks_that_say(0, json.dumps({"results": [{"size": 8, "out_of_place": {"time_us": 7.0, **counted}}]})):
                return systems.SYSTEMS[name].measure(self.BED, "allreduce", {8: 5})

        # Of two hosts each has to send all, whoever computes; of two that compute themselves all send twice as much as one.
        link = measure("epic2", 40)[8].link
        self.assertEqual((link.sent, link.received), ([8, 8], [8, 8]))
        for name, why in (("epic2", "EPIC mode II"), ("hosts", "EPIC between hosts")):
            with self.subTest(name), self.assertRaisesRegex(systems.Failed, f"{why}, allreduce, 8 bytes: not over .*: host 0 has sent 39 "):
                measure(name, 39)

    def test_only_what_goes_through_the_switches_has_their_bound(self):
        self.assertEqual([name for name, system in systems.SYSTEMS.items() if system.in_network],
                         [*(f"epic{mode}" for mode in systems.modes.NUMBERS), *(f"epic{mode}-int8" for mode in systems.modes.OWN_LOGIC),
                          "auto", "multicast", "openmpi-epic", "mpich-epic"])

    def test_memory_is_registered_once_only_where_the_name_says_so(self):
        rows = json.dumps({"results": [{"size": 4, "out_of_place": {"time_us": 7.0, **ENOUGH}}]})
        for name in ("hosts-ring", "hosts-ring-registered"):
            with self.ranks_that_say(0, rows):
                systems.SYSTEMS[name].time(self.BED, "allreduce", {4: 1})
            argv = self.asked[0][0]
            self.assertEqual([argv[argv.index(option) + 1] for option in ("--path", "--algorithm")], ["hosts", "ring"])
            self.assertEqual("-R 1" in " ".join(argv), name == "hosts-ring-registered")

    def test_a_rank_that_fails_says_what_it_said(self):
        with self.ranks_that_say(1, "why not"), self.assertRaisesRegex(systems.Failed, "EPIC mode II, reduce: why not"):
            systems.Epic("mode II", "--mode", 2).time(self.BED, "reduce", {4: 1})


class LackingTest(Ranks, unittest.TestCase):
    WHY = "operation product is not in root (version 0.1.0)"

    def time(self, **row):
        told = "epic: group compare1: hosts: {operation}\n" + json.dumps({"results": [{"out_of_place": {"time_us": 7.5, **ENOUGH}} | row]}, indent=2)
        with self.ranks_that_say(0, told + "\n"):
            return systems.SYSTEMS["hosts-lacking"].time(self.BED, "reduce", {8: 200})

    def test_calls_between_the_hosts_for_want_of_an_operation_have_a_time(self):
        self.assertEqual(self.time(path="hosts", path_reason=self.WHY), {8: 7.5})
        argv = self.asked[0][0]
        self.assertEqual([argv[argv.index(option) + 1] for option in ("--path", "--op")], ["auto", "prod"])

    def test_calls_that_went_another_way_or_for_another_reason_have_none(self):
        for row in ({"path": "network"}, {"path": "hosts"}, {"path": "hosts", "path_reason": "no tree"}):
            with self.subTest(row), self.assertRaisesRegex(systems.Failed, f"want of an operation, reduce: by the {row['path']}, "):
                self.time(**row)

    def test_only_what_reduces_can_lack_an_operation(self):
        self.assertEqual([c for c in systems.COLLECTIVES if systems.SYSTEMS["hosts-lacking"].can(c)],
                         ["allreduce", "reduce", "reducescatter"])


class BedTest(unittest.TestCase):
    def up(self, *args, **more):
        """The command by which a bed comes up."""
        bed = systems.epic_ranks
        with mock.patch.object(bed, "testbed") as testbed, mock.patch.object(bed, "hosts_of", lambda _: [f"h{i}" for i in range(16)]), \
                mock.patch.object(bed, "node_of", lambda _, host: {"address": host}), mock.patch.object(systems.net, "set_offloads"):
            self.bed = systems.Bed(*args, **more)
        return testbed.call_args.args

    def test_only_switches_that_are_to_lack_an_operation_do(self):
        for kind, lacking in (("switches", False), ("lacking", True), ("bridges", False)):
            self.assertEqual("--engine-arg=--operations=sum,min,max" in self.up("star-4", kind), lacking)

    def test_ranks_are_on_the_first_hosts(self):
        self.up("tree-21-4", "switches")
        self.assertEqual(self.bed.hosts, ["h0", "h1", "h2", "h3"])
        self.up("star-16", "switches", ranks=16)
        self.assertEqual(len(self.bed.hosts), 16)


class MpiOnEpicTest(unittest.TestCase):
    BED = types.SimpleNamespace(name="bed", hosts=["h1"], addresses=["10.0.0.1"], namespace=lambda host: host)
    REPORT = "EPIC: MPI_Reduce: 1 call, 8 bytes: the MPI's own, a type\nEPIC: MPI_Allreduce: 241 calls, 99 bytes: by EPIC, {}\n"

    def time(self, err):
        """In place of mpirun: what it writes. `asked` gets the command."""
        def run(argv, _what):
            self.asked = argv
            return '{"size": 8, "time_us": 7.5, "sent_bytes": [0], "received_bytes": [0]}\n', err

        with mock.patch.object(systems, "_run", run):
            return systems.SYSTEMS["openmpi-epic"].time(self.BED, "allreduce", {8: 200})

    def test_calls_that_the_switches_made_have_a_time(self):
        self.assertEqual(self.time(self.REPORT.format("through the switches")), {8: 7.5})
        self.assertIn("--mpi", self.asked)
        self.assertLess(self.asked.index("--mpi"), self.asked.index("mpirun.openmpi"))

    def test_what_was_not_through_the_switches_is_no_figure(self):
        own = "EPIC: MPI_Allreduce: 1 call, 8 bytes: the MPI's own, smaller than EPIC_MPI_MIN_BYTES\n"
        for err in ("", self.REPORT.format("between the hosts"), self.REPORT.format("through the switches") + own):
            with self.subTest(err), self.assertRaisesRegex(systems.Failed, "(?s)OpenMPI on EPIC, allreduce: not all calls"):
                self.time(err)


class MpichTest(unittest.TestCase):
    BED = MpiOnEpicTest.BED

    def command(self, name):
        """The command by which a system starts its ranks, as words."""
        with mock.patch.object(systems, "_run", side_effect=systems.Failed) as run, self.assertRaises(systems.Failed):
            systems.SYSTEMS[name].time(self.BED, "allreduce", {8: 200})
        return list(map(str, run.call_args.args[0]))

    def test_it_has_no_way_but_the_network(self):
        for name in ("mpich", "mpich-epic"):
            with self.subTest(name):
                argv = self.command(name)
                self.assertIn("UCX_TLS=tcp,self", argv[:argv.index("mpirun.mpich")])
        self.assertNotIn("UCX_TLS=tcp,self", self.command("openmpi"))


class LinkTest(unittest.TestCase):
    OUTPUT = """ #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      4242           0.00               1000.00               0.016000
---------------------------------------------------------------------------------------
"""

    def run_at_once(self, statuses, outputs):
        """In place of a host's program: each in turn has one of these ends."""
        ends = iter(zip(statuses, outputs))

        def start_rank(_bed, host, argv, _timeout):
            self.asked.append((host, list(map(str, argv))))
            status, output = next(ends)
            return mock.Mock(), types.SimpleNamespace(status=status, output=output)

        self.asked = []
        return mock.patch.object(systems.epic_ranks, "start_rank", start_rank)

    def time(self, pairs, statuses, outputs):
        hosts = [f"h{i}" for i in range(systems.RANKS)]
        bed = types.SimpleNamespace(name="bed", hosts=hosts, addresses=[f"10.0.0.{i}" for i in range(systems.RANKS)],
                                    namespace=lambda host: host)
        with self.run_at_once(statuses, outputs), mock.patch.object(systems.Link, "_await_server"):
            return systems.Link("the bound", pairs).time(bed, "allreduce", {1 << 20: 3})

    def test_a_bound_is_what_crosses_a_link_at_the_mean_rate(self):
        times = self.time(2, [0] * 4, ["", "", self.OUTPUT, self.OUTPUT.replace("1000.00", "3000.00")])
        self.assertAlmostEqual(times[1 << 20], 1.5 * (1 << 20) / (2000 * 1.048576))
        self.assertEqual([host for host, _ in self.asked], ["h1", "h2", "h0", "h1"])
        self.assertEqual(self.asked[2][1][-2:], ["18800", "10.0.0.1"])

    def test_an_end_that_fails_or_has_no_figure_says_what_it_said(self):
        with self.assertRaisesRegex(systems.Failed, "the bound: why not"):
            self.time(1, [1, 0], ["why not", self.OUTPUT])
        with self.assertRaisesRegex(systems.Failed, "(?s)the bound: .*inf"):
            self.time(1, [0, 0], ["", self.OUTPUT.replace("1000.00", "inf")])


if __name__ == "__main__":
    unittest.main()
