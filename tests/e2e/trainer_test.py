"""Each way in which the trainer can run: real and hybrid runs agree, and what vrank counts
is what the trainer says it does."""

import re
import unittest

import vrank_runner as vrank
from consistency_checks import ConsistencyChecks

# Name: (layout flag, sizes, what else the trainer is told).
VARIANTS = {
    "no recomputation": ("tp=2,pp=2,dp=2", (2, 2, 2), ["--recompute", "none"]),
    "full recomputation": ("tp=2,pp=2,dp=2", (2, 2, 2), ["--recompute", "full"]),
    "fused attention": ("tp=2,pp=2,dp=2", (2, 2, 2), ["--attention", "fused"]),
    "context parallelism": ("tp=2,cp=2,pp=2", (2, 2, 1),
                            ["--cp", "2", "--attention", "fused"]),
    "overlapped tensor parallelism": ("tp=2,pp=2,dp=2", (2, 2, 2), ["--overlap-tp"]),
    "loss scaling": ("tp=2,pp=2,dp=2", (2, 2, 2),
                     ["--loss-scale", "65536", "--loss-scale-window", "1"]),
    "virtual stages": ("tp=2,pp=4", (2, 4, 1), ["--virtual-stages", "2"]),
}


class TrainerTest(ConsistencyChecks, unittest.TestCase):

    def expect_all_ways(self, layout, stages, *words, real=("0", "5")):
        """Others play what the full run recorded, follow live, and play a graph of
        slices."""
        flags = ["--layout", layout]
        for ranks in real:
            flags += ["--real", ranks]
        for case in self.expect_zero(*flags, *words)["cases"]:
            self.expect_live(case, stages)
        report = self.expect_zero(*flags, "--via-graph", *words)
        self.assertEqual([case["real_ranks"] for case in report["cases"]],
                         [[]] + [[int(rank)] for rank in real])

    def test_every_variant_is_consistent(self):
        for name, (layout, sizes, words) in VARIANTS.items():
            with self.subTest(variant=name):
                self.expect_all_ways(layout, sizes[1], "--", *vrank.trainer(*sizes, *words))

    def test_checkpoints_are_consistent(self):
        """Written by a run of all ranks, read by real ones beside virtual ones."""
        with vrank.scratch() as folder:
            for words in ("--save", folder), ("--load", folder, "--iterations", "4"):
                self.expect_all_ways("tp=2,pp=2,dp=2", 2, "--",
                                     *vrank.trainer(2, 2, 2, *words), real=("3",))

    def test_routed_experts_are_consistent(self):
        """Without a GPU no kernel routes a row: the host reads that nobody sends any."""
        for ep in "1", "2":
            self.expect_all_ways("tp=2,pp=2,dp=2", 2, "--",
                                 *vrank.trainer(2, 2, 2, "--experts", "8", "--ep", ep))

    def test_an_overflow_of_a_virtual_rank(self):
        """Whether the step is skipped is a value that the virtual rank would have sent:
        recorded, it reaches the real one and those that follow it."""
        job = vrank.trainer(2, 2, 2, "--loss-scale", "8", "--overflow-rank", "7")
        with vrank.scratch() as folder:
            values = f"{folder}/values"
            vrank.run("emulate", "--world-size", 8, "--real", "0-7", "--layout",
                      "tp=2,pp=2,dp=2", "--gpu", "h100", "--quiet", "--record-payloads",
                      values, "--", *job)
            self.expect_all_ways("tp=2,pp=2,dp=2", 2, "--recorded-payloads", values, "--",
                                 *job)
        # Made up by rule, nobody overflows, and the real rank takes a step of its own.
        failed = vrank.run("validate", "--ranks", 8, "--layout", "tp=2,pp=2,dp=2", "--gpu",
                           "h100", "--quiet", "--real", "0", "--", *job, check=False)
        self.assertEqual(failed.returncode, 1)
        self.assertRegex(failed.stderr, "all_gather|reduce_scatter|all_reduce")
        self.assertIn("--recorded-payloads FILE", failed.stderr)

    def test_all_to_alls_of_drawn_sizes(self):
        """What each rank sends hangs on counts that came from others: with all ranks
        real the emulator carries them, and all rows arrive somewhere."""
        job = vrank.trainer(2, 2, 2, "--experts", "8", "--ep", "2", "--router-skew", "1")
        stated = self.stated(job)
        report = self.run_all(job, "tp=2,pp=2,dp=2")
        flops = [rank["flops"] for rank in report["ranks"]]
        expected = len(report["iteration_time_ns"]) * 4 * sum(
            float(gemm) + float(other) for gemm, other, _ in stated)
        self.assertAlmostEqual(sum(flops) / expected, 1, delta=0.01)
        self.assertGreater(max(flops) / min(flops), 1.05)

    def test_counts_that_a_virtual_peer_would_send(self):
        """How many rows come from each peer is the peer's to say. A recorded run of all
        ranks says it for virtual ones; without it the real rank takes its peer to send
        what it sends itself, and the two sizes do not meet."""
        job = vrank.trainer(2, 2, 2, "--experts", "8", "--ep", "2", "--router-skew", "1")
        flags = ("--layout", "tp=2,pp=2,dp=2", "--gpu", "h100", "--quiet")
        cases = ("--real", "0", "--real", "5", "--real", "1,2")
        with vrank.scratch() as folder:
            values = f"{folder}/values"
            vrank.run("emulate", "--world-size", 8, "--real", "0-7", *flags,
                      "--record-payloads", values, "--", *job)
            known = ("--layout", "tp=2,pp=2,dp=2", *cases, "--recorded-payloads", values)
            report = self.expect_zero(*known, "--", *job)
            for case in report["cases"]:
                self.assertIn("each rank must be real or have a trace of its own",
                              case["live_not_run"])
            # With a trace of each rank the graph is exact, too.
            self.expect_zero(*known, "--via-graph", "--trace-ranks", "0-7", "--", *job)
            graph = vrank.run("validate", "--ranks", 8, *flags, "--real", "0",
                              "--recorded-payloads", values, "--via-graph", "--", *job,
                              check=False)
            self.assertEqual(graph.returncode, 1)
            self.assertIn("have a trace of its own", graph.stderr)
            for flag in "--trace-ranks", "--record-payloads", "--recorded-payloads":
                self.assertIn(flag, graph.stderr)
            # What is made up by rule is not what was recorded.
            for rule in (), ("--recorded-payloads", values, "--payload", "*:all_gather=mirror"):
                failed = vrank.run("validate", "--ranks", 8, *flags, "--real", "0", *rule,
                                   "--", *job, check=False)
                self.assertEqual(failed.returncode, 1)
                self.assertRegex(failed.stderr, r"transfer #\d+ from rank 2 .* to rank 0 .* "
                                 r"differs: \d+ bytes are sent, \d+ bytes received")
                self.assertIn("rank 2 plays what a run recorded", failed.stderr)
                self.assertIn("--recorded-payloads FILE", failed.stderr)

    def test_accounts_of_every_variant(self):
        """FLOPs within 1 % (initialisation comes on top), and no unit of work whose cost
        nobody states."""
        for name, (layout, sizes, words) in VARIANTS.items():
            with self.subTest(variant=name):
                self.expect_accounts(layout, vrank.trainer(*sizes, *words), stages=sizes[1])

    def stated(self, job):
        """Per stage: FLOPs of matrix products and of other kernels, bytes at the peak."""
        return re.findall(
            r"stage \d+:.*?FLOPs\s+(\S+) in matrix products, (\S+) in other kernels"
            r".*?memory\s+(\d+) bytes", vrank.program_output(*job, "--explain"), re.S)

    def run_all(self, job, layout):
        return vrank.run_json(
            "emulate", "--world-size", 8, "--layout", layout, "--real", "0-7", "--gpu",
            "h100", "--json", "--max-assumed", "0%", "--kernels", vrank.KERNELS, "--", *job)

    def expect_accounts(self, layout, job, stages):
        stated = self.stated(job)
        self.assertEqual(len(stated), stages)
        report = self.run_all(job, layout)
        iterations = len(report["iteration_time_ns"])
        for rank in report["ranks"]:
            gemm, other, memory = stated[rank["rank"] * stages // 8]
            expected = iterations * (float(gemm) + float(other))
            self.assertAlmostEqual(rank["flops"] / expected, 1, delta=0.01)
            taken = rank["peak_memory_by_owner_bytes"]["program"] - vrank.CUBLAS_HANDLE
            self.assertGreaterEqual(taken, int(memory))
            # Whole blocks of 2 MiB, and blocks of one size never serve another.
            self.assertLess(taken, int(memory) * 1.05)


if __name__ == "__main__":
    unittest.main()
