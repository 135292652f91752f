"""Random programs: full run against hybrid for every set of real ranks."""

import unittest

import vrank_runner as vrank

PROGRAMS = 1000 if vrank.FULL else 120


class RandomProgramsTest(unittest.TestCase):

    def validate(self, seed, *more, programs=PROGRAMS):
        report = vrank.run_json(
            "validate", "--ranks", 4, "--real", "subsets", "--gpu", "h100", "--compare-output",
            "--json", "--", vrank.RANDOM_GUEST, "--seed", seed, "--programs", programs,
            *more, timeout=1200)
        self.assertEqual(len(report["cases"]), 14)
        for case in report["cases"]:
            with self.subTest(seed=seed, real=case["real_ranks"]):
                self.assertGreater(case["collectives"], 0)
                self.assertEqual(case["max_collective_error_ns"], 0)
                self.assertEqual(case["peak_memory_error_bytes"], 0)
                self.assertEqual(case["output_differences"], 0)

    def test_all_subsets_of_four_ranks(self):
        for seed in range(1, 4 if not vrank.FULL else 6):
            self.validate(seed)

    def test_delayed_guests(self):
        self.validate(11, "--delay-us", 2000, programs=10)


if __name__ == "__main__":
    unittest.main()
