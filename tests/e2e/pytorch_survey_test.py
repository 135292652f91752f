"""Kernels of stock PyTorch against what an H100 took for them (traces/h100_kernel_survey.jsonl)."""

import pathlib
import re
import subprocess
import sys
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

SURVEY = vrank.ROOT / "traces" / "h100_kernel_survey.jsonl"
GPU = vrank.ROOT / "data" / "gpus" / "h100-sxm5-80gb.textproto"


@pytorch.needs_pytorch
class PytorchSurveyTest(unittest.TestCase):

    def sizes(self, only):
        """Size of the errors in percent by class: of all shapes, and of those held out."""
        with vrank.scratch() as folder:
            predicted = pathlib.Path(folder) / "predicted.jsonl"
            # The GPU was idle between the shapes, as the virtual one is not: each was at the
            # highest clock.
            gpu = pathlib.Path(folder) / "h100_highest_clock.textproto"
            gpu.write_text(re.sub(r"(?s)\npower \{.*?\n\}", "", GPU.read_text()))
            vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", gpu, "--",
                      pytorch.PYTHON, vrank.ROOT / "scripts" / "kernel_survey", "--out", predicted,
                      "--only", only, "--seconds", 10000)
            table = subprocess.run(
                [sys.executable, vrank.ROOT / "scripts" / "compare_survey", SURVEY, predicted],
                check=True, capture_output=True, text=True).stdout
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
        return {row[0]: (int(row[3][:-2]), int(row[6][:-2] or 0)) for row in rows if row[3]}

    def test_attention_as_pytorch_chooses_takes_what_cudnn_took(self):
        for name, (size, held_out) in self.sizes("attention_default").items():
            self.assertLess(size, 5, name)
            self.assertLess(held_out, 5, name)

    def test_memory_efficient_attention_takes_what_it_took(self):
        for name, (size, held_out) in self.sizes("attention_efficient").items():
            self.assertLess(max(size, held_out), 6, name)

    def test_attention_that_is_asked_for_takes_what_it_took(self):
        for kind in "flash", "cuDNN":
            sizes = self.sizes("attention_" + kind.lower())
            for direction in "forward", "backward":
                self.assertLess(max(sizes[f"attention, {kind}, {direction}"]), 8, (kind, direction))

    def test_kernels_bound_by_memory_or_by_issue_take_what_they_took(self):
        sizes = self.sizes("^add|gelu|^to_|layer_norm|rms_norm|softmax|cross|transpose|slice|cat")
        for name, (size, held_out) in sizes.items():
            self.assertLess(size, 16, name)
            self.assertLess(held_out, 20, name)
        self.assertIn("normalisations", sizes)
        self.assertIn("broadcast, by strides, transposed", sizes)

    def test_random_integers_and_dropout_are_described(self):
        program = """
import torch
torch.randint(100, (1 << 20,), device="cuda")
torch.nn.functional.dropout(torch.empty(1 << 20, device="cuda"), 0.1)
"""
        with vrank.scratch() as folder:
            report = vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                "--", *pytorch.script(folder, program))
        self.assertEqual([row["source"] for row in report["kernels"]], ["modelled"] * 2)

    def test_norms_in_double_move_their_bytes(self):
        program = """
import torch
x = torch.empty(1 << 24, device="cuda", dtype=torch.float64)
for _ in range(2):
    torch.linalg.vector_norm(x)
    x.mean()
"""
        with vrank.scratch() as folder:
            report = vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                "--", *pytorch.script(folder, program))
        rows = [row for row in report["kernels"] if "reduce_kernel" in row["name"]]
        self.assertEqual([row["source"] for row in rows], ["modelled"] * 2)
        for row in rows:  # 2^27 bytes at 3.05 TB/s
            self.assertAlmostEqual(row["time_ns"] / row["count"], 46000, delta=8000)


if __name__ == "__main__":
    unittest.main()
