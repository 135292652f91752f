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

SMALL_LEAK = """
import torch
model = torch.nn.Linear(4096, 4096, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
for step in range(10):
    loss = model(torch.ones(8192, 4096, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.detach())  # a block of 512 bytes
"""
TOO_LARGE = """
import torch
model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(20):
    model(torch.ones(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))
"""

# Recovers from a failed allocation, and fails for another reason.
GOES_ON_WITH_LESS = """
import torch
gib = 1 << 30
try:
    torch.empty(200 * gib, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    torch.zeros(20 * gib, dtype=torch.uint8, device="cuda")
raise SystemExit(3)
"""


# What it has allocated before its iterations, after one, and what autograd keeps of a
# forward pass, by PyTorch's own count.
WITH_STATE = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
counts = [torch.cuda.memory_allocated()]
for step in range(4):
    with torch.cuda.nvtx.range("iteration"):
        loss = model(torch.randn(4096, 1024, device="cuda")).square().mean()
        counts.append(torch.cuda.memory_allocated())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss
        torch.cuda.synchronize()
        counts.append(torch.cuda.memory_allocated())
print("counts", counts[0], counts[-1], counts[-2] - counts[-3], flush=True)
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

    def test_a_small_leak_beside_state_that_is_created_once(self):
        with vrank.scratch() as folder:
            text = pytorch.emulate(*pytorch.script(folder, SMALL_LEAK)).stdout
        self.assertIn("by 512 B per iteration", text)

    def test_a_job_that_runs_out_of_memory_does_not_fit(self):
        with vrank.scratch() as folder:
            done = vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                             "--", *pytorch.script(folder, TOO_LARGE), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a call had found too little memory left on its GPU", done.stderr)
        report = json.loads(done.stdout)
        self.assertFalse(report["memory"]["fits"])
        allocator = report["ranks"][0]["allocator"]
        self.assertEqual(allocator["peak_contents"]["bytes"],
                         allocator["peak_allocated_bytes"])
        self.assertLess(report["memory"]["peak_bytes"], report["memory"]["device_bytes"])

    def test_what_fills_the_peak(self):
        with vrank.scratch() as folder:
            command = ["--world-size", 1, "--real", 0, "--gpu", "h100"]
            program = pytorch.script(folder, WITH_STATE)
            done = vrank.run("emulate", *command, "--json", "--", *program)
            text = vrank.run("emulate", *command, "--", *program).stdout
        before, after, activations = map(
            int, re.search(r"counts (\d+) (\d+) (\d+)", done.stderr).groups())
        allocator = json.loads(done.stdout)["ranks"][0]["allocator"]
        contents = allocator["peak_contents"]
        self.assertEqual(contents["bytes"], allocator["peak_allocated_bytes"])
        self.assertEqual(contents["iteration"], 4)
        rows = {(row["taken"], row["earlier_iteration"]): row for row in contents["rows"]}
        self.assertEqual(sum(row["bytes"] for row in rows.values()), contents["bytes"])
        self.assertEqual(sum(row["blocks"] for row in rows.values()), contents["blocks"])
        self.assertEqual(rows["before", False]["bytes"], before)
        self.assertEqual(rows["before", False]["blocks"], 8)  # of four layers
        self.assertEqual(rows["update", True]["bytes"], 2 * before)
        self.assertEqual(rows["update", True]["blocks"], 16)  # two moments of each
        # What cuBLAS keeps to itself is of the pass that made it.
        self.assertEqual(sum(row["bytes"] for (_, earlier), row in rows.items() if earlier),
                         after - before)
        # With the gradient of the loss, which backward() makes on the calling thread.
        self.assertLessEqual(rows["forward", False]["bytes"], activations + 512)
        self.assertGreater(rows["forward", False]["bytes"], activations // 2)
        self.assertIn("backward", {part for part, _ in rows})
        for row in rows.values():
            self.assertLessEqual(sum(launch["bytes"] for launch in row["launches"]),
                                 row["bytes"])
        self.assertRegex(text, "(?m)^allocated in iteration 4, taken +blocks +bytes +share$")
        self.assertRegex(text, "(?m)^after the backward pass of earlier iterations +16 ")

    def test_a_job_that_goes_on_with_less_fits(self):
        with vrank.scratch() as folder:
            done = vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                             "--", *pytorch.script(folder, GOES_ON_WITH_LESS), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("exited with 3", done.stderr)
        self.assertNotIn("too little memory", done.stderr)
        self.assertTrue(json.loads(done.stdout)["memory"]["fits"])


if __name__ == "__main__":
    unittest.main()
