"""What stock PyTorch's host reads of kernels' results: small kernels against the CPU's, and
numbers that nobody knows beside ones that everybody does."""

import pathlib
import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

AGAINST_THE_CPU = """
import torch
torch.manual_seed(0)
two = {
    "==": lambda x, y, s: x == y, "!=": lambda x, y, s: x != y, "<": lambda x, y, s: x < y,
    "<=": lambda x, y, s: x <= y, ">": lambda x, y, s: x > y, ">=": lambda x, y, s: x >= y,
    "== s": lambda x, y, s: x == s, "!= s": lambda x, y, s: x != s, "< s": lambda x, y, s: x < s,
    "s <": lambda x, y, s: s < x, ">= s": lambda x, y, s: x >= s,
    "*": lambda x, y, s: x * y, "* s": lambda x, y, s: x * s, "s *": lambda x, y, s: s * x,
    "+": lambda x, y, s: x + y, "-": lambda x, y, s: x - y, "+ s": lambda x, y, s: x + s,
    "- s": lambda x, y, s: x - s, "s -": lambda x, y, s: s - x, "abs": lambda x, y, s: x.abs(),
    "add": lambda x, y, s: torch.add(x, y, alpha=3),
    "and": lambda x, y, s: (x > y) & (x > s), "or": lambda x, y, s: (x > y) | (x > s),
    "bool *": lambda x, y, s: (x > y) * (x > s),
}
compared = wrong = 0
in_halves = {"==", "!=", "<", "<=", ">", ">=", "== s", "!= s", "< s", "s <", ">= s", "abs", "and",
             "or", "bool *"}
for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32,
              torch.float64, torch.float16, torch.bfloat16):
    a, b = (torch.randn(37) * 20).to(dtype), (torch.randn(37) * 20).to(dtype)
    b[:9] = a[:9]
    if dtype.is_floating_point:
        a[3], a[4], a[5] = float("nan"), float("inf"), -0.0
    on_gpu = a.to("cuda"), b.to("cuda")
    scalar = 2.5 if dtype.is_floating_point else 5
    for name, function in two.items():
        if dtype.itemsize == 2 and dtype.is_floating_point and name not in in_halves:
            continue
        want, got = function(a, b, scalar), function(*on_gpu, scalar).cpu()
        compared += 1
        if not torch.equal(torch.nan_to_num(want.double()), torch.nan_to_num(got.double())):
            wrong += 1
            print("wrong:", dtype, name, want.tolist(), got.tolist())
print("compared", compared, "wrong", wrong)
"""

METRICS = """
import os
import torch
import torch.distributed as dist
import torch.nn.functional as F
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Linear(16, 10, device="cuda")
total = torch.zeros(3, device="cuda")
for _ in range(2):
    logits = model(torch.randn(32, 16, device="cuda"))
    labels = torch.zeros(32, dtype=torch.long, device="cuda")
    loss = torch.nn.functional.cross_entropy(logits, labels)
    total[0] += loss
    total[1] += (logits.argmax(-1) == labels).sum()
    total[2] += len(labels)
dist.all_reduce(total)
halves = [torch.isfinite(F.cross_entropy(logits.to(dtype), labels)).item() and
          torch.allclose(logits.to(dtype), logits.to(dtype)) for dtype in (torch.half, torch.bfloat16)]
print("halves", *halves)
print("finite", torch.isfinite(loss).item(), "loss", loss.item(), "count", total.tolist()[2])
dist.destroy_process_group()
"""


@pytorch.needs_pytorch
class PytorchValuesTest(unittest.TestCase):

    def test_small_kernels_are_those_of_the_cpu(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, AGAINST_THE_CPU), world_size=1)
        compared, wrong = re.search(r"compared (\d+) wrong (\d+)", done.stderr).groups()
        self.assertGreater(int(compared), 100)
        self.assertEqual(int(wrong), 0, done.stderr)

    # A loop of validation divides by its count.
    def test_known_numbers_beside_unknown_ones(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, METRICS), world_size=4)
        self.assertIn("finite True loss 0.0 count 256.0", done.stderr)
        self.assertIn("halves True True", done.stderr)

    def test_a_file_says_others(self):
        with vrank.scratch() as folder:
            values = pathlib.Path(folder, "values.textproto")
            values.write_text('rule { kernel: "*nll_loss*" type: FLOAT32 value: 2.5 }')
            done = vrank.run("emulate", "--world-size", 4, "--real", 0, "--gpu", "h100", "--values",
                             values, "--", *pytorch.script(folder, METRICS))
        self.assertIn("loss 2.5 count 256.0", done.stderr)


if __name__ == "__main__":
    unittest.main()
