"""Attention as PyTorch takes it on Hopper, by cuDNN, against a recording of an H200."""

import json
import pathlib
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

RECORDED = vrank.ROOT / "traces" / "h200_attention.jsonl"


def rows(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


@pytorch.needs_pytorch
class AttentionTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        with vrank.scratch() as folder:
            predicted = pathlib.Path(folder) / "predicted.jsonl"
            cls.report = vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h200", "--json", "--",
                pytorch.PYTHON, vrank.ROOT / "scripts" / "attention_survey", "--out", predicted)
            cls.predicted = rows(predicted)
        cls.recorded = rows(RECORDED)

    def pairs(self):
        self.assertEqual([row["case"] for row in self.predicted[1:]],
                         [row["case"] for row in self.recorded[1:]])
        return zip(self.predicted[1:], self.recorded[1:])

    def test_it_is_the_same_gpu_and_the_same_cudnn(self):
        predicted, recorded = (dict(rows[0]) for rows in (self.predicted, self.recorded))
        # One stand-in serves all releases of PyTorch, which take a newer cuDNN than their
        # own: it says the newest version.
        self.assertGreaterEqual(predicted.pop("cudnn"), recorded.pop("cudnn"))
        self.assertEqual(predicted, recorded)

    def test_the_same_attention_is_chosen(self):
        for predicted, recorded in self.pairs():
            self.assertEqual(predicted["node"], recorded["node"], recorded["case"])

    def test_the_allocator_is_asked_for_the_same_bytes(self):
        for predicted, recorded in self.pairs():
            for way in "forward", "backward", "strides":
                self.assertEqual(predicted[way], recorded[way], (way, recorded["case"]))

    def test_the_same_kernels_are_launched_in_the_same_shape(self):
        for predicted, recorded in self.pairs():
            for mine, theirs in zip(predicted["kernels"], recorded["kernels"], strict=True):
                name, _, grid, block, _, shared = theirs
                self.assertEqual([mine[0], mine[2], mine[3]], [name, grid, block], recorded["case"])
                if name.startswith("cudnn_generated"):
                    self.assertEqual(mine[5], shared, recorded["case"])

    def test_they_take_as_long_within_a_third(self):
        """A fifth where all multiprocessors have work."""
        for predicted, recorded in self.pairs():
            case = recorded["case"]
            if case["dt"] == "float32":
                continue
            mine, theirs = (sum(row[1] for row in rows if row[0].startswith("cudnn_generated"))
                            for rows in (predicted["kernels"], recorded["kernels"]))
            full = case["b"] * case["h"] * case["n"] >= 132 * 128 and case["n"] == case["s"] and case["d"] <= 128
            self.assertAlmostEqual(mine / theirs, 1, delta=0.2 if full else 0.36, msg=str(case))

    def test_a_trace_is_what_the_emulator_received(self):
        program = """
import torch
q, k, v = (torch.randn(2, 4, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
torch.cuda.synchronize()
"""
        with vrank.scratch() as folder:
            vrank.run("trace", "--world-size", 1, "--gpu", "h200", "--check", "-o", pathlib.Path(folder) / "slices",
                      "--", *pytorch.script(folder, program))

    def test_nothing_of_it_is_assumed(self):
        rest = [row for row in self.report["kernels"] if "cudnn" in row["name"] and row["source"] != "modelled"]
        self.assertEqual(rest, [])


if __name__ == "__main__":
    unittest.main()
