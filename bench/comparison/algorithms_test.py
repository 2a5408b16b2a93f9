"""What bench/algorithms reads and decides."""
import unittest

import algorithms
import rounds

SIZES = [1024, 4096, 16384, algorithms.MOST]
RUN = {"command": "bench/algorithms", "rounds": 5, "ranks": [4], "machine": "two", "busy": 0.0, "sizes": SIZES, "collectives": ["reduce"]}
ROWS = {name: (16384, 32704) for name in algorithms.COLLECTIVES}


def figures_of(ratios, spread=0.0):
    """Figures of five rounds in which doubling takes so many times the ring's time at each size."""
    figures = rounds.Figures()
    for number in range(5):
        by_load = 1 + spread * (number - 2)
        figures.add("star-4", "reduce", algorithms.RING, number, dict.fromkeys(SIZES, 100))
        figures.add("star-4", "reduce", algorithms.DOUBLING, number, {size: 100 * ratio * by_load for size, ratio in zip(SIZES, ratios)})
    return figures


def decision(ratios, spread=0.0):
    return algorithms.Decision(figures_of(ratios, spread), "star-4", "reduce", SIZES)


class TableTest(unittest.TestCase):
    def test_the_librarys_table_is_read(self):
        rows = algorithms.read_table(algorithms.TABLE.read_text(encoding="utf-8"))
        for collective in algorithms.COLLECTIVES:
            for ranks in (algorithms.FEW, algorithms.FEW + 1):
                self.assertIn(algorithms.most_inlined(rows, collective, ranks), range(1, algorithms.MOST + 1))

    def test_columns_are_by_the_number_of_ranks(self):
        text = "".join(f"Row{{Collective::k{name}, 1{i}, 2{i}}},  // Row\n"
                       for i, name in enumerate(("AllReduce", "Reduce", "Broadcast", "ReduceScatter", "AllGather")))
        rows = algorithms.read_table(text)
        self.assertEqual([algorithms.most_inlined(rows, "reducescatter", ranks) for ranks in (2, 8, 9, 16)], [13, 13, 23, 23])

    def test_a_table_that_has_another_form_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "host_algorithm.cc has rows of reduce, not of allreduce, "):
            algorithms.read_table("Row{Collective::kReduce, 1, 2}, Row{Collective::kBroadcast, most, 2}")


class DecisionTest(unittest.TestCase):
    def test_the_ring_must_be_as_fast_from_there_on(self):
        for ratios, ring_from, most in (((0.5, 0.6, 1, 2), 16384, 4096), ((0.5, 2, 0.9, 2), algorithms.MOST, 16384),
                                        ((2, 2, 2, 2), 1024, 0), ((2, 2, 2, 0.9), None, algorithms.MOST)):
            found = decision(ratios)
            self.assertEqual((found.ring_from, found.most), (ring_from, most))
            self.assertFalse(found.unclear)

    def test_a_table_between_two_sizes_agrees(self):
        found = decision((0.5, 0.6, 1.5, 2))
        self.assertEqual([found.agrees(stated, SIZES) for stated in (4095, 4096, 16383, 16384)], [False, True, True, False])

    def test_rounds_too_far_apart_do_not_decide(self):
        self.assertTrue(decision((0.5, 0.6, 1.5, 2), spread=0.3).unclear)


class MarkdownTest(unittest.TestCase):
    @staticmethod
    def cells(ratios, spread=0.0):
        text = algorithms.markdown(figures_of(ratios, spread), RUN, ROWS)
        row = next(line for line in text.splitlines() if line.startswith("| reduce "))
        return [cell.strip() for cell in row.strip("|").split("|")][1:]

    def test_a_row_has_both_times_and_what_follows_from_them(self):
        self.assertEqual(self.cells((0.5, 0.6, 0.9, 2)),
                         ["50 µs / 100 µs", "60 µs / 100 µs", "90 µs / 100 µs", "200 µs / 100 µs", "32,704 B", "16 KB", "16 KB"])
        self.assertEqual(self.cells((0.5, 0.6, 0.9, 0.9))[-3:], ["–", "32,704 B", "16 KB, **differs**"])

    def test_what_is_noisy_is_in_brackets(self):
        self.assertEqual(self.cells((0.5, 0.6, 0.9, 2), spread=0.3)[-4:], ["(200 µs / 100 µs)", "(32,704 B)", "(16 KB)", "16 KB"])

    def test_what_was_not_measured_is_a_dash_and_failures_are_told(self):
        figures = rounds.Figures()
        figures.failures.append("round 1, star-4: it ended")
        text = algorithms.markdown(figures, {**RUN, "busy": 0.5}, ROWS)
        self.assertIn("| reduce | – / – |", text)
        self.assertIn("- failed: round 1, star-4: it ended", text)
        self.assertIn("**The machine was not quiet**: up to 50 %", text)


class MulticastTest(unittest.TestCase):
    SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20]
    ROWS = (4, {"broadcast": (64 << 10, 8 << 20), "allgather": (64 << 10, 2 << 20)})

    def figures(self, ratios, spread=0.0):
        """Figures of five rounds in which the others take so many times multicast's time at each size; of the ring at 4 KB ten times
        that, since a call of this size goes by doubling."""
        figures = rounds.Figures()
        for number in range(5):
            by_load = 1 + spread * (number - 2)
            for collective in algorithms.COPIES:
                figures.add("star-4", collective, algorithms.MULTICAST, number, dict.fromkeys(self.SIZES, 100))
                beside = {size: 100 * ratio * by_load for size, ratio in zip(self.SIZES, ratios)}
                figures.add("star-4", collective, algorithms.DOUBLING, number, {self.SIZES[0]: beside[self.SIZES[0]]})
                figures.add("star-4", collective, algorithms.RING, number, {**beside, self.SIZES[0]: 10 * beside[self.SIZES[0]]})
        return figures

    def window(self, ratios, spread=0.0):
        return algorithms.Window.of(self.figures(ratios, spread), "star-4", "allgather", self.SIZES)

    def test_the_librarys_table_is_read(self):
        ranks, rows = algorithms.read_multicast(algorithms.TABLE.read_text(encoding="utf-8"))
        self.assertGreater(ranks, 2)
        for least, most in rows.values():
            self.assertTrue(algorithms.MOST < least < most)
        with self.assertRaisesRegex(ValueError, "has rows by multicast of nothing, not of broadcast, allgather"):
            algorithms.read_multicast("Row{Collective::kBroadcast, 1, 2}")

    def test_it_must_be_as_fast_as_what_a_call_goes_by_without_it(self):
        for ratios, least, most in (((0.5, 0.9, 1, 2), 1 << 20, 16 << 20), ((0.9, 2, 1, 0.9), 64 << 10, 1 << 20),
                                    ((2, 2, 2, 2), 4 << 10, 16 << 20), ((2, 0.9, 2, 2), 1 << 20, 16 << 20), ((0.9,) * 4, None, None)):
            self.assertEqual(self.window(ratios), algorithms.Window(least, most))
        self.assertTrue(self.window((0.5, 0.9, 1.2, 2), spread=0.3).unclear)

    def test_a_row_has_the_times_and_what_follows_from_them(self):
        run = {**RUN, "sizes": self.SIZES}
        lines = algorithms.copies_markdown(self.figures((0.5, 0.9, 1.5, 2)), run, self.ROWS).splitlines()
        self.assertIn("| allgather | 50 µs / 500 µs / 100 µs | 90 µs / 100 µs | 150 µs / 100 µs | 200 µs / 100 µs | 1 MB to 16 MB | 64 KB to 2 MB |", lines)
        few = algorithms.copies_markdown(self.figures((0.5, 0.9, 0.9, 2)), run, (5, self.ROWS[1])).splitlines()
        self.assertTrue(next(line for line in few if line.startswith("| broadcast ")).endswith("| 16 MB | – |"), few)


if __name__ == "__main__":
    unittest.main()
