"""Stock PyTorch says the same again, whatever its threads and its caches do meanwhile."""

import os
import pathlib
import subprocess
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank


@pytorch.needs_pytorch
class PytorchDeterminismTest(unittest.TestCase):

    def test_a_kernel_that_nvrtc_compiles_or_has_compiled_before(self):
        if subprocess.run([pytorch.PYTHON, "-c", "import ctypes; ctypes.CDLL('libnvrtc.so.13')"],
                          check=False, capture_output=True).returncode != 0:
            self.skipTest("there is no libnvrtc.so.13")
        with vrank.scratch() as folder:
            cache = os.path.join(folder, "cache")
            os.mkdir(cache)
            reports = [vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--",
                *pytorch.script(folder, """
import torch
torch.nn.init.trunc_normal_(torch.empty(1024, device="cuda"))
torch.cuda.synchronize()
"""), env=dict(os.environ, PYTORCH_KERNEL_CACHE_PATH=cache)) for _ in range(2)]
            self.assertTrue(os.listdir(cache))
        self.assertEqual(*reports)

    def test_which_worker_of_a_data_loader_comes_first(self):
        with vrank.scratch() as folder:
            runs = [vrank.run(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                "--log-dir", os.path.join(folder, str(i)), "--",
                *pytorch.script(folder, """
import time
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(512, 512).cuda()
last = time.perf_counter()
for epoch in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(256, 512)), batch_size=32, num_workers=2):
        print("waited", time.perf_counter() - last)
        with torch.cuda.nvtx.range("iteration"):
            loss = model(x.cuda(non_blocking=True)).square().mean()
            loss.backward()
            loss.item()
        last = time.perf_counter()
"""), check=False) for i in range(4)]
            for run in runs:
                self.assertEqual(run.returncode, 0, run.stderr)
            printed = [pathlib.Path(folder, str(i), "rank0.out").read_text()
                       for i in range(len(runs))]
        self.assertEqual(len({run.stdout for run in runs}), 1)
        self.assertEqual(printed[0].count("waited"), 16)
        self.assertEqual(len(set(printed)), 1)


if __name__ == "__main__":
    unittest.main()
