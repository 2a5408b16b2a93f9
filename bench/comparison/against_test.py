"""What bench/compare --against-hosts says of figures."""
import unittest

import against
import rounds
from systems import modes

STAR, KB64 = "star-4", 64 << 10
DEFAULT = against.DEFAULT
OTHER = next(mode for mode in against.MODES if mode != DEFAULT)


class AgainstTest(unittest.TestCase):
    def setUp(self):
        self.figures = rounds.Figures()
        # A round trip takes longer in later rounds, as everything does.
        for number in range(5):
            load = 1 + number
            self.add(number, "barrier", 4, {"hosts": 40 * load, DEFAULT: 30 * load, OTHER: 35 * load})
            self.add(number, "allreduce", 1024, {"hosts": 100 * load, DEFAULT: 130 * load, OTHER: 150 * load, "hosts-lacking": 190 * load})
            self.add(number, "allreduce", KB64, {"hosts": 200 * load, DEFAULT: 320 * load, OTHER: 260 * load, "hosts-lacking": 210 * load})
        self.run = {"topologies": [STAR], "collectives": ["allreduce", "barrier"], "systems": [DEFAULT, OTHER, "hosts", "hosts-lacking"],
                    "sizes": {"allreduce": [1024, KB64], "barrier": [4]}}

    def add(self, number, collective, size, times):
        for system, us in times.items():
            self.figures.add(STAR, collective, system, number, {size: us})

    def rows(self, collective):
        text = against.table(self.figures, STAR, collective, self.run["sizes"][collective], self.run["systems"])
        return {cells[0]: cells[1:] for cells in ([c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()[2:])}

    def slow(self):
        return against.too_slow(self.figures, self.run)

    def test_differences_are_told_in_time_and_in_round_trips_of_the_same_round(self):
        best, other = (modes.numeral(system.removeprefix("epic")) for system in (DEFAULT, OTHER))
        self.assertEqual(self.rows("allreduce"), {
            "1 KB": ["300 µs", f"{best}: +90 µs, +0.8", "+90 µs, +0.8", "+270 µs, +2.2"],
            "64 KB": ["600 µs", f"{other}: +180 µs, +1.5", "+360 µs, +3.0", "+30 µs, +0.2"]})
        self.assertEqual(self.rows("barrier"), {"": ["120 µs", f"{best}: -30 µs, -0.2", "-30 µs, -0.2", "–"]})

    def test_what_is_slower_by_more_than_a_round_trip_is_listed(self):
        default = f"default mode ({modes.numeral(modes.DEFAULT)})"
        self.assertEqual(self.slow(), ["allreduce, star-4, best mode: 64 KB 1.5", f"allreduce, star-4, {default}: 64 KB 3.0",
                                       "allreduce, star-4, for want of an operation: 1 KB 2.2"])
        self.assertIn("\n- allreduce, star-4, best mode: 64 KB 1.5\n", against.markdown(self.figures, self.run))

    def test_one_round_trip_is_not_more_than_one(self):
        self.run["systems"] = [DEFAULT, "hosts"]
        for number in range(5):
            self.add(number, "allreduce", KB64, {DEFAULT: 240 * (1 + number)})
        text = against.markdown(self.figures, self.run)
        self.assertEqual(self.slow(), [])
        self.assertIn("Nothing is slower than between the hosts by more than one round trip.", text)
        self.assertNotIn("Not judged", text)

    def test_a_barrier_is_judged_too(self):
        for number in range(5):
            self.add(number, "barrier", 4, {DEFAULT: 100 * (1 + number)})
        self.assertIn(f"barrier, star-4, default mode ({modes.numeral(modes.DEFAULT)}): 1.5", self.slow())

    def test_rounds_on_both_sides_of_one_are_in_brackets(self):
        self.run["systems"], self.run["collectives"] = [DEFAULT, "hosts"], ["allreduce"]
        for number, trips in enumerate((0.5, 0.9, 1.2, 3, 4)):
            self.add(number, "allreduce", KB64, {DEFAULT: (200 + 40 * trips) * (1 + number)})
        self.assertEqual(self.rows("allreduce")["64 KB"][2], "(+144 µs, +1.2)")
        self.assertEqual(self.slow()[1].partition(": ")[2], "64 KB (1.2, unclear)")

    def test_what_has_no_figure_is_not_taken_for_fast(self):
        self.run["sizes"]["allreduce"] = [1024, 8]
        self.assertEqual(self.rows("allreduce")["8 B"], ["–"] * 4)
        self.assertEqual(against.not_judged(self.figures, self.run), ["allreduce, star-4: 8 B"])
        # A round in which the hosts' Barrier failed has no measure.
        del self.figures.times[STAR, "barrier", 4, "hosts"]
        self.assertIn("A round trip on star-4: –.", against.markdown(self.figures, self.run))
        self.assertEqual(self.slow(), [])
        self.assertEqual(against.not_judged(self.figures, self.run), ["allreduce, star-4: 1 KB, 8 B", "barrier, star-4"])
        text = against.markdown(self.figures, self.run)
        self.assertIn("Nothing of what was judged is slower", text)
        self.assertIn("\n- allreduce, star-4: 1 KB, 8 B\n- barrier, star-4", text)

    def test_without_the_default_mode_the_best_of_the_others_is_judged(self):
        self.run["systems"] = [OTHER, "hosts"]
        for key in [key for key in self.figures.times if key[-1] == DEFAULT]:
            del self.figures.times[key]
        self.assertNotIn("Not judged", against.markdown(self.figures, self.run))
        self.assertEqual(self.rows("allreduce")["64 KB"], ["600 µs", f"{modes.numeral(OTHER.removeprefix('epic'))}: +180 µs, +1.5"])
        self.assertEqual(self.slow(), ["allreduce, star-4, best mode: 1 KB 1.2, 64 KB 1.5"])


if __name__ == "__main__":
    unittest.main()
