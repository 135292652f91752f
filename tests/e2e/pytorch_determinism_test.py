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

    def assert_same_again(self, program, runs):
        """Runs it that often and compares reports and output. Returns one output."""
        with vrank.scratch() as folder:
            ended = [vrank.run(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                "--log-dir", os.path.join(folder, str(i)), "--",
                *pytorch.script(folder, program), check=False) for i in range(runs)]
            for run in ended:
                self.assertEqual(run.returncode, 0, run.stderr)
            printed = [pathlib.Path(folder, str(i), "rank0.out").read_text()
                       for i in range(runs)]
        self.assertEqual(len({run.stdout for run in ended}), 1)
        self.assertEqual(len(set(printed)), 1)
        return printed[0]

    def test_which_worker_of_a_data_loader_comes_first(self):
        printed = self.assert_same_again("""
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
""", runs=4)
        self.assertEqual(printed.count("waited"), 16)

    def test_workers_that_sleep_and_batches_that_are_pinned(self):
        printed = self.assert_same_again("""
import threading
import time
import torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 32
    def __getitem__(self, i):
        time.sleep(0.05)
        return torch.full((512,), float(i))
def log():
    while not done.wait(0.3):
        print("log", time.perf_counter() - start)
done = threading.Event()
start = time.perf_counter()
thread = threading.Thread(target=log)
thread.start()
model = torch.nn.Linear(512, 512).cuda()
last = time.perf_counter()
for x in DataLoader(Slow(), batch_size=4, num_workers=2, pin_memory=True):
    print("waited", round(time.perf_counter() - last, 2))
    loss = model(x.cuda(non_blocking=True)).square().mean()
    loss.backward()
    loss.item()
    last = time.perf_counter()
done.set()
thread.join()
""", runs=3)
        # Two workers, each four times 50 ms for a batch: a pair of batches every 200 ms.
        waits = [line.split()[1] for line in printed.splitlines() if "waited" in line]
        self.assertEqual(waits, 4 * ["0.2", "0.0"])

    def test_a_command_that_is_polled(self):
        printed = self.assert_same_again("""
import subprocess
import sys
import time
import torch
torch.ones(4, device="cuda")
start = time.perf_counter()
command = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"])
looks = 0
while command.poll() is None:
    time.sleep(0.01)
    looks += 1
print(looks, time.perf_counter() - start)
""", runs=3)
        self.assertIn(printed.split()[0], ("30", "31"))


if __name__ == "__main__":
    unittest.main()
