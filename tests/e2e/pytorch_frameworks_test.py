"""Frameworks on top of PyTorch from their pip packages, unmodified: one real rank gives what all real ranks give."""

import json
import os
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

SMALL = ["--layers", "4", "--hidden", "128", "--heads", "4", "--vocabulary", "512",
         "--sequence", "128"]


class FrameworksTest(unittest.TestCase):

    def assert_exact(self, layout, ends, *command):
        done = vrank.run(
            "validate", "--ranks", 8, "--real", 0, "--layout", layout, "--gpu", "h100",
            "--json", "--", *command, check=False)
        self.assertTrue(done.stdout, done.stderr)
        case = json.loads(done.stdout)["cases"][0]
        self.assertGreater(case["collectives"] + case["transfers"], ends)
        self.assertEqual(
            [case[what] for what in ("unmatched", "max_iteration_error_ns",
                                     "max_collective_error_ns", "peak_memory_error_bytes")],
            [0, 0, 0, 0])

    @pytorch.needs_package("megatron.core", "megatron-core==0.16.1")
    def test_megatron_core(self):
        self.assert_exact("tp=2,dp=2,pp=2", 2000,
                          *pytorch.example("megatron_core.py", *SMALL))

    @pytorch.needs_package("megatron.core", "megatron-core==0.16.1")
    def test_megatron_core_with_experts(self):
        self.assert_exact("tp=2,dp=2,pp=2", 3000, *pytorch.example(
            "megatron_core.py", "--experts", "4", "--ep", "2", *SMALL))

    @pytorch.needs_package("triton", "triton==3.6.0")
    def test_torch_compile(self):
        with vrank.scratch() as folder:
            report = vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--",
                *pytorch.example("compiled.py", *SMALL),
                env=dict(os.environ, TRITON_CACHE_DIR=f"{folder}/triton",
                         TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor",
                         TORCHINDUCTOR_COMPILE_THREADS="1"))
        self.assertEqual(len(report["iteration_time_ns"]), 3)
        # Inductor's layer norm, forward, in each of four blocks and three iterations at least.
        norms = [row["count"] for row in report["kernels"]
                 if row["name"].startswith("triton_") and "layer_norm" in row["name"]]
        self.assertGreaterEqual(sum(norms), 12)
        # Their machine code says what they take, but for a loop that is not unrolled.
        sources = [row["source"] for row in report["kernels"]
                   if row["name"].startswith("triton_poi_")]
        self.assertGreaterEqual(len(sources), 2)
        self.assertEqual(set(sources), {"modelled"})

    @pytorch.needs_package("deepspeed", "deepspeed==0.19.8")
    def test_deepspeed_zero(self):
        self.assert_exact("dp=8", 2000,
                          *pytorch.example("deepspeed_zero.py", "--stage", 3, *SMALL))

    @pytorch.needs_package("torchtitan", "torchtitan==0.2.2")
    def test_torchtitan(self):
        self.assert_exact(
            "tp=2,dp=4", 2000,
            *pytorch.example("torchtitan_llama3.py", "--model.flavor", "debugmodel",
                             "--training.steps", 3, "--training.seq_len", 256,
                             "--training.local_batch_size", 2,
                             "--parallelism.tensor_parallel_degree", 2))


if __name__ == "__main__":
    unittest.main()
