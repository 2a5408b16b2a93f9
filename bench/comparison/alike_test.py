"""What bench/compare says of modes of one logic."""
import unittest

import alike
import rounds

KB4 = 4 << 10


class AlikeTest(unittest.TestCase):
    def setUp(self):
        self.figures = rounds.Figures()
        self.run = {"topologies": ["star-4"], "collectives": ["allreduce", "barrier"], "systems": ["epic1", "epic2", "epic4", "hosts"],
                    "sizes": {"allreduce": [8, KB4], "barrier": [4]}}

    def add(self, collective, size, system, *times):
        for number, us in enumerate(times):
            self.figures.add("star-4", collective, system, number, {size: us})

    def test_only_a_mode_that_bears_hosts_is_compared_and_only_beside_its_like(self):
        self.assertEqual(alike.pairs(["epic1", "epic2", "epic3", "epic4", "hosts"]), [("epic4", "epic2")])
        self.assertEqual(alike.pairs(["epic1", "epic4"]), [])

    def test_a_row_is_slower_by_more_than_its_spread_and_five_percent(self):
        self.add("allreduce", 8, "epic2", 100, 100, 100)
        self.add("allreduce", 8, "epic4", 104, 104, 104)
        self.add("allreduce", KB4, "epic2", 100, 100, 100)
        self.add("allreduce", KB4, "epic4", 106, 106, 106)
        self.add("barrier", 4, "epic2", 100, 100, 100)
        self.add("barrier", 4, "epic4", 80, 80, 80)
        rows = alike.Rows(self.figures, self.run, "epic4", "epic2")
        self.assertEqual(rows.slower, ["allreduce, star-4, 4 KB (1.06)"])
        self.assertEqual(rows.faster, ["barrier, star-4 (0.80)"])
        self.assertIn("over 3 rows: median 1.040, 0.80 to 1.06", alike.markdown(self.figures, self.run))

    def test_what_its_rounds_are_apart_is_no_difference(self):
        self.add("allreduce", 8, "epic2", 80, 100, 120)
        self.add("allreduce", 8, "epic4", 115, 115, 115)
        self.assertEqual(alike.Rows(self.figures, self.run, "epic4", "epic2").slower, [])

    def test_without_both_there_is_nothing_to_say(self):
        self.assertEqual(alike.markdown(self.figures, self.run), "")
        self.assertEqual(alike.markdown(self.figures, self.run | {"systems": ["epic1", "epic4"]}), "")


if __name__ == "__main__":
    unittest.main()
