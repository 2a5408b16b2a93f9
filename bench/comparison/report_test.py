"""What the report of bench/compare says of figures."""
import json
import unittest

import report
import rounds
import volume

KEY = ("star-4", "allreduce")


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.figures = rounds.Figures()
        for number in range(5):
            self.figures.add(*KEY, "epic1", number, {4096: 100, 1 << 20: 9000})
            self.figures.add(*KEY, "epic2", number, {4096: 50 + 20 * number, 1 << 20: 6000})
            self.figures.add(*KEY, "openmpi", number, {4096: 100, 1 << 20: 12000})
        self.run = {"command": "bench/compare", "date": "2026-11-27", "rounds": 5, "ranks": 4, "hosts": "softnic", "machine": "two", "settings": ["s"],
                    "busy": 0.0, "topologies": ["star-4"], "collectives": ["allreduce"],
                    "systems": ["epic1", "epic2", "openmpi"], "rate": None, "sizes": {"allreduce": [4096, 1 << 20, 8]}}

    def rows(self):
        """The cells of the table, by size."""
        text = report.table(self.figures, *KEY, self.run["sizes"]["allreduce"], self.run["systems"])
        return {cells[0]: cells[1:] for cells in ([c.strip() for c in line.strip("|").split("|")]
                                                  for line in text.splitlines()[2:])}

    def test_times_are_medians_and_ratios_say_how_many_times_as_fast(self):
        self.assertEqual(self.rows()["1 MB"], ["9.00 ms", "6.00 ms", "12 ms", "2.00", "1.33"])

    def test_what_is_noisy_is_in_brackets(self):
        self.assertEqual(self.rows()["4 KB"], ["100 µs", "(90 µs ±22 %)", "100 µs", "(1.11)", "1.00"])

    def test_hosts_stand_beside_the_modes_and_alone_have_a_bound(self):
        for number in range(5):
            self.figures.add(*KEY, "hosts", number, {4096: 200, 1 << 20: 8000})
            self.figures.add(*KEY, "links", number, {4096: 20, 1 << 20: 4000})
        self.run["systems"] = ["epic1", "hosts", "openmpi", "links"]
        self.assertEqual(self.rows()["1 MB"], ["9.00 ms", "8.00 ms", "12 ms", "4.00 ms", "1.33", "1.33", "1.50", "0.50"])

    def test_the_ring_with_registered_memory_has_a_bound_of_its_own(self):
        for number in range(5):
            self.figures.add(*KEY, "hosts-ring", number, {1 << 20: 8000})
            self.figures.add(*KEY, "hosts-ring-registered", number, {1 << 20: 5000})
            self.figures.add(*KEY, "links", number, {1 << 20: 4000})
        self.run["systems"] = ["hosts-ring", "hosts-ring-registered", "links"]
        text = report.markdown(self.figures, self.run)
        self.assertIn("| between hosts, ring, of bound by all links at once | between hosts, ring, registered, of bound by all links at once |",
                      text)
        self.assertEqual(self.rows()["1 MB"], ["8.00 ms", "5.00 ms", "4.00 ms", "0.50", "0.80"])

    def test_one_group_stands_beside_the_kernels_default_and_ratios_are_within_a_way(self):
        for system, us in (("epic1", 5000), ("openmpi", 4000)):
            self.figures.add(*KEY, system + report.ONE_GROUP, 0, {1 << 20: us})
        self.run |= {"systems": ["epic1", "openmpi"], "both": True}
        lines = report.markdown(self.figures, self.run).splitlines()
        self.assertTrue(any(line.startswith("| size | EPIC mode I | EPIC mode I, one group | OpenMPI, bridges | OpenMPI, bridges, one group | best")
                            for line in lines), lines)
        self.assertIn("| 1 MB | 9.00 ms | 5.00 ms | 12 ms | 4.00 ms | 1.33 | 1.33 |", lines)
        rows = json.loads(report.as_json(self.figures, self.run))["figures"]
        row = next(r for r in rows if r["system"] == "epic1" + report.ONE_GROUP)
        self.assertEqual(row["ratios_by_round"], {"openmpi": [0.8]})

    def test_every_system_has_a_colour(self):
        self.assertEqual(set(report.COLOURS), set(report.SYSTEMS))

    def test_an_mpi_on_epic_stands_beside_its_own_and_has_a_least_size(self):
        for number in range(5):
            self.figures.add(*KEY, "openmpi-epic", number, {4096: 200, 1 << 20: 8000})
            self.figures.add(*KEY, "mpich", number, {4096: 10, 1 << 20: 10})
        self.run["systems"], self.run["sizes"]["allreduce"] = ["openmpi", "openmpi-epic", "mpich"], [4096, 1 << 20]
        self.assertEqual(self.rows()["1 MB"], ["12 ms", "8.00 ms", "10 µs", "1.50"])
        told = "OpenMPI on EPIC is as fast as OpenMPI, bridges, or faster, "
        self.assertIn(told + "from 1 MB on.", report.markdown(self.figures, self.run))
        self.run["sizes"]["allreduce"] = [4096]
        self.assertIn(told + "not at 4 KB.", report.markdown(self.figures, self.run))

    def test_a_rate_is_told(self):
        self.run["rate"] = "100mbit"
        self.assertIn("4 ranks, links of 100mbit, hosts on", report.markdown(self.figures, self.run))

    def test_what_was_not_measured_is_a_dash(self):
        self.assertEqual(self.rows()["8 B"], ["–"] * 5)

    def test_few_rounds_and_a_busy_machine_and_failures_are_told(self):
        self.assertNotIn("**", report.markdown(self.figures, self.run))
        self.run |= {"rounds": 4, "busy": 0.5}
        self.figures.failures.append("round 1: it ended")
        text = report.markdown(self.figures, self.run)
        for words in ("**Fewer than 5 rounds**", "**The machine was not quiet**: up to 50 %", "- failed: round 1: it ended"):
            self.assertIn(words, text)

    def links(self):
        """The cells of the table of bytes, by size."""
        text = report.links_table(self.figures, *KEY, [1 << 20], ["epic1", "epic2", "openmpi", "links"], 4)
        self.assertEqual(text.splitlines()[0], "| size | least | least between hosts | EPIC mode I | EPIC mode II | OpenMPI, bridges |")
        return [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]

    def test_bytes_of_a_call_are_those_of_the_busiest_host(self):
        for number, most in enumerate((4, 3, 2)):
            self.figures.add(*KEY, "openmpi", number, {1 << 20: 1},
                             {1 << 20: volume.Bytes([1 << 20, most << 20, 0, 0], [0, 0, 0, 1000 * most << 20])})
        self.assertEqual(self.links(), ["1 MB", "1 MB, 1 MB", "1.5 MB, 1.5 MB", "–", "–", "3 MB, 3000 MB"])
        self.assertIn("On a host's link, allreduce, star-4:", report.markdown(self.figures, self.run))
        row = next(r for r in json.loads(report.as_json(self.figures, self.run))["figures"] if r["system"] == "openmpi" and r["size"] == 1 << 20)
        self.assertEqual(row["link_bytes_by_round"]["1"]["sent"], [1 << 20, 3 << 20, 0, 0])

    def test_bytes_have_three_digits(self):
        self.assertEqual([report.bytes_text(n) for n in (0, 498.4, 1100, 5 << 20)], ["0 B", "498 B", "1.07 KB", "5 MB"])

    def test_json_has_times_and_ratios_of_each_round(self):
        rows = json.loads(report.as_json(self.figures, self.run))["figures"]
        row = next(r for r in rows if r["system"] == "epic2" and r["size"] == 1 << 20)
        self.assertEqual(list(row["times_us_by_round"].values()), [6000] * 5)
        self.assertEqual(row["ratios_by_round"], {"openmpi": [2.0] * 5})
        self.assertEqual(next(r for r in rows if r["system"] == "openmpi")["ratios_by_round"], {})


if __name__ == "__main__":
    unittest.main()
