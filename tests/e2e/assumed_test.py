"""A guess does not make itself small: a kernel of unknown size weighs in the ledger as
reading all the memory that it can reach, live, in a graph and by both executors."""

import pathlib
import unittest

import vrank_runner as vrank

PROGRAM = ["--", vrank.SHORT_PROGRAMS_GUEST, "SmallGuessAtMuchMemory"]
JOB = ["--quiet", "--world-size", 1, "--layout", "dp=1", "--gpu", "h100"]
KERNEL = "scale(float*, float const*, unsigned long)"
LAUNCHES = 4
# 2 GiB at the rate of docs/models.md: 3,352.3 GB/s, 91 % of which are reached.
READING_ALL_NS = (2 << 30) / (3352.3 * 0.91)


class AssumedTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = vrank.scratch()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.place = pathlib.Path(cls.scratch.name)

    def emulate(self, *flags, check=True):
        return vrank.run("emulate", *JOB, "--real", 0, "--json", *flags, *PROGRAM, check=check)

    def test_the_gate_refuses_a_guess_that_may_be_long(self):
        # Of 245 ms, 200 of which the context takes.
        refused = self.emulate("--max-assumed", "1%", check=False)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stderr, r"% of the critical path is work whose time is assumed, "
                         r"--max-assumed allows 1.0 %: scale\(float\*, float const\*, unsigned "
                         r"long\) \(up to 2\.8\d+ ms if it reads all that it can reach\)")
        costs = self.place / "costs.textproto"
        costs.write_text("kernel { name: 'scale' bytes: '8*arg2' flops: 'arg2' }\n")
        self.emulate("--max-assumed", "1%", "--kernels", costs)

    def test_live_and_in_a_graph(self):
        live = vrank.run_json("emulate", *JOB, "--real", 0, "--json", *PROGRAM)
        memsets, kernel = live["kernels"]
        self.assertEqual(memsets["weight_ns"], memsets["time_ns"])
        self.assertEqual((kernel["name"], kernel["source"]), (KERNEL, "assumed"))
        self.assertLess(kernel["time_ns"], LAUNCHES * 10_000)
        self.assertAlmostEqual(kernel["weight_ns"] / (LAUNCHES * READING_ALL_NS), 1, delta=0.01)
        ledger = live["ledger"]
        self.assertAlmostEqual(ledger["assumed_work_ns"] / kernel["weight_ns"], 1, delta=0.01)

        slices, graph = self.place / "slices", self.place / "job.vgraph"
        vrank.run("trace", *JOB, "-o", slices, *PROGRAM)
        vrank.run("build", slices, "-o", graph)
        folded = vrank.run_json("replay", graph, "--json")
        self.assertEqual(folded["iteration_time_ns"], [live["ranks"][0]["end_ns"]])
        self.assertAlmostEqual(folded["ledger"]["assumed"], ledger["assumed"], delta=1e-3)
        tables = {}
        for executor in ("worklist", "sweep", "folded"):
            tables[executor] = self.place / executor
            every = vrank.run_json("replay", graph, "--json", "--executor", executor,
                                   "--rank-table", tables[executor])
            self.assertAlmostEqual(every["last"]["assumed_ns"] / every["last"]["end_ns"],
                                   ledger["assumed"], delta=1e-3)
            self.assertEqual(tables[executor].read_text(), tables["worklist"].read_text())
        listed = vrank.run_json("kernels", "list", graph, "--json")["kernels"][1]
        self.assertEqual((listed["name"], listed["weight_ns"]), (KERNEL, kernel["weight_ns"]))


if __name__ == "__main__":
    unittest.main()
