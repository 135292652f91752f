"""The report has what PyTorch itself says of its memory, and what grows."""

import json
import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

PROGRAM = """
import sys
import torch
leak = []
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    with torch.cuda.nvtx.range("iteration"):
        loss = model(torch.randn(256, 512, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if "leak" in sys.argv:
            leak.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
        torch.cuda.synchronize()
print("peak", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
"""


@pytorch.needs_pytorch
class PytorchMemoryTest(unittest.TestCase):

    def run_program(self, *arguments):
        with vrank.scratch() as folder:
            command = pytorch.script(folder, PROGRAM)
            done = vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                             "--", *command, *arguments)
            text = pytorch.emulate(*command, *arguments).stdout
        peaks = [int(bytes) for bytes in re.search(r"peak (\d+) (\d+)", done.stderr).groups()]
        return peaks, json.loads(done.stdout)["ranks"][0]["allocator"], text

    def test_what_pytorch_says(self):
        peaks, allocator, text = self.run_program()
        self.assertEqual(peaks, [allocator["peak_allocated_bytes"], allocator["peak_reserved_bytes"]])
        by_iteration = allocator["peak_allocated_by_iteration_bytes"]
        self.assertEqual(len(by_iteration), 8)
        self.assertEqual(by_iteration[1], by_iteration[-1])
        self.assertIn("allocator   PyTorch has ", text)
        self.assertNotIn("grows ", text)

    def test_a_leak(self):
        _, allocator, text = self.run_program("leak")
        by_iteration = allocator["peak_allocated_by_iteration_bytes"]
        self.assertEqual({new - old for old, new in zip(by_iteration[2:], by_iteration[3:])},
                         {1 << 20})
        self.assertIn("by 1.00 MiB per iteration", text)


if __name__ == "__main__":
    unittest.main()
