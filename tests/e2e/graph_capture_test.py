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

    def test_a_trace_of_captured_collectives_makes_no_graph(self):
        with vrank.scratch() as folder:
            vrank.run("trace", "--quiet", "--world-size", 4, "--layout", "tp=2,dp=2", "-o",
                      folder + "/slices", "--", vrank.CAPTURED_GUEST)
            done = vrank.run("build", folder + "/slices", "-o", folder + "/job.vgraph",
                             check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("runs within a CUDA graph", done.stderr)


if __name__ == "__main__":
    unittest.main()
