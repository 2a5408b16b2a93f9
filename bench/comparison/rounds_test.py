"""Medians, ratios and noise of bench/compare, and its waiting for a quiet machine."""
import unittest

import rounds


class FiguresTest(unittest.TestCase):
    def setUp(self):
        self.figures = rounds.Figures()
        for number, (ours, theirs) in enumerate(((10, 20), (20, 60), (40, 40))):
            self.figures.add("t", "c", "ours", number, {4: ours})
            self.figures.add("t", "c", "theirs", number, {4: theirs})

    def test_a_ratio_is_the_median_of_the_rounds_ratios_not_of_the_medians(self):
        self.assertEqual(self.figures.median("t", "c", 4, "ours"), 20)
        self.assertEqual(self.figures.ratio("t", "c", 4, "ours", "theirs"), 2)
        self.figures.add("t", "c", "ours", 3, {4: 1})
        self.figures.add("t", "c", "theirs", 3, {4: 100})
        self.assertEqual(self.figures.ratio("t", "c", 4, "ours", "theirs"), 2.5)

    def test_a_round_in_which_one_failed_is_in_no_ratio(self):
        self.figures.add("t", "c", "late", 1, {4: 30})
        self.figures.add("t", "c", "late", 2, {4: 10})
        self.assertEqual(self.figures.ratio("t", "c", 4, "late", "theirs"), 3)

    def test_what_was_not_measured_has_no_figure(self):
        self.assertIsNone(self.figures.median("t", "c", 8, "ours"))
        self.assertIsNone(self.figures.ratio("t", "c", 4, "ours", "others"))

    def test_a_ratio_is_noisy_by_its_own_rounds(self):
        for number, load in enumerate((1, 2, 3, 2, 1)):  # both wait for the same
            self.figures.add("t", "c", "one", number, {8: 10 * load})
            self.figures.add("t", "c", "other", number, {8: 30 * load})
            self.figures.add("t", "c", "steady", number, {8: 30})
        self.assertTrue(self.figures.noisy("t", "c", 8, "one"))
        self.assertFalse(self.figures.noisy_ratio("t", "c", 8, "one", "other"))
        self.assertTrue(self.figures.noisy_ratio("t", "c", 8, "one", "steady"))
        self.assertFalse(self.figures.noisy_ratio("t", "c", 8, "one", "none"))

    def test_the_size_from_which_on_all_are_as_fast(self):
        sizes = (4, 8, 16, 32)
        for ratios, least in (((2, 0.9, 1, 3), 16), ((1, 1, 1, 1), 4), ((2, 2, 2, 0.9), None)):
            figures = rounds.Figures()
            figures.add("t", "c", "theirs", 0, dict(zip(sizes, ratios)))
            figures.add("t", "c", "ours", 0, dict.fromkeys(sizes, 1))
            self.assertEqual(figures.not_slower_from("t", "c", sizes, "ours", "theirs"), least)
            # One that failed at a size has not been as fast there.
            self.assertEqual(figures.not_slower_from("t", "c", (*sizes, 24), "ours", "theirs"), least and 32)

    def test_a_wide_spread_is_noisy(self):
        self.assertTrue(self.figures.noisy("t", "c", 4, "ours"))
        for number in range(5):
            self.figures.add("t", "c", "steady", number, {4: 10})
        self.assertFalse(self.figures.noisy("t", "c", 4, "steady"))


class QuietTest(unittest.TestCase):
    def test_busy_is_what_is_not_idle(self):
        readings = iter([(1000, 800), (1100, 825)])
        self.assertEqual(rounds.busy(read=lambda: next(readings), sleep=lambda _: None), 0.75)

    def test_waits_until_it_is_quiet_and_says_so_once(self):
        samples, said = iter([0.9, 0.5, 0.05]), []
        self.assertEqual(rounds.wait_for_quiet(60, said.append, sample=lambda: next(samples)), 0.05)
        self.assertEqual(len(said), 1)

    def test_gives_up_when_its_patience_ends(self):
        self.assertEqual(rounds.wait_for_quiet(0, lambda _: None, sample=lambda: 0.9), 0.9)


if __name__ == "__main__":
    unittest.main()
