"""Stock PyTorch says the same again, whatever its threads and its caches do meanwhile."""

import os
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


if __name__ == "__main__":
    unittest.main()
