"""Stock PyTorch says the same again, whatever its threads and its caches do meanwhile."""

import os
import socket
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank


@pytorch.needs_pytorch
class PytorchDeterminismTest(unittest.TestCase):

    def test_a_kernel_that_nvrtc_compiles_or_has_compiled_before(self):
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
        printed = pytorch.same_again(self, """
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
        printed = pytorch.same_again(self, """
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
        printed = pytorch.same_again(self, """
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

    def test_threads_that_want_the_interpreter_that_another_holds(self):
        printed = pytorch.same_again(self, """
import threading
import time
import torch
x = torch.randn(512, 512, device="cuda")
over = False
def tick(name):
    while not over:
        time.sleep(0.05)
        print(name, round(time.perf_counter() - start, 3))
start = time.perf_counter()
for name in "abc":
    threading.Thread(target=tick, args=name, daemon=True).start()
for _ in range(3):
    (x @ x).sum().item()
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until:
        pass
over = True
""", runs=3)
        # Each asks for the interpreter at its time, and gets it 5 ms later.
        self.assertEqual(printed.splitlines()[:6], [
            "a 0.055", "b 0.055", "c 0.055", "a 0.11", "b 0.11", "c 0.11"])

    def test_threads_that_are_woken_together(self):
        pytorch.same_again(self, """
import queue
import threading
import time
import torch
x = torch.randn(512, 512, device="cuda")
start = time.perf_counter()
def now():
    return round((time.perf_counter() - start) * 1e3, 3)
go = threading.Event()
barrier = threading.Barrier(4)
def runner(name):
    go.wait()
    for lap in range(3):
        print("lap", name, lap, now())
        time.sleep(0.001)
        barrier.wait()
items = queue.Queue(maxsize=2)
def consumer(name):
    while (item := items.get()) is not None:
        print("item", name, item, now())
threads = [threading.Thread(target=target, args=(name,))
           for target in (runner, consumer) for name in range(4)]
for thread in threads:
    thread.start()
go.set()
for item in range(12):
    items.put(item)
    if item % 4 == 0:
        (x @ x).sum().item()
for _ in range(4):
    items.put(None)
for thread in threads:
    thread.join()
""", runs=4)

    def test_work_on_the_cpu_beside_a_heartbeat(self):
        """Threads of a pool wait for each other by turns: that is no rest."""
        printed = pytorch.same_again(self, """
import threading
import time
import torch
torch.ones(4, device="cuda").sum().item()
averages = [torch.randn(1024, 1024) for _ in range(4)]
start = time.perf_counter()
stop = threading.Event()
beats = 0
def beat():
    global beats
    while not stop.wait(0.02):
        beats += 1
thread = threading.Thread(target=beat)
thread.start()
for _ in range(3):
    for average in averages:
        average.mul_(0.9).add_(average @ average, alpha=1e-3)
stop.set()
thread.join()
print(beats, round(time.perf_counter() - start, 3))
""", runs=3)
        self.assertEqual(printed.split(), ["0", "0.0"])

    def test_commands_beside_a_heartbeat(self):
        printed = pytorch.same_again(self, """
import subprocess
import threading
import time
import torch
torch.ones(4, device="cuda").sum().item()
start = time.perf_counter()
stop = threading.Event()
def beat():
    while not stop.wait(0.02):
        print("beat")
thread = threading.Thread(target=beat)
thread.start()
for _ in range(3):
    subprocess.run(["true"], check=True)
for _ in range(3):
    command = subprocess.Popen(["sleep", "0.1"])
    looks = 0
    while command.poll() is None:
        time.sleep(0.01)
        looks += 1
    print(looks)
stop.set()
thread.join()
""", runs=3)
        self.assertEqual([line for line in printed.splitlines() if line != "beat"],
                         3 * ["10"])

    def test_a_store_of_the_programs_own_to_which_others_come_first(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        printed = pytorch.same_again(self, f"""
import os
import time
import torch
from torch.distributed import TCPStore
rank = int(os.environ["RANK"])
torch.ones(4, device="cuda")
start = time.perf_counter()
if rank == 0:
    time.sleep(3)
store = TCPStore("127.0.0.1", {port}, 3, rank == 0)
print("connected", time.perf_counter() - start)
""", runs=3, ranks=3)
        connected = [float(line.split()[1]) for line in printed.splitlines()]
        # They were refused, and tried again at times of their own.
        self.assertGreater(min(connected), 3)
        self.assertEqual(len(set(connected)), 3)

    def test_ranks_that_wait_for_each_other_over_gloo(self):
        printed = pytorch.same_again(self, """
import os
import time
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cpu:gloo,cuda:nccl")
rank = dist.get_rank()
start = time.perf_counter()
model = torch.nn.Linear(1024, 1024).cuda()
for step in range(6):
    with torch.cuda.nvtx.range("iteration"):
        loss = model(torch.randn(256 << (rank + step) % 2, 1024, device="cuda")).square().mean()
        loss.backward()
        if step % 2 == rank:
            loss.item()
        dist.all_reduce(torch.ones(64))
        dist.all_gather_object([None, None], (rank, step))
        work = dist.all_reduce(torch.ones(64), async_op=True)
        dist.all_reduce(model.weight.grad)
        work.wait()
    print(step, time.perf_counter() - start)
dist.destroy_process_group()
print("end", time.perf_counter() - start)
""", runs=3, ranks=2)
        self.assertEqual(printed.count("end"), 2)


if __name__ == "__main__":
    unittest.main()
