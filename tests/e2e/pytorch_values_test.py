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
kept = 0  # of what was there before a kernel that is not computed wrote all of it
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
    for size in (1, 37, 4096):
        out = torch.full((size,), 7, dtype=dtype, device="cuda")
        torch.exp(torch.ones(size, dtype=dtype, device="cuda"), out=out)
        kept += (out.cpu() == 7).sum().item()
print("kept", kept, "old")
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

# Each condition of unknown numbers with its negation.
CONDITIONS = """
import torch
unknown = torch.randn(32, 32, device="cuda") @ torch.randn(32, device="cuda")
few, one, many = unknown, unknown.sum(), unknown.repeat(2000)  # many: beyond the 16,384
agree = []
for x in few, one:
    for condition in torch.isnan(x), x == x, x > 0, x >= 0, torch.isfinite(x), (x < 0).any(), (x == x).all():
        opposite = ~condition
        agree += [condition.logical_not().tolist() == opposite.tolist(),
                  (condition ^ opposite).all().item(), (condition | opposite).all().item(),
                  not (condition & opposite).any().item(), (~opposite).tolist() == condition.tolist()]
print("agree", sum(agree), "of", len(agree))
print("kept", few[~torch.isnan(few)].numel(), few[torch.isfinite(few)].numel(), few[few > 0].numel(),
      (~torch.isnan(few)).sum().item(), torch.isfinite(many).all().item())
# torch.distributions refuse parameters that are not valid. Halves of rows are strided.
from torch.distributions import Bernoulli, Beta, Categorical, Dirichlet, Normal
valid = 0
for rows in 32, 4096:
    mean, scale = (torch.randn(rows, 16, device="cuda") @ torch.randn(16, 16, device="cuda")).chunk(2, -1)
    Normal(mean, scale.clamp(-5, 2).exp()).rsample()
    Normal(mean, torch.nn.functional.softplus(scale) + 1e-3)
    Bernoulli(logits=mean), Categorical(logits=mean)
    Beta(mean.exp(), scale.exp())
    Dirichlet(mean.exp())
    valid += 4
print("distributions", valid, "of 8")
"""

LOSS_SCALE = """
import random
import torch
random.seed(1)
both = [[torch.full((), 65536.0, device=d), torch.full((), 0, dtype=torch.int32, device=d)]
        for d in ("cpu", "cuda")]
wrong = 0
for step in range(200):
    inf, growth = float(random.random() < 0.2), random.choice([2.0, 1e30])
    for scale, tracker in both:
        torch._amp_update_scale_(scale, tracker, torch.tensor(inf).to(scale.device), growth, 0.5, 3)
    wrong += any(a.item() != b.item() for a, b in zip(*both))
print("known", wrong, "wrong")
model = torch.nn.Linear(16, 16, device="cuda")
for fused in (False, True):
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    scaler = torch.amp.GradScaler("cuda", growth_interval=3)
    for step in range(7):
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.randn(8, 16, device="cuda")).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print("scale", step, scaler.get_scale())
"""

# Known tensors beside what is not computed, in memory that other tensors had before.
NEIGHBOURS = """
import torch
unknown = lambda *shape: torch.randn(*shape[:-1], 64, device="cuda") @ torch.randn(
    64, shape[-1], device="cuda")
known = wrong = 0
def expect(tensor, total):
    global known, wrong
    known += 1
    wrong += tensor.sum().item() != total
reductions = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "amax": lambda x: x.amax(0),
              "var": lambda x: x.var(0), "norm": lambda x: x.norm(dim=0),
              "logsumexp": lambda x: x.logsumexp(0), "half": lambda x: x.half().sum(0),
              "max": lambda x: x.max(0)[1], "argmin": lambda x: x.argmin(0)}
for rows in 16, 110, 1000:
    for name, reduce in reductions.items():
        x = unknown(rows, 128)
        blocks = [torch.empty(128, device="cuda") for _ in range(16)]  # 512 bytes each
        kept = [block.view(torch.int64)[:64].fill_(1) for block in blocks[::2]]
        del blocks
        results = [reduce(x) for _ in range(8)]
        for tensor in kept:
            expect(tensor, 64)
for fused in False, True:
    gradients = [unknown(16, 128) for _ in range(8)]
    parameters = [torch.nn.Parameter(torch.zeros_like(x)) for x in gradients]
    optimizer = torch.optim.AdamW(parameters, fused=fused)
    for used in 8, 4, 2:
        for i, (parameter, x) in enumerate(zip(parameters, gradients)):
            parameter.grad = x.clone() if i < used else None
        lengths = [torch.arange(1, 1025, device="cpu").cuda() for _ in range(4)]  # 8 KiB, too
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=float("inf"))
        optimizer.step()
        for tensor in lengths:
            expect(tensor, 524800)
print("known", known, "wrong", wrong)
"""


@pytorch.needs_pytorch
class PytorchValuesTest(unittest.TestCase):

    def test_small_kernels_are_those_of_the_cpu(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, AGAINST_THE_CPU), world_size=1)
        compared, wrong = re.search(r"compared (\d+) wrong (\d+)", done.stderr).groups()
        self.assertGreater(int(compared), 100)
        self.assertEqual(int(wrong), 0, done.stderr)
        self.assertIn("kept 0 old", done.stderr)

    # A loop of validation divides by its count.
    def test_known_numbers_beside_unknown_ones(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, METRICS), world_size=4)
        self.assertIn("finite True loss 0.0 count 256.0", done.stderr)
        self.assertIn("halves True True", done.stderr)

    def test_known_numbers_in_memory_beside_unknown_ones(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, NEIGHBOURS), world_size=1)
        self.assertIn(f"known {3 * 9 * 8 + 2 * 3 * 4} wrong 0", done.stderr)

    def test_a_file_says_others(self):
        with vrank.scratch() as folder:
            values = pathlib.Path(folder, "values.textproto")
            values.write_text('rule { kernel: "*nll_loss*" type: FLOAT32 value: 2.5 }')
            done = vrank.run("emulate", "--world-size", 4, "--real", 0, "--gpu", "h100", "--values",
                             values, "--", *pytorch.script(folder, METRICS))
        self.assertIn("loss 2.5 count 256.0", done.stderr)

    # TRL's trainers take the minimum of the values that are not NaN.
    def test_conditions_of_unknown_numbers_agree(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, CONDITIONS), world_size=1)
        self.assertIn("agree 70 of 70", done.stderr)
        self.assertIn("kept 32 32 32 32 True", done.stderr)
        self.assertIn("distributions 8 of 8", done.stderr)

    def test_a_loss_scale_goes_on_as_on_a_gpu(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, LOSS_SCALE), world_size=1)
        self.assertIn("known 0 wrong", done.stderr)
        scales = re.findall(r"scale \d ([0-9.]+)", done.stderr)
        grown = [65536.0] * 2 + [131072.0] * 3 + [262144.0] * 2
        self.assertEqual([float(scale) for scale in scales], 2 * grown)
        self.assertIn("amp_update_scale", done.stdout)  # the report counts it


if __name__ == "__main__":
    unittest.main()
