"""The hybrid run equals the fully real run, to the nanosecond and to the byte."""

import re
import unittest

import vrank_runner as vrank
from consistency_checks import ConsistencyChecks


class ConsistencyTest(ConsistencyChecks, unittest.TestCase):

    def test_every_layout_whichever_rank_is_real(self):
        for layout in vrank.LAYOUTS:
            with self.subTest(layout=layout):
                report = self.expect_zero("--layout", vrank.layout_flag(*layout), "--real",
                                          "each", "--", *vrank.trainer(*layout))
                self.assertEqual(len(report["cases"]), 8)
                for case in report["cases"]:
                    with self.subTest(real=case["real_ranks"]):
                        self.expect_live(case, stages=layout[1])

    def test_a_straggler_in_both(self):
        self.expect_zero("--layout", "tp=2,pp=2,dp=2", "--real", "0", "--straggler",
                         "5=1.7", "--", *vrank.trainer(2, 2, 2))

    def test_a_straggler_that_is_traced(self):
        # Its slice has its own times; the replay makes it slow, once.
        self.expect_zero("--layout", "tp=2,pp=2,dp=2", "--real", "0", "--real", "4",
                         "--via-graph", "--straggler", "5=1.7", "--straggler", "3=1.5",
                         "--", *vrank.trainer(2, 2, 2))

    def test_another_link_speed_in_both(self):
        self.expect_zero("--layout", "tp=2,pp=2,dp=2", "--real", "3", "--cluster",
                         "hgx-a100-ib200", "--", *vrank.trainer(2, 2, 2))

    def test_changed_code_in_both(self):
        self.expect_zero("--layout", "tp=2,pp=2,dp=2", "--real", "1,6", "--",
                         *vrank.trainer(2, 2, 2, "--bucket-mb", "1"), "--extra-all-reduce")

    def test_followers_take_up_changed_code(self):
        """One live rank per stage: what it does more, its peers do, too."""
        def ends(*more):
            report = vrank.run_json(
                "emulate", "--world-size", 8, "--layout", "tp=8", "--real", "0", "--gpu",
                "h100", "--json", "--", *vrank.trainer(8, 1, 1), *more)
            full = vrank.run_json(
                "emulate", "--world-size", 8, "--layout", "tp=8", "--real", "0-7",
                "--gpu", "h100", "--json", "--", *vrank.trainer(8, 1, 1), *more)
            self.assertEqual(report["iteration_time_ns"], full["iteration_time_ns"])
            return report["iteration_time_ns"]
        self.assertGreater(ends("--extra-all-reduce"), ends())

    def test_accounts_agree_with_the_closed_form(self):
        """FLOPs within 1 % (initialisation comes on top); memory to the allocator's
        granularity: whole blocks of 2 MiB."""
        job = vrank.trainer(2, 2, 2)
        stages = re.findall(
            r"stage \d+:.*?FLOPs\s+(\S+) in matrix products, (\S+) in other kernels"
            r".*?memory\s+(\d+) bytes", vrank.program_output(*job, "--explain"), re.S)
        report = vrank.run_json(
            "emulate", "--world-size", 8, "--layout", "tp=2,pp=2,dp=2", "--real", "0-7",
            "--gpu", "h100", "--json", "--kernels", vrank.KERNELS, "--", *job)
        iterations = len(report["iteration_time_ns"])
        self.assertEqual(len(stages), 2)
        for rank in report["ranks"]:
            gemm, other, memory = stages[rank["rank"] // 4]
            expected = iterations * (float(gemm) + float(other))
            self.assertAlmostEqual(rank["flops"] / expected, 1, delta=0.01)
            taken = rank["peak_memory_by_owner_bytes"]["program"] - vrank.CUBLAS_HANDLE
            self.assertGreaterEqual(taken, int(memory))
            self.assertLess(taken, int(memory) * 1.02)

    def test_two_runs_give_identical_json(self):
        arguments = ("emulate", "--world-size", 8, "--layout", "tp=2,pp=2,dp=2", "--real",
                     "0,4", "--gpu", "h100", "--collectives", "--json", "--",
                     *vrank.trainer(2, 2, 2))
        self.assertEqual(vrank.run(*arguments).stdout, vrank.run(*arguments).stdout)


if __name__ == "__main__":
    unittest.main()
