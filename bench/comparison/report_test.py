"""How bench/compare's report gets into a page."""
import unittest

import report


class PageTest(unittest.TestCase):
    def test_a_report_takes_the_place_of_the_one_before(self):
        page = f"# P\n\n{report.BEGIN}\n\nold\n\n{report.END}\n\nmore\n"
        once = report.on_page(page, "new \\1\n")
        self.assertEqual(once, f"# P\n\n{report.BEGIN}\n\nnew \\1\n\n{report.END}\n\nmore\n")
        self.assertEqual(report.on_page(once, "new \\1\n"), once)

    def test_a_page_without_a_place_for_it_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "compare: written by"):
            report.on_page("# P\n", "new")


if __name__ == "__main__":
    unittest.main()
