"""A graph that is scaled predicts what slices of that size predict."""

import pathlib
import unittest

import vrank_runner as vrank


class ScaleTest(unittest.TestCase):

    def setUp(self):
        self.scratch = vrank.scratch()
        self.addCleanup(self.scratch.cleanup)
        self.place = pathlib.Path(self.scratch.name)

    def build(self, replicas, *costs, stages=2, flags=()):
        name = f"dp{replicas}pp{stages}{len(costs)}"
        layout = vrank.layout_flag(2, stages, replicas)
        vrank.run("trace", "--quiet", "--world-size", 2 * stages * replicas, "--layout", layout,
                  "--gpu", "h100", *costs, "-o", self.place / name, "--",
                  *vrank.trainer(2, stages, replicas), *flags)
        vrank.run("build", "--quiet", self.place / name, "-o", f"{self.place}/{name}.vgraph")
        return f"{self.place}/{name}.vgraph"

    def replay(self, graph):
        return vrank.run_json("replay", graph, "--json")

    def test_more_replicas(self):
        larger = self.place / "larger.vgraph"
        # Costs that know no arguments: a shard's kernels last as long at any size.
        told = vrank.run_json("scale", self.build(2), "--layout", "tp=2,pp=2,dp=8", "-o",
                              larger, "--json")
        self.assertEqual((told["world_size"], told["world_size_of_graph"]), (32, 8))
        self.assertIn("scaled_shares", {loss["name"] for loss in told["losses"]})
        scaled, traced = self.replay(larger), self.replay(self.build(8))
        self.assertEqual(scaled["iteration_time_ns"][1:], traced["iteration_time_ns"][1:])
        # The device work of the first one ends 0.15 % earlier.
        self.assertAlmostEqual(scaled["iteration_time_ns"][0] / traced["iteration_time_ns"][0],
                               1, delta=0.002)
        self.assertIn("scaled_replicas", {loss["name"] for loss in scaled["losses"]})

    def test_what_is_sharded_keeps_the_time_of_the_traced_size(self):
        costs = ("--kernels", vrank.KERNELS)
        larger = self.place / "larger.vgraph"
        vrank.run("scale", self.build(2, *costs), "--layout", "tp=2,pp=2,dp=8", "-o", larger)
        scaled = self.replay(larger)["iteration_time_ns"][-1]
        traced = self.replay(self.build(8, *costs))["iteration_time_ns"][-1]
        self.assertGreater(scaled, traced)
        self.assertLess(scaled, traced * 1.02)

    def deepened(self, *flags):
        """A graph scaled from 5 to 9 stages of two layers, and one traced with 9."""
        costs = ("--kernels", vrank.KERNELS)
        small, large = (self.build(2, *costs, stages=stages, flags=(
            "--micro-batches", 12, "--layers", 2 * stages, *flags)) for stages in (5, 9))
        deeper = self.place / "deeper.vgraph"
        told = vrank.run_json("scale", small, "--layout", "tp=2,pp=9,dp=2", "-o", deeper, "--json")
        losses = {loss["name"] for loss in told["losses"]}
        self.assertIn("scaled_stages", losses)
        return self.replay(deeper), self.replay(large), losses

    def test_more_stages(self):
        scaled, traced, losses = self.deepened()
        self.assertNotIn("scaled_stage_memory", losses)
        for part in ("iteration_time_ns", "nodes", "classes", "waits"):
            self.assertEqual(scaled[part], traced[part])

    def test_more_stages_whose_buffers_are_allocated_in_different_passes(self):
        scaled, traced, losses = self.deepened("--recompute", "full")
        self.assertIn("scaled_stage_memory", losses)
        self.assertEqual(scaled["iteration_time_ns"], traced["iteration_time_ns"])
        for ours, theirs in zip(scaled["classes"], traced["classes"]):
            self.assertAlmostEqual(ours["peak_memory_bytes"], theirs["peak_memory_bytes"],
                                   delta=0.01 * theirs["peak_memory_bytes"])

    def test_what_ifs_of_built_and_of_scaled_graphs(self):
        built, scaled = self.build(2), f"{self.place}/scaled.vgraph"
        vrank.run("scale", built, "--layout", "tp=2,pp=2,dp=8", "-o", scaled)
        for graph, ranks in ((built, 8), (scaled, 32)):
            with self.subTest(ranks=ranks):
                before = self.replay(graph)["iteration_time_ns"]
                doubled = vrank.run_json("replay", graph, "--what-if", "kernel * x2", "--json")
                edit = doubled["what_if"]["edits"][0]
                self.assertEqual(edit["after_ns"], 2 * edit["before_ns"])
                # The same, said otherwise.
                stragglers = [flag for rank in range(ranks)
                              for flag in ("--straggler", f"{rank}=2")]
                slow = vrank.run_json("replay", graph, *stragglers, "--json")
                self.assertEqual(doubled["iteration_time_ns"], slow["iteration_time_ns"])
                self.assertGreater(doubled["iteration_time_ns"][-1], before[-1])

                table = vrank.run_json("replay", graph, "--what-if-table", "--json", "--quiet")
                self.assertEqual(table["iteration_time_ns"], before[-1])
                gains = [row["gain_ns"] for row in table["rows"]]
                self.assertEqual(gains, sorted(gains, reverse=True))
                by_edit = {row["edit"]: row["gain_ns"] for row in table["rows"]}
                for text in ("communication free", "send_recv free", "all_reduce free"):
                    alone = vrank.run_json("replay", graph, "--what-if", text, "--json")
                    what_if = alone["what_if"]
                    self.assertEqual(by_edit[text], what_if["before_ns"] - what_if["after_ns"])
                    self.assertGreaterEqual(by_edit[text], 0)
                self.assertGreater(by_edit["communication free"], 0)

    def test_says_what_it_cannot_do(self):
        graph = self.build(2)
        for layout, words in (("tp=4,pp=2,dp=2", "only dp and pp can change"),
                              ("tp=2,pp=4,dp=2", "trace the job with pp=5 or more"),
                              ("tp=2,pp=4,dp=4", "dp and pp both change"),
                              ("dp=8", "the same dimensions in the same order")):
            with self.subTest(layout=layout):
                done = vrank.run("scale", graph, "--layout", layout, "-o",
                                 self.place / "no.vgraph", check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(words, done.stderr)
                self.assertFalse((self.place / "no.vgraph").exists())


if __name__ == "__main__":
    unittest.main()
