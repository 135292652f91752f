"""CUDA graphs with collectives inside: equal to the fully real run, bytes included."""

import unittest

import vrank_runner as vrank


class GraphCaptureTest(unittest.TestCase):

    def test_captured_collectives_whichever_rank_is_real(self):
        report = vrank.run_json("validate", "--ranks", 8, "--gpu", "h100", "--layout",
                                "tp=2,dp=4", "--real", "each", "--json", "--",
                                vrank.CAPTURED_GUEST)
        self.assertEqual(len(report["cases"]), 8)
        for case in report["cases"]:
            with self.subTest(real=case["real_ranks"]):
                self.assertGreater(case["iterations"], 0)
                self.assertEqual(case["unmatched"], 0)
                self.assertEqual(case["max_iteration_error_ns"], 0)
                self.assertEqual(case["max_collective_error_ns"], 0)
                self.assertEqual(case["peak_memory_error_bytes"], 0)

    def test_each_launch_sums_what_all_ranks_sent(self):
        vrank.run("emulate", "--world-size", 8, "--real", "0-7", "--gpu", "h100", "--",
                  vrank.CAPTURED_GUEST, "--check")


if __name__ == "__main__":
    unittest.main()
