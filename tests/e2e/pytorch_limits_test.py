"""Waits in programs of PyTorch end at their virtual time, whatever else waits."""

import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank


@pytorch.needs_pytorch
class PytorchLimitsTest(unittest.TestCase):

    def test_a_loop_in_a_thread_after_one_that_has_ended(self):
        """Its set of descriptors has the number that the first one's had."""
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import asyncio
import threading
import time
import torch
torch.zeros(1, device="cuda")
asyncio.run(asyncio.sleep(0.002))
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
start = time.perf_counter()
asyncio.run_coroutine_threadsafe(asyncio.sleep(0.003), loop).result(timeout=1)
print("slept", round(time.perf_counter() - start, 3), flush=True)
"""), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"slept 0\.00[345]\b")  # epoll rounds up to milliseconds

    def test_waits_by_polls_take_no_millisecond_more(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import asyncio
import multiprocessing
import time
import torch
torch.zeros(1, device="cuda")
def took(what, wait):
    start = time.perf_counter()
    wait()
    print(what, round((time.perf_counter() - start) * 1000, 2), flush=True)
async def limit():
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.033)
    except asyncio.TimeoutError:
        pass
async def sleeps():
    await asyncio.gather(*(asyncio.sleep(0.001 * k) for k in (5, 7, 8)))
    for _ in range(10):
        await asyncio.sleep(0.001)
took("sleep", lambda: asyncio.run(asyncio.sleep(0.003)))
took("limit", lambda: asyncio.run(limit()))
took("sleeps", lambda: asyncio.run(sleeps()))
queue = multiprocessing.Queue()
def empty():
    for _ in range(3):
        try:
            queue.get(timeout=0.1)
        except Exception:
            pass
took("queue", empty)
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1,))
child.start()
took("join", lambda: child.join(0.1))
child.kill()
"""), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        # As without vrank. Python (3.11) itself makes 10 ms of 9.
        for what, milliseconds in {"sleep": 3, "limit": 33, "sleeps": 18, "queue": 300,
                                   "join": 100}.items():
            printed = re.search(rf"{what} ([0-9.]+)$", done.stderr, re.MULTILINE)
            self.assertAlmostEqual(float(printed.group(1)), milliseconds, delta=0.25,
                                   msg=done.stderr)

    def test_workers_that_a_break_leaves_waiting(self):
        """The interpreter's end joins each for 5 s, which is no real time."""
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import torch
from torch.utils.data import DataLoader
torch.ones(1, device="cuda")
loader = DataLoader(list(range(1000)), 4, num_workers=4, persistent_workers=True,
                    pin_memory=True)
for i, batch in enumerate(loader):
    if i == 8:
        break
print("left", flush=True)
"""), check=False)
        self.assertIn("left", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_limit_beside_a_thread_that_issues_work_and_sleeps_for_longer(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import threading
import time
import torch
torch.zeros(1, device="cuda")
def work():
    torch.ones(8, device="cuda")
    time.sleep(0.05)
thread = threading.Thread(target=work)
thread.start()
start = time.perf_counter()
thread.join(0.01)
print("waited", round(time.perf_counter() - start, 3), thread.is_alive(), flush=True)
thread.join()
"""), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("waited 0.01 True", done.stderr)

    def test_a_thread_that_reads_what_a_command_writes(self):
        """It goes on at the command's time, while the program sleeps for longer."""
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import subprocess
import threading
import time
import torch
torch.zeros(1, device="cuda")
start = time.perf_counter()
def tell(*what):
    print(*what, round((time.perf_counter() - start) * 1000), flush=True)
def read():
    command = subprocess.Popen(["sh", "-c", "for i in 1 2 3; do sleep 0.006; echo $i; done"],
                               stdout=subprocess.PIPE, text=True)
    for line in command.stdout:
        tell("line", line.strip())
    subprocess.run(["sleep", "0.02"])
    tell("slept")
thread = threading.Thread(target=read)
thread.start()
time.sleep(0.06)
thread.join()
"""), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for told in ("line 1 6", "line 2 12", "line 3 18", "slept 38"):
            self.assertIn(told, done.stderr)

    def test_a_thread_that_serves_what_another_sends(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import socket
import threading
import time
import torch
torch.zeros(1, device="cuda")
start = time.perf_counter()
server = socket.create_server(("127.0.0.1", 0))
def serve():
    connection, _ = server.accept()
    print("accepted", round((time.perf_counter() - start) * 1000), flush=True)
    while connection.recv(1):
        print("received", round((time.perf_counter() - start) * 1000), flush=True)
thread = threading.Thread(target=serve)
thread.start()
time.sleep(0.004)
with socket.create_connection(server.getsockname()) as client:
    for _ in range(2):
        time.sleep(0.005)
        client.send(b"x")
thread.join()
"""), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for told in ("accepted 4", "received 9", "received 14"):
            self.assertIn(told, done.stderr)


if __name__ == "__main__":
    unittest.main()
