"""Coroutines beside PyTorch: their loops' limits are virtual time."""

import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank


@pytorch.needs_pytorch
class PytorchCoroutinesTest(unittest.TestCase):

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


if __name__ == "__main__":
    unittest.main()
