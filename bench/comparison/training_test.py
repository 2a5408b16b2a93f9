"""How bench/train starts trainings, and what it makes of what they tell."""
import re
import types
import unittest
from unittest import mock

import training

TOLD = "noise\n3181083 parameters, 50 steps: loss 1.234567, 0.812 steps/s\n"
RUN = {"command": "bench/train", "machine": "a machine", "topology": "star-4", "rate": "100mbit", "mbit": 100, "rounds": 5,
       "steps": 50, "busy": 0.0}


class TrainTest(unittest.TestCase):
    BED = types.SimpleNamespace(name="bed", hosts=["h0", "h1"], addresses=["10.0.0.1", "10.0.0.2"])

    def ranks_that_say(self, *ends):
        """In place of the ranks, each (status, output); `asked` gets the command of each."""
        self.asked = []

        def run_ranks(_bed, hosts, argv_of_rank, _timeout):
            self.asked = [list(map(str, argv_of_rank(rank))) for rank in range(len(hosts))]
            return [types.SimpleNamespace(status=status, output=output) for status, output in ends]

        return mock.patch.object(training.epic_ranks, "run_ranks", run_ranks)

    def test_every_rank_is_told_who_it_is_and_rank_0_tells_the_figures(self):
        with self.ranks_that_say((0, TOLD), (0, "")):
            done = training.train(self.BED, "gloo", 29400, 50)
        self.assertEqual(done, training.Training(3181083, 1.234567, 0.812, 1))
        for rank, argv in enumerate(self.asked):
            self.assertIn(f"RANK={rank}", argv)
            self.assertIn("MASTER_ADDR=10.0.0.1", argv)
            self.assertEqual(argv[argv.index("--backend") + 1], "gloo")
            self.assertEqual(argv[argv.index("--steps") + 1], "50")

    def test_the_way_and_the_mode_are_epics(self):
        def said(backend, mode=None):
            argv = list(map(str, training.command(self.BED, backend, 0, 29400, 50, mode)))
            return ([word for word in argv if word.startswith("EPIC_")], argv[argv.index("--backend") + 1])
        self.assertEqual(said("epic"), (["EPIC_PATH=network"], "epic"))
        self.assertEqual(said("epic", 4), (["EPIC_PATH=network", "EPIC_MODE=4"], "epic"))
        self.assertEqual(said("hosts", 4), (["EPIC_PATH=hosts"], "epic"))
        self.assertEqual(said("epic-int8", 3), (["EPIC_PATH=network", "EPIC_QUANTISE=int8", "EPIC_MODE=3"], "epic"))
        self.assertEqual(said("gloo", 3), (["EPIC_PATH=network"], "gloo"))

    def test_a_rank_that_fails_says_what_it_said(self):
        with self.ranks_that_say((0, TOLD), (1, "why not")), \
                self.assertRaisesRegex(training.Failed, "(?s)training by epic: .*rank 1: status 1\nwhy not"):
            training.train(self.BED, "epic", 29400, 50)

    def test_no_figure_is_a_failure(self):
        with self.ranks_that_say((0, "loss nan"), (0, "")), self.assertRaisesRegex(training.Failed, "loss nan"):
            training.train(self.BED, "epic", 29400, 50)


class ReportTest(unittest.TestCase):
    @staticmethod
    def trainings(ours, theirs, losses=(1.5, 1.5)):
        return {backend: [training.Training(3_125_000, loss, speed) for speed in speeds]
                for backend, speeds, loss in (("epic", ours, losses[0]), ("gloo", theirs, losses[1]))}

    def test_ratios_are_the_rounds_own_and_a_ring_carries_half_as_much_again(self):
        text = training.markdown(self.trainings([0.8, 0.9, 0.4], [0.4, 0.6, 0.4]), RUN)
        self.assertIn("`epic` makes 1.50 times as many steps as `gloo` ±16.7 % (1.00 to 2.00)", text)
        # 12.5 MB over 100 Mbit/s take a second.
        rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.M))
        self.assertEqual(rows["epic"].split(" | "), ["0.800 ±15.6 %", "1.000", "1.500000"])
        self.assertEqual(rows["gloo"].split(" | ")[1], "0.667")
        self.assertNotIn("**", text)

    def test_what_is_not_to_be_quoted_says_so(self):
        text = training.markdown(self.trainings([1], [1]), {**RUN, "rounds": 1, "busy": 0.5})
        self.assertIn("Fewer than 5 rounds", text)
        self.assertIn("The machine was not quiet", text)

    def test_the_difference_is_that_of_the_losses_farthest_apart(self):
        trainings = self.trainings([1, 1], [1, 1], (1.5, 1.50002))
        trainings["epic"][1].loss = 1.49999
        self.assertAlmostEqual(training.difference(trainings, ("epic", "gloo")), 3e-5)
        self.assertIn("the losses differ by 3.0e-05 at most", training.markdown(trainings, RUN))

    def test_the_other_may_be_the_hosts(self):
        trainings = self.trainings([1.2, 1.4], [1, 1], (2, 1.999))
        trainings["hosts"] = trainings.pop("gloo")
        text = training.markdown(trainings, RUN)
        self.assertIn("| `hosts` | 1.000", text)
        self.assertIn("the losses differ by 1.0e-03 at most, 0.050 %", text)
        self.assertEqual(training.shortcomings(trainings, 50, 1.4), ["epic makes 1.300 times as many steps as hosts, fewer than 1.4 times"])
        trainings["epic"][0].loss = 2.006
        self.assertEqual(training.shortcomings(trainings, 50, 0), ["the losses of epic and hosts differ by 7.0e-03, more than 0.003998"])

    def test_blocks_are_beside_both_and_judged_beside_plain(self):
        trainings = {"epic-int8": [training.Training(3_100_000, 2.01, 1.3)], **self.trainings([1], [0.5], (2, 1.9))}
        text = training.markdown(trainings, RUN)
        self.assertIn("`epic-int8` makes 1.30 times as many steps as `epic`", text)
        self.assertIn("`epic-int8` makes 2.60 times as many steps as `gloo`", text)
        self.assertIn("| `epic-int8` | 1.300 ±0.0 % | 3.906 |", text)  # 3.2 MB
        self.assertEqual(training.shortcomings(trainings, 50), ["epic-int8 makes 1.300 times as many steps as epic, fewer than 1.4 times"])
        trainings["epic-int8"][0].loss = 2.03
        self.assertEqual(training.shortcomings(trainings, 50, 1), ["the losses of epic-int8 and epic differ by 3.0e-02, more than 0.02"])

    def test_losses_are_compared_by_seed(self):
        trainings = self.trainings([1, 1], [1, 1])
        for rows in trainings.values():
            rows[1].seed, rows[1].loss = 2, 1.9
        self.assertEqual(training.difference(trainings, ("epic", "gloo")), 0)

    def test_a_run_that_comes_up_to_its_bounds_is_no_failure(self):
        self.assertEqual(training.shortcomings(self.trainings([1.25, 1, 2], [1, 1, 1], (1.5, 1.50009)), 50, 1.25), [])

    def test_fewer_steps_and_losses_that_differ_are_told(self):
        slow = self.trainings([1.24, 1, 2], [1, 1, 1])
        self.assertEqual(training.shortcomings(slow, 50, 1.25), ["epic makes 1.240 times as many steps as gloo, fewer than 1.25 times"])
        self.assertEqual(training.shortcomings(slow, 50, 0), [])
        apart = self.trainings([2], [1], (1.5, 1.50011))
        self.assertEqual(training.shortcomings(apart, 50, 1.25), ["the losses of epic and gloo differ by 1.1e-04, more than 0.0001"])
        self.assertEqual(training.shortcomings(apart, 51, 1.25), [])


if __name__ == "__main__":
    unittest.main()
