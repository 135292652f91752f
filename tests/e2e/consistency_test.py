"""The hybrid run equals the fully real run, to the nanosecond and to the byte."""

import unittest

import vrank_runner as vrank


class ConsistencyTest(unittest.TestCase):

    def expect_zero(self, *arguments):
        report = vrank.run_json("validate", "--ranks", 8, "--gpu", "h100", "--json",
                                *arguments)
        self.assertTrue(report["cases"])
        for case in report["cases"]:
            with self.subTest(real=case["real_ranks"]):
                self.assertGreater(case["iterations"], 0)
                self.assertEqual(case["max_iteration_error_ns"], 0)
                self.assertEqual(case["max_collective_error_ns"], 0)
                self.assertEqual(case["peak_memory_error_bytes"], 0)
        return report

    def test_every_layout_whichever_rank_is_real(self):
        for layout in vrank.LAYOUTS:
            with self.subTest(layout=layout):
                report = self.expect_zero("--layout", vrank.layout_flag(*layout), "--real",
                                          "each", "--", *vrank.trainer(*layout))
                self.assertEqual(len(report["cases"]), 8)

    def test_a_straggler_in_both(self):
        self.expect_zero("--layout", "tp=2,pp=2,dp=2", "--real", "0", "--straggler",
                         "5=1.7", "--", *vrank.trainer(2, 2, 2))

    def test_another_link_speed_in_both(self):
        self.expect_zero("--layout", "tp=2,pp=2,dp=2", "--real", "3", "--cluster",
                         "hgx-a100-ib200", "--", *vrank.trainer(2, 2, 2))

    def test_two_runs_give_identical_json(self):
        arguments = ("emulate", "--world-size", 8, "--layout", "tp=2,pp=2,dp=2", "--real",
                     "0,4", "--gpu", "h100", "--collectives", "--json", "--",
                     *vrank.trainer(2, 2, 2))
        self.assertEqual(vrank.run(*arguments).stdout, vrank.run(*arguments).stdout)


if __name__ == "__main__":
    unittest.main()
