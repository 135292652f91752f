"""Replays of what was traced on a real GPU, against that run's own clock (docs/validation.md)."""

import json
import pathlib
import shutil
import tempfile
import unittest

import vrank_runner as vrank

TRACES = pathlib.Path(__file__).resolve().parents[2] / "traces"


class RealGpuTracesTest(unittest.TestCase):

    def iterations(self, name):
        with tempfile.TemporaryDirectory() as folder:
            slices = pathlib.Path(folder) / "slices"
            slices.mkdir()
            shutil.copy(TRACES / name, slices / "rank000000.vtrace")
            graph = pathlib.Path(folder) / "job.vgraph"
            vrank.run("build", slices, "-o", graph)
            result = json.loads(vrank.run("replay", graph, "--json").stdout)
        return result

    def check(self, name, measured_ms, within):
        """The first iteration, in which libraries start, is left out."""
        result = self.iterations(name)
        replayed = [ns / 1e6 for ns in result["iteration_time_ns"][1:]]
        self.assertEqual(len(replayed), len(measured_ms))
        for replay, measured in zip(replayed, measured_ms):
            self.assertAlmostEqual(replay / measured, 1, delta=within)
        return result

    def test_gpt_trainer_on_an_h100(self):
        # What the trainer printed of the run that was traced.
        self.check("h100_gpt_trainer_dp2.vtrace", [225.054, 221.974, 222.691, 227.689, 222.371],
                   within=0.004)

    def test_ddp_of_pytorch_on_an_h100(self):
        # Between the lines that it printed, each after a wait for the loss.
        self.check("h100_pytorch_ddp8.vtrace", [88.444, 87.889, 87.822, 87.632, 87.186],
                   within=0.011)

    def test_torchtitan_on_an_h200(self):
        # 16,384 tokens through the tokens per second that it logged of each step.
        self.check("h200_torchtitan_8b_dp8.vtrace",
                   [16384e3 / tokens for tokens in (8191, 8143, 8152, 8140, 8153)], within=0.002)


if __name__ == "__main__":
    unittest.main()
