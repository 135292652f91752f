"""What `vrank validate` has to say: mixed into the test cases that ask it."""

import vrank_runner as vrank


class ConsistencyChecks:

    def expect_zero(self, *arguments):
        report = vrank.run_json("validate", "--ranks", 8, "--gpu", "h100", "--json",
                                *arguments)
        self.assertTrue(report["cases"])
        for case in report["cases"]:
            with self.subTest(real=case["real_ranks"]):
                self.expect_no_error(case)
        return report

    def expect_no_error(self, figures):
        self.assertGreater(figures["iterations"], 0)
        self.assertEqual(figures["unmatched"], 0)
        self.assertEqual(figures["max_iteration_error_ns"], 0)
        self.assertEqual(figures["max_collective_error_ns"], 0)
        self.assertEqual(figures["peak_memory_error_bytes"], 0)

    def expect_live(self, case, stages):
        """The virtual ranks follow live, once every stage has a real rank. With a stage
        per rank nobody is left to follow."""
        if stages == 8:
            self.assertIsNone(case["live"])
            return
        self.expect_no_error(case["live"])
        real = case["live"]["real_ranks"]
        self.assertLessEqual(set(case["real_ranks"]), set(real))
        self.assertGreaterEqual(len(real), stages)
        self.assertLess(len(real), 8)
