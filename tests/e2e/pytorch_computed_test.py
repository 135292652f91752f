"""Stock PyTorch's small kernels, run by their own machine code: what the host reads is what the
CPU computes."""

import json
import os
import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

PROGRAM = """
import torch
torch.manual_seed(0)
print("ones", torch.ones(4, 2048, dtype=torch.int64, device="cuda").all().item())
mask = torch.arange(2048).repeat(4, 1).cumsum(-1).cuda()
print("mask", (mask[:, -1] == 0).all().item(), (mask[:, 0] == 0).all().item())
small = torch.randint(-9, 9, (5, 37))
cases = {
    "cumsum": lambda x: x.cumsum(-1), "cumsum over rows": lambda x: x.cumsum(0),
    "sum": lambda x: x.sum(), "sum of rows": lambda x: x.sum(-1),
    "any": lambda x: (x > 8).any(-1), "all": lambda x: (x < 9).all(),
    "amax": lambda x: x.amax(0), "amin": lambda x: x.amin(),
    "argmax": lambda x: x.reshape(-1)[:7].argmax(), "argmin": lambda x: x.argmin(-1),
    "max": lambda x: x.max(-1).values, "prod": lambda x: x[:, :5].prod(-1),
    "nonzero": lambda x: x.nonzero(), "unique": lambda x: x.unique(),
    "counts": lambda x: torch.stack(x.unique(return_counts=True)),
    "sort": lambda x: x.sort(dim=-1, stable=True).values,
    "mode": lambda x: x.clamp(-2, 0).mode(-1).values, "median": lambda x: x.median(-1).values,
    "order": lambda x: x.reshape(-1).argsort(stable=True),
    "topk": lambda x: x.reshape(-1).topk(5).values,
    "where": lambda x: torch.where(x > 2, x, -x), "masked": lambda x: x[x > 3],
    "fill": lambda x: x.masked_fill(x < 0, 7), "index": lambda x: x[:, x[0].abs()],
    "gather": lambda x: x.gather(-1, x.abs()), "select": lambda x: x.index_select(1, x[1].abs()),
    "scatter": lambda x: x.scatter(-1, x.abs()[:, :1], 5),
    "index add": lambda x: x.index_add(1, x[2].abs(), x),
    "divide": lambda x: x // 3 + x % 5, "bits": lambda x: (x & 6) ^ (x << 2) | (x >> 1),
    "cat": lambda x: torch.cat([x, x + 1], -1), "roll": lambda x: x.roll(3, -1),
    "flip": lambda x: x.flip(-1), "triangle": lambda x: x.tril(2),
    "bincount": lambda x: x.abs().reshape(-1).bincount(),
    "equal": lambda x: torch.tensor(torch.equal(x, x.clone())),
    "strided": lambda x: x.t()[::2] * 3, "clamp": lambda x: x.clamp(-2, 4),
    "arange": lambda x: torch.arange(3, 90, 4, device=x.device), "abs": lambda x: x.abs().sum(0),
    "pad": lambda x: torch.nn.functional.pad(x, (2, 3), value=-1),
    "one hot": lambda x: torch.nn.functional.one_hot(x.abs(), 10).sum(0),
    "searchsorted": lambda x: torch.searchsorted(x.unique(), x),
    "repeat": lambda x: x.repeat_interleave(2, -1), "diff": lambda x: x.diff(),
}
for dtype in (torch.int64, torch.int32, torch.uint8):
    on_cpu = small.abs().to(dtype) if dtype == torch.uint8 else small.to(dtype)
    on_gpu = on_cpu.cuda()
    for name, case in cases.items():
        try:
            want = case(on_cpu)
        except RuntimeError:
            continue
        got = case(on_gpu).cpu()
        print("right" if torch.equal(want, got) else "wrong", dtype, name,
              "" if torch.equal(want, got) else (want.reshape(-1)[:9].tolist(),
                                                 got.reshape(-1)[:9].tolist()))
byte = torch.randint(0, 255, (8000,), dtype=torch.uint8)
print("bytes", torch.equal(byte.cuda().sort().values.cpu(), byte.sort().values))
"""

# A router's scores come from a product of matrices, which nobody computes; those of the last
# line are known. Then sorts that are too long to be interpreted.
ROUTED = """
import torch
scores = (torch.randn(4096, 64, device="cuda") @ torch.randn(64, 16, device="cuda")).softmax(-1)
weights, experts = scores.topk(2, dim=-1)
order, places = experts.reshape(-1).sort()
print("rows", torch.histc(order.int(), bins=16, min=0, max=15).cpu().tolist())
print("places", sorted(places.cpu().tolist()) == list(range(8192)))
best = scores.max(-1).indices, scores.bfloat16().argmax(-1), scores.half().min(-1).indices
print("best", [chosen.bincount(minlength=16).cpu().tolist() for chosen in best])
print("wide", scores.reshape(32, 2048).argmax(-1).cpu().tolist())  # as tokens of a vocabulary
known = torch.tensor([[1.0, 5.0, 3.0], [9.0, 2.0, 4.0]], device="cuda")
print("known best", known.max(-1).indices.cpu().tolist(), known.argmax(-1).cpu().tolist())
print("known", known.topk(2, dim=-1).indices.cpu().tolist())
torch.manual_seed(1)
for dtype in (torch.int64, torch.int32, torch.int16):
    for descending in (False, True):
        numbers = torch.randint(-30000, 30000, (20000,)).to(dtype)
        want = numbers.sort(descending=descending, stable=True)
        got = numbers.cuda().sort(descending=descending, stable=True)
        print("sorted", torch.equal(want.values, got.values.cpu()),
              torch.equal(want.indices, got.indices.cpu()))
"""

# Rows of 4 groups, two ways; the last product divides what it sums over.
GROUPED = """
import torch
a = torch.zeros(256, 128, dtype=torch.bfloat16, device="cuda")
b = torch.zeros(4, 64, 128, dtype=torch.bfloat16, device="cuda")
ends = torch.tensor([64, 64, 192, 256], dtype=torch.int32, device="cuda")
c = torch._grouped_mm(a, b.transpose(-2, -1), offs=ends)
torch._grouped_mm(a.t(), c, offs=ends)
torch.cuda.synchronize()
"""

PACKED = """
import torch
def ask(batch, length):
    places = torch.arange(length, device="cuda").unsqueeze(0).expand(batch, -1)
    steps = torch.diff(places, prepend=places[:, :1] - 1, dim=-1)
    return not ((steps != 1).cumsum(-1)[:, -1] == 0).all().item()
torch.cat(2 * [torch.arange(1 << 16, device="cuda").unsqueeze(0).expand(64, -1)], -1)
print("packed", ask(16, 1024), "packed", ask(4, 2048), "packed", ask(2, 64))
x = torch.ones(8, device="cuda")
for _ in range(101):
    for _ in range(400):
        x = x + x
    print("packed", ask(4, 2048), flush=True)
"""

# A model's initialisation takes more instructions than a process may interpret. What is known
# beside the outputs of kernels that are not computed stays known.
INITIALISED = """
import torch
for _ in range(40):
    torch.nn.init.normal_(torch.empty(768, 3072, device="cuda"))
    torch.nn.init.uniform_(torch.empty(512, 512, device="cuda"))
    torch.zeros(512, 512, dtype=torch.bfloat16, device="cuda")
weight = torch.randn(1024, 768, device="cuda")
places = (torch.arange(1024, device="cuda") + 0).unsqueeze(0)
table = torch.nn.functional.embedding(places, weight)   # large: not computed
torch.nn.functional.layer_norm(table, (768,))           # its means lie beside small tensors
places = places.expand(16, -1)
steps = torch.diff(places, prepend=places[:, :1] - 1, dim=-1)
print("packed", not ((steps != 1).cumsum(-1)[:, -1] == 0).all().item())
x = torch.arange(10000, device="cuda").flip(0)
values, order = torch.sort(x)
print("sorted", bool((values == x.flip(0)).all()), bool((order == x).all()))
x = torch.arange(10, device="cuda").float()
print("pairs", round(x.std().item(), 6), x.var(unbiased=False).item(), x.argmax().item())
"""

# An optimizer's kernel gets a list of tensors that is filled in part; what else stands in it are
# addresses of before, also of memory that belongs to the mask by now.
MASKED = """
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
torch.cuda.set_device(0)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(256) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(256, 256, bias=False) for _ in range(3))
        self.head = nn.Linear(256, 1000, bias=False)
    def forward(self, x, mask, labels):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return nn.functional.cross_entropy(self.head(x[mask]).float(), labels[mask])
model = nn.parallel.DistributedDataParallel(Model().cuda())
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for step in range(4):
    labels = torch.randint(0, 1000, (4, 201))
    labels[:, 150:] = -100
    labels = labels.pin_memory().cuda(non_blocking=True)[:, 1:]
    mask = labels != -100
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(torch.randn(4, 200, 256, device="cuda"), mask, labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    print("tokens", int(mask.sum()))
    optimizer.step()
    optimizer.zero_grad()
    print("tokens", int(mask.sum()), flush=True)
dist.destroy_process_group()
"""

# A kernel whose result is not computed and of which the name tells no size of an element.
SCATTERED = """
import torch
x = torch.randn(800, 256, device="cuda")
source = (x @ x[:64].T).argmax(-1) == 3      # not computed
target = torch.zeros(4, 200, dtype=torch.bool, device="cuda")
mask = torch.ones(4, 200, dtype=torch.bool, device="cuda")
print("behind", 0 < mask.data_ptr() - target.data_ptr() < 800 * 16)
target.masked_scatter_(mask, source)
print("kept", int(mask.sum()))
"""


# Each rank gathers what nobody has computed, means and deviations, with counts of its rows, which
# are known: by these it chooses rows of the gathered tensor.
SYNCED = """
import os, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
gather = torch.batch_norm_gather_stats_with_counts
def seen(x, mean, invstd, running_mean, running_var, momentum, eps, counts):
    rows = [int(count) for count in counts.cpu().tolist()]
    print("counts", dist.get_rank(), tuple(mean.shape), rows, flush=True)
    return gather(x, mean, invstd, running_mean, running_var, momentum, eps, counts)
torch.batch_norm_gather_stats_with_counts = seen
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 8, 3),
                      nn.BatchNorm2d(8)).cuda()
model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model))
for step in range(3):
    x = torch.randn(2 + dist.get_rank(), 3, 8, 8, device="cuda")
    model(x @ torch.zeros(8, 8, device="cuda")).sum().backward()
dist.destroy_process_group()
"""

# It takes the memory of a tensor that is known.
REVERSED = """
import torch
ones = torch.arange(1, 9, device="cuda")
ones.cpu()
del ones
scores = torch.randn(64, 64, device="cuda") @ torch.randn(64, 64, device="cuda")
print("reversed", torch.flip(scores[0, :8].long(), [0]).cpu().tolist())
"""

# An index that is not in the table: the kernel's assertion fails, which the program sees when it
# waits, and in all that it does then.
OUTSIDE = """
import sys, torch
table = torch.arange(40.0, device="cuda").reshape(10, 4)
scores = torch.randn(4, 64, device="cuda") @ torch.randn(64, 10, device="cuda")
ids = torch.tensor([1, 3, int(sys.argv[2]), 2], device="cuda")
calls = {
    "embedding": lambda: torch.nn.functional.embedding(ids, table),
    "index": lambda: table[ids], "gather": lambda: table.gather(0, ids[:, None]),
    "labels": lambda: torch.nn.functional.cross_entropy(scores, ids),  # which nobody computes
}
calls[sys.argv[1]]()
print("issued", flush=True)
try:
    torch.cuda.synchronize()
    print("in the table")
except Exception as error:
    print("failed:", str(error).splitlines()[0], flush=True)
    torch.ones(3, device="cuda")
"""


@pytorch.needs_pytorch
class Computed(unittest.TestCase):
    def run_program(self, gpu):
        finished = vrank.run("emulate", "--world-size", "1", "--real", "0", "--gpu", gpu, "--",
                             pytorch.PYTHON, "-c", PROGRAM)
        self.assertEqual(finished.returncode, 0, finished.stderr[-3000:])
        return finished.stderr

    def test_small_tensors_have_the_values_that_the_cpu_computes(self):
        for gpu in ("a100", "h100"):
            with self.subTest(gpu):
                output = self.run_program(gpu)
                self.assertIn("ones True", output)
                self.assertIn("mask False True", output)
                self.assertIn("bytes True", output)
                self.assertEqual(re.findall(r"^.* wrong .*$", output, re.MULTILINE), [])
                self.assertGreaterEqual(output.count(" right torch."), 128)

    # As Hugging Face's models ask in each forward pass: a concatenation has one grid, whatever
    # it copies, and the largest takes more instructions than a launch may.
    def test_sequences_are_not_packed_whatever_ran_before(self):
        finished = vrank.run("emulate", "--world-size", "1", "--real", "0", "--gpu", "h100", "--",
                             pytorch.PYTHON, "-c", PACKED)
        self.assertEqual(finished.returncode, 0, finished.stderr[-3000:])
        self.assertEqual(re.findall(r"packed (\w+)", finished.stderr), ["False"] * 104)

    def test_unknown_scores_send_as_many_rows_to_each_expert(self):
        run = pytorch.emulate(pytorch.PYTHON, "-c", ROUTED)
        self.assertIn(f"rows {[512] * 16}", run.stderr)
        self.assertIn("places True", run.stderr)
        self.assertIn(f"best {[[256] * 16] * 3}", run.stderr)
        self.assertIn(f"wide {[0] * 32}", run.stderr)
        self.assertIn("known [[1, 2], [0, 2]]", run.stderr)
        self.assertIn("known best [1, 0] [1, 0]", run.stderr)
        self.assertEqual(run.stderr.count("sorted True True"), 6)
        self.assertRegex(run.stdout, r"made_up_choices .*gatherTopK.* 8,192")

    def test_products_of_groups_have_the_flops_of_all_rows(self):
        result = json.loads(vrank.run(
            "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--quiet", "--",
            pytorch.PYTHON, "-c", GROUPED).stdout)
        products = 2 * (2 * 256 * 128 * 64)
        self.assertGreaterEqual(result["ranks"][0]["flops"], products)
        self.assertLess(result["ranks"][0]["flops"], 1.05 * products)

    def test_small_kernels_are_computed_whatever_large_ones_ran_before(self):
        for gpu in ("a100", "h200"):
            with self.subTest(gpu):
                finished = vrank.run("emulate", "--world-size", "1", "--real", "0", "--gpu", gpu,
                                     "--", pytorch.PYTHON, "-c", INITIALISED)
                self.assertEqual(finished.returncode, 0, finished.stderr[-3000:])
                self.assertIn("packed False", finished.stderr)
                self.assertIn("sorted True True", finished.stderr)
                self.assertIn("pairs 3.02765 8.25 9", finished.stderr)

    def test_a_mask_outlives_the_optimizers_step(self):
        finished = vrank.run("emulate", "--world-size", "8", "--real", "0", "--gpu", "h100", "--",
                             pytorch.PYTHON, "-c", MASKED)
        self.assertEqual(finished.returncode, 0, finished.stderr[-3000:])
        self.assertEqual(re.findall(r"tokens (\d+)", finished.stderr), ["596"] * 8)

    def test_what_ranks_know_of_a_gathered_tensor_stays_known(self):
        first, second = [2 * 36, 3 * 36, 4 * 36], [2 * 16, 3 * 16, 4 * 16]
        for real, counts in (("0-2", (first, second)),
                             ("1", ([first[1]] * 3, [second[1]] * 3))):
            with self.subTest(real):
                run = pytorch.emulate(pytorch.PYTHON, "-c", SYNCED, world_size=3, real=real)
                ranks = range(3) if real == "0-2" else [1]
                self.assertEqual(
                    sorted(re.findall(r"counts .*$", run.stderr, re.MULTILINE)),
                    sorted(f"counts {rank} {shape} {count}" for rank in ranks for _ in range(3)
                           for shape, count in zip(((3, 16), (3, 8)), counts)))
                self.assertNotRegex(run.stdout, r"(?m)^decided ")

    def test_an_index_outside_of_a_table_fails_as_on_a_gpu(self):
        for gpu in ("a100", "h100"):
            for call in ("embedding", "index", "gather", "labels"):
                with self.subTest(call, gpu=gpu):
                    def run(index, **options):
                        return vrank.run("emulate", "--gpu", gpu, "--", pytorch.PYTHON, "-c", OUTSIDE,
                                         call, index, **options)
                    self.assertIn("in the table", run("9").stderr)
                    failed = run("10", check=False)
                    self.assertNotEqual(failed.returncode, 0)
                    self.assertIn("issued", failed.stderr)
                    self.assertRegex(failed.stderr, r"\.cu:\d+: \S+: block: \[\d+,0,0\], "
                                     r"thread: \[\d+,0,0\] Assertion `.*` failed\.")
                    self.assertIn("failed: CUDA error: device-side assert triggered", failed.stderr)
                    self.assertIn("Error: CUDA error: device-side assert triggered", failed.stderr)
        early = vrank.run("emulate", "--gpu", "h100", "--", pytorch.PYTHON, "-c", OUTSIDE, "index",
                          "10", env=dict(os.environ, CUDA_LAUNCH_BLOCKING="1"), check=False)
        self.assertNotIn("issued", early.stderr)
        self.assertIn("device-side assert triggered", early.stderr)

    def test_a_reversed_tensor_that_was_not_computed_is_unknown_as_a_whole(self):
        # The kernel gets the address of the last element. What stood before it is old.
        for gpu in ("a100", "h100"):
            run = vrank.run("emulate", "--gpu", gpu, "--", pytorch.PYTHON, "-c", REVERSED)
            self.assertRegex(run.stdout, r"computed_bytes_to_host .*<flip_kernel_impl.* 64\n")
            self.assertIn("reversed [0, 0, 0, 0, 0, 0, 0, 0]", run.stderr)

    def test_what_stands_behind_a_result_of_unknown_size_is_kept(self):
        finished = vrank.run("emulate", "--world-size", "1", "--real", "0", "--gpu", "h100", "--",
                             pytorch.PYTHON, "-c", SCATTERED)
        self.assertIn("behind True", finished.stderr)
        self.assertIn("kept 800", finished.stderr)


if __name__ == "__main__":
    unittest.main()
