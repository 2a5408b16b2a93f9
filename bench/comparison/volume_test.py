"""What calls must put on links at least, and what is not taken for a measurement."""
import unittest

import volume

MB = 1 << 20


class LeastTest(unittest.TestCase):
    def test_the_cut_round_a_host_bounds_every_algorithm(self):
        for collective, root, others in (("allreduce", (12, 12), (12, 12)), ("reduce", (0, 12), (12, 0)), ("broadcast", (12, 0), (0, 12)),
                                         ("reducescatter", (9, 3), (9, 3)), ("allgather", (3, 9), (3, 9)), ("barrier", (14, 14), (14, 14))):
            with self.subTest(collective):
                bound = volume.least(collective, 12, [1] * 4, in_network=True)
                self.assertEqual(list(zip(bound.sent, bound.received)), [root] + 3 * [others])

    def test_switches_that_compute_or_copy_save_what_hosts_must_send_to_each_other(self):
        for collective, network, hosts in (("allreduce", (48, 48), (72, 72)), ("reduce", (36, 12), (36, 36)), ("broadcast", (12, 36), (36, 36)),
                                           ("reducescatter", (36, 12), (36, 36)), ("allgather", (12, 36), (36, 36)),
                                           ("barrier", (56, 56), (56, 56))):
            with self.subTest(collective):
                for in_network, together in ((True, network), (False, hosts)):
                    bound = volume.least(collective, 12, [1] * 4, in_network)
                    self.assertEqual((bound.sent_together, bound.received_together), together)

    def test_a_ring_over_the_hosts_has_the_least_that_there_is(self):
        for hosts in (2, 3, 8):
            bound = volume.least("allreduce", 24, [1] * hosts, in_network=False)
            self.assertEqual(bound.sent_together / hosts, 2 * (hosts - 1) / hosts * 24)

    def test_ranks_of_one_host_are_as_one_but_for_their_shares(self):
        bound = volume.least("allreduce", 12, [3, 1], in_network=False)
        self.assertEqual((bound.sent, bound.received, bound.sent_together), ([12, 12], [12, 12], 24))
        bound = volume.least("allgather", 12, [3, 1], in_network=False)
        self.assertEqual((bound.sent, bound.received), ([9, 3], [3, 9]))
        bound = volume.least("reducescatter", 12, [3, 1], in_network=False)
        self.assertEqual((bound.sent, bound.received), ([3, 9], [9, 3]))
        self.assertEqual(volume.ranks_of(["a", "a", "b", "a"]), [3, 1])

    def test_where_the_root_is(self):
        self.assertEqual(volume.least("broadcast", 12, [1, 1, 1], True, root_host=2).sent, [0, 0, 12])

    def test_one_host_needs_no_link_and_one_without_ranks_neither(self):
        for collective in ("allreduce", "reduce", "broadcast", "reducescatter", "allgather", "barrier"):
            with self.subTest(collective):
                alone = volume.least(collective, 12, [4, 0], in_network=False)
                self.assertEqual((alone.sent, alone.received, alone.sent_together, alone.received_together), ([0, 0], [0, 0], 0, 0))


class ShortfallTest(unittest.TestCase):
    def shortfall(self, sent, received, in_network=False):
        return volume.shortfall(volume.Bytes(sent, received), 3, volume.least("allreduce", MB, [1] * 4, in_network))

    def test_what_the_algorithm_needs_and_more_is_right(self):
        self.assertIsNone(self.shortfall([9 * MB // 2] * 4, [9 * MB // 2] * 4))
        self.assertIsNone(self.shortfall([3 * MB] * 4, [3 * MB] * 4, in_network=True))
        self.assertIsNone(self.shortfall([6 * MB, 6 * MB, 3 * MB, 3 * MB], [5 * MB] * 4))

    def test_a_link_that_one_has_gone_round_is_named(self):
        self.assertEqual(self.shortfall([9 * MB] * 3 + [25_000], [9 * MB] * 4),
                         "host 3 has sent 25,000 bytes in 3 calls, which take 3,145,728 at least")
        self.assertEqual(self.shortfall([9 * MB] * 4, [9 * MB, 3 * MB - 1, 9 * MB, 9 * MB]),
                         "host 1 has received 3,145,727 bytes in 3 calls, which take 3,145,728 at least")

    def test_hosts_that_send_as_little_as_switches_need_have_not_sent_all(self):
        self.assertEqual(self.shortfall([3 * MB] * 4, [9 * MB] * 4),
                         "all hosts have sent 12,582,912 bytes in 3 calls, which take 18,874,368 at least")
        self.assertIn("all hosts have received", self.shortfall([9 * MB] * 4, [3 * MB] * 4))

    def test_a_call_has_a_share_of_what_all_have(self):
        self.assertEqual(volume.Bytes([6, 9], [3, 0]).of_a_call(3), volume.Bytes([2, 3], [1, 0]))


if __name__ == "__main__":
    unittest.main()
