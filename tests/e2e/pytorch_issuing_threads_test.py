"""Threads of PyTorch that issue work beside each other come in the same order again."""

import json
import unittest

import pytorch_runner as pytorch


@pytorch.needs_pytorch
class PytorchIssuingThreadsTest(unittest.TestCase):

    def test_a_thread_that_copies_ahead(self):
        printed = pytorch.same_again(self, """
import queue
import threading
import time
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
batches = queue.Queue(maxsize=2)
def feed():
    stream = torch.cuda.Stream()
    for _ in range(16):
        with torch.cuda.stream(stream):
            x = torch.ones(256, 512).pin_memory().cuda(non_blocking=True) * 2
            batches.put((x, stream.record_event()))
model(torch.ones(256, 512, device="cuda")).sum().backward()
feeder = threading.Thread(target=feed)
feeder.start()
for step in range(16):
    x, ready = batches.get()
    ready.wait()
    model(x).square().mean().backward()
    if step % 4 == 3:
        torch.cuda.synchronize()
        print("step", time.perf_counter())
feeder.join()
""", runs=3)
        self.assertEqual(printed.count("step"), 4)

    def test_a_pool_that_copies_ahead(self):
        printed = pytorch.same_again(self, """
import time
import torch
from concurrent.futures import ThreadPoolExecutor
model = torch.nn.Linear(2048, 2048).cuda()
def load(_):
    return torch.randn(64, 2048).pin_memory().cuda(non_blocking=True)
with ThreadPoolExecutor(4) as pool:
    for i, batch in enumerate([pool.submit(load, i) for i in range(16)]):
        model(batch.result()).sum().backward()
        if i % 4 == 3:
            print("batch", torch.cuda.synchronize(), time.perf_counter())
""", runs=4)
        self.assertEqual(printed.count("batch"), 4)

    def test_coroutines_that_wait_with_limits_and_for_a_pool(self):
        printed = pytorch.same_again(self, """
import asyncio
import time
import torch
x = torch.randn(512, 512, device="cuda")
start = time.perf_counter()
def tell(*what):
    print(*what, round((time.perf_counter() - start) * 1e6))
async def tick(name, period):
    for i in range(6):
        await asyncio.sleep(period)
        y = (x @ x).sum()
        if i % 3 == 2:
            tell(name, y.item() is not None)
def add(k):
    return (torch.ones(8, device="cuda") * k).sum().item()
async def main():
    ticks = [asyncio.create_task(tick("a", 0.003)), asyncio.create_task(tick("b", 0.005))]
    for _ in range(3):
        try:
            await asyncio.wait_for(asyncio.sleep(10), 0.01)
        except asyncio.TimeoutError:
            tell("limit")
    await asyncio.gather(*ticks)
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, add, k) for k in range(6)))
    tell("end")
asyncio.run(main())
""", runs=4)
        self.assertEqual([printed.count(word) for word in ("limit", "a ", "b ", "end")],
                         [3, 2, 2, 1])

    def test_a_thread_prepares_what_another_one_trains_with(self):
        """The longer of both counts, whichever of the two is the main thread."""
        for roles in "prepare, train", "train, prepare":
            for sleeps in 1, 4:
                printed = pytorch.same_again(self, f"""
import queue
import threading
import time
import torch
batches = queue.Queue(2)
data = torch.zeros(8192, 8192, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
times = []
def prepare():
    for batch in range(8):
        for _ in range({sleeps}):
            time.sleep(0.020 / {sleeps})
        batches.put(batch)
    batches.put(None)
def train():
    while batches.get() is not None:
        for _ in range(8):
            data @ data
        torch.cuda.synchronize()
        times.append(time.perf_counter())
main, other = {roles}
thread = threading.Thread(target=other)
thread.start()
main()
thread.join()
print([round((b - a) * 1000, 2) for a, b in zip(times[1:], times[2:])])
""", runs=2)
                self.assertEqual(json.loads(printed), [20.0] * 6, (roles, sleeps))

    def test_threads_that_train_a_model_each(self):
        printed = pytorch.same_again(self, """
import threading
import time
import torch
def train(width):
    with torch.cuda.stream(torch.cuda.Stream()):
        model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(3))).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            model(torch.randn(64, width, device="cuda")).square().mean().backward()
            optimizer.step()
            if step % 3 == 2:
                print("step", width, model[0].bias[0].item(), time.perf_counter())
threads = [threading.Thread(target=train, args=(256 * k,)) for k in (1, 2, 3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""", runs=4)
        self.assertEqual(printed.count("step"), 6)

    def test_a_checkpoint_that_a_thread_writes_and_frees(self):
        printed = pytorch.same_again(self, """
import queue
import tempfile
import threading
import time
import torch
model = torch.nn.Linear(1024, 1024).cuda()
work = queue.Queue()
def save():
    while (item := work.get()) is not None:
        event, state = item
        event.synchronize()
        with tempfile.TemporaryFile() as file:
            torch.save(state, file)
        del state, item
        print("saved", time.perf_counter())
thread = threading.Thread(target=save)
thread.start()
for step in range(8):
    with torch.cuda.nvtx.range("iteration"):
        loss = model(torch.randn(512, 1024, device="cuda")).square().mean()
        loss.backward()
        if step % 3 == 0:
            state = {name: value.to("cpu", non_blocking=True)
                     for name, value in model.state_dict().items()}
            event = torch.cuda.Event()
            event.record()
            work.put((event, state))
            del state
        loss.item()
work.put(None)
thread.join()
""", runs=3)
        self.assertEqual(printed.count("saved"), 3)

    def test_one_that_waits_for_a_rank_beside_one_that_could_go_on(self):
        """How long the other rank computes takes no virtual time, and changes no turns."""
        printed = pytorch.same_again(self, """
import os
import threading
import time
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
x = torch.ones(1024, 1024, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
def beside():
    torch.cuda.set_device(rank)
    with torch.cuda.stream(torch.cuda.Stream()):
        y = torch.ones(64, 64, device="cuda")
        for i in range(40):
            y = y @ y
            print("beside", i, time.perf_counter())
if rank == 0:
    thread = threading.Thread(target=beside)
    thread.start()
else:
    for _ in range(int(os.environ["VRANK_TEST_LOOPS"])):
        pass
dist.all_reduce(x)
x.sum().item()
print("reduced", time.perf_counter())
if rank == 0:
    thread.join()
dist.destroy_process_group()
""", runs=4, ranks=2, surroundings=lambda i: {"VRANK_TEST_LOOPS": str(i % 2 * 50_000_000)})
        self.assertEqual(printed.count("beside"), 40)

    def test_a_thread_that_sleeps_does_not_delay_what_others_wait_for(self):
        """The main thread gets each item when it is there, 8 ms after the one before."""
        printed = pytorch.same_again(self, """
import queue
import threading
import time
import torch
items = queue.Queue()
def log():
    total = torch.zeros(1, device="cuda")
    for _ in range(2):
        total.item()
        time.sleep(0.05)
def produce():
    for i in range(6):
        time.sleep(0.008)
        items.put(i)
torch.zeros(1, device="cuda").item()
logger = threading.Thread(target=log)
logger.start()
begin = time.perf_counter()
threading.Thread(target=produce).start()
for i in range(6):
    items.get()
    print("item", i, round((time.perf_counter() - begin) * 1e3))
    torch.zeros(1, device="cuda")
logger.join()
""", runs=2)
        for i in range(6):
            self.assertIn(f"item {i} {8 * (i + 1)}\n", printed)

    def test_a_second_thread_that_begins_to_copy_beside_a_wait_is_not_late(self):
        printed = pytorch.same_again(self, """
import threading
import time
import torch
matrix = torch.randn(4096, 4096, device="cuda")
host = torch.zeros(1 << 16).pin_memory()
part = torch.zeros(1 << 16, device="cuda")
stream = torch.cuda.Stream()
torch.cuda.synchronize()
def save(i):
    time.sleep(0.001)
    begin = time.perf_counter()
    with torch.cuda.stream(stream):
        host.copy_(part, non_blocking=True)
    print("copy", i, round((time.perf_counter() - begin) * 1e3))
for i in range(3):
    for _ in range(8):
        torch.mm(matrix, matrix)
    saver = threading.Thread(target=save, args=(i,))
    saver.start()
    torch.cuda.synchronize()
    saver.join()
""", runs=2)
        self.assertIn("copy 1 0\n", printed)
        self.assertIn("copy 2 0\n", printed)

    def test_a_profiler_with_a_schedule_beside_one_that_launches_without_a_pause(self):
        printed = pytorch.same_again(self, """
import threading
import torch
from torch.profiler import ProfilerActivity, profile, schedule
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(3))).cuda()
x = torch.ones(64, 512, device="cuda")
over = threading.Event()
def beside():
    stream = torch.cuda.Stream()
    y = torch.ones(128, 128, device="cuda")
    launched = 0
    with torch.cuda.stream(stream):
        while not over.is_set():
            y = y * 1.5
            launched += 1
            if launched % 16 == 0:
                stream.synchronize()
thread = threading.Thread(target=beside)
thread.start()
def tell(profiler):
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            print("on the GPU", event.name, event.time_range.start, event.time_range.end)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
             schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
             on_trace_ready=tell) as profiler:
    for i in range(8):
        model(x).sum().backward()
        torch.cuda.synchronize()
        profiler.step()
over.set()
thread.join()
""", runs=3)
        self.assertGreater(printed.count("on the GPU"), 100)


if __name__ == "__main__":
    unittest.main()
