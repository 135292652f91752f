"""Limits of waits in programs of PyTorch are virtual time, whatever else waits."""

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


if __name__ == "__main__":
    unittest.main()
