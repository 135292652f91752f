"""CUDA graphs with collectives inside: equal to the fully real run, bytes included."""

import os
import pathlib
import unittest

import vrank_runner as vrank


class GraphCaptureTest(unittest.TestCase):

    def expect_equal(self, report, cases):
        self.assertEqual(len(report["cases"]), cases)
        for case in report["cases"]:
            with self.subTest(real=case["real_ranks"]):
                self.assertGreater(case["iterations"], 0)
                for error in ("unmatched", "max_iteration_error_ns", "max_collective_error_ns",
                              "peak_memory_error_bytes"):
                    self.assertEqual(case[error], 0, error)

    def test_captured_collectives_whichever_rank_is_real(self):
        report = vrank.run_json("validate", "--ranks", 8, "--gpu", "h100", "--layout",
                                "tp=2,dp=4", "--real", "each", "--json", "--",
                                vrank.CAPTURED_GUEST)
        self.expect_equal(report, 8)

    def test_each_launch_sums_what_all_ranks_sent(self):
        vrank.run("emulate", "--world-size", 8, "--real", "0-7", "--gpu", "h100", "--",
                  vrank.CAPTURED_GUEST, "--check")

    def test_traced_slices_make_the_graph_that_all_real_ranks_make(self):
        report = vrank.run_json("validate", "--ranks", 8, "--gpu", "h100", "--layout",
                                "tp=2,dp=4", "--real", "each", "--via-graph", "--json",
                                "--", vrank.CAPTURED_GUEST)
        self.expect_equal(report, 9)

    def test_traced_clones_of_graphs_do_what_the_originals_do(self):
        report = vrank.run_json("validate", "--ranks", 4, "--gpu", "h100", "--layout",
                                "tp=2,dp=2", "--real", "0,3", "--via-graph", "--json",
                                "--", vrank.CAPTURED_GUEST, "--clone")
        self.expect_equal(report, 2)
        with vrank.scratch() as folder:
            done = self.trace_and_build(folder, "--clone", flags=["--check"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("graph_launches", done.stdout + done.stderr)

    def trace_and_build(self, folder, *arguments, flags=()):
        vrank.run("trace", "--quiet", *flags, "--world-size", 4, "--layout", "tp=2,dp=2",
                  "-o", folder + "/slices", "--", vrank.CAPTURED_GUEST, *arguments)
        return vrank.run("build", folder + "/slices", "-o", folder + "/job.vgraph",
                         check=False)

    def test_nothing_of_a_captured_program_is_lost(self):
        with vrank.scratch() as folder:
            done = self.trace_and_build(folder, flags=["--check"])
        self.assertEqual(done.returncode, 0, done.stderr)
        for loss in ("graph_launches", "launches_without_work", "operations_without"):
            self.assertNotIn(loss, done.stdout + done.stderr)

    def test_slices_and_graphs_are_equal_between_runs(self):
        files = []
        for _ in range(2):
            with vrank.scratch() as folder:
                self.trace_and_build(folder)
                names = ["job.vgraph"] + ["slices/" + name for name in
                                          sorted(os.listdir(folder + "/slices"))
                                          if name.endswith(".vtrace")]
                files.append([(name, pathlib.Path(folder, name).read_bytes())
                              for name in names])
        self.assertGreater(len(files[0]), 1)
        self.assertEqual(files[0], files[1])

    def test_what_cupti_does_not_tell_is_refused_by_name(self):
        for argument, why in (("--child", "a child graph"), ("--update", "was updated")):
            with self.subTest(argument), vrank.scratch() as folder:
                done = self.trace_and_build(folder, argument)
                self.assertEqual(done.returncode, 1)
                self.assertIn("runs within a CUDA graph", done.stderr)
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
