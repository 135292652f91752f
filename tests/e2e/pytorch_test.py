"""Stock PyTorch, as pip installs it, on a virtual GPU."""

import json
import os
import pathlib
import re
import subprocess
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank


@pytorch.needs_pytorch
class PytorchTest(unittest.TestCase):

    def output(self, text, **options):
        with vrank.scratch() as folder:
            return pytorch.emulate(*pytorch.script(folder, text), **options).stderr

    def test_sees_the_gpu(self):
        # A process sees all GPUs of its node.
        self.assertIn("True 8 NVIDIA H100 80GB HBM3 (9, 0)", self.output("""
import torch
print(torch.cuda.is_available(), torch.cuda.device_count(),
      torch.cuda.get_device_name(), torch.cuda.get_device_capability())
torch.ones(1, device="cuda")
"""))

    def test_copies_bytes_exactly(self):
        self.assertIn("same True", self.output("""
import torch
there = torch.arange(1 << 16).cuda()
print("same", torch.equal(there.cpu(), torch.arange(1 << 16)))
"""))

    def test_allocator_counts_as_on_a_gpu(self):
        # Blocks of 512 bytes in a segment of 2 MiB; above 1 MiB segments take 20 MiB.
        self.assertIn("1024 2097152 1050112 23068672", self.output("""
import torch
from torch.cuda import memory_allocated, memory_reserved
x = torch.empty(513, dtype=torch.uint8, device="cuda")
small = memory_allocated(), memory_reserved()
y = torch.empty((1 << 20) + 1, dtype=torch.uint8, device="cuda")
print(*small, memory_allocated(), memory_reserved())
"""))

    def test_out_of_memory_is_pytorchs_own_error(self):
        self.assertIn("OutOfMemoryError then 1024", self.output("""
import torch
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    assert "Tried to allocate 1024.00 GiB" in str(error), error
    print(type(error).__name__, "then", torch.ones(1024, device="cuda").numel())
"""))

    # Both dimensions have two ranks, and rank 0 is first along both. Without a device_id, a
    # group is made from a unique id when it is first used.
    def test_groups_without_a_device_id(self):
        with vrank.scratch() as folder:
            run = vrank.run("validate", "--ranks", 4, "--layout", "tp=2,dp=2", "--real", 0,
                            "--json", "--gpu", "h100", "--", *pytorch.script(folder, """
import os
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
x = torch.ones(1 << 20, device="cuda")
for step in range(2):
    with torch.cuda.nvtx.range("iteration"):
        dist.all_reduce(x, group=mesh["dp"].get_group())
        dist.all_reduce(x[:1024], group=mesh["tp"].get_group())
        torch.cuda.synchronize()
dist.destroy_process_group()
"""), check=False)
        self.assertIn("starting again with rank 1 as a real rank", run.stderr)
        case = json.loads(run.stdout)["cases"][0]
        self.assertEqual(case["max_iteration_error_ns"], 0)
        self.assertEqual(case["max_collective_error_ns"], 0)
        self.assertEqual(case["collectives"], 16)
        self.assertLess(case["live"]["max_iteration_error_ns"], 1000)

    def test_is_traced_and_replayed(self):
        model = ["--layers", 2, "--hidden", 64, "--heads", 2, "--vocabulary", 128,
                 "--sequence", 64]
        job = ["--world-size", 4, "--layout", "dp=4", "--gpu", "h100"]
        with vrank.scratch() as folder:
            slices, graph = pathlib.Path(folder, "slices"), pathlib.Path(folder, "job.vgraph")
            program = pytorch.example("ddp.py", *model)
            vrank.run("trace", *job, "--ranks", 0, "-o", slices, "--", *program)
            vrank.run("build", slices, "-o", graph)
            replayed = vrank.run_json("replay", graph, "--json")
            live = vrank.run_json("emulate", *job, "--real", 0, "--json", "--", *program)
        self.assertEqual(replayed["iteration_time_ns"], live["iteration_time_ns"])
        self.assertEqual(replayed["classes"][0]["peak_memory_bytes"],
                         live["memory"]["peak_bytes"])

    # The sizes of objects that are sent go through torch.cat.
    def test_concatenates_bytes(self):
        printed = [line for line in self.output("""
import torch
a, b = torch.tensor([1]).cuda(), torch.tensor([5, 6, 7]).cuda()
two = torch.tensor([1, 2]).cuda()
print(torch.cat([two]).tolist())
print(torch.cat([b]).tolist())
print(torch.cat([a, b, a]).tolist())
print(torch.cat([torch.arange(4).reshape(2, 2).cuda(), torch.tensor([[9, 8]]).cuda()]).tolist())
print(torch.cat([torch.tensor([1.5]).cuda(), torch.zeros(2).cuda()]).tolist())
small = torch.tensor([3, 4, 5], dtype=torch.uint8).cuda()
print(torch.cat([small, two.cpu().byte().cuda()]).tolist())
# Along another dimension nothing is computed, and nothing else is lost.
torch.cat([torch.ones(2, 2).cuda(), torch.ones(2, 1).cuda()], dim=1)
print(two.tolist(), b.tolist())
""").splitlines() if line.startswith("[rank 0] ")]
        self.assertEqual(printed, [f"[rank 0] {line}" for line in (
            "[1, 2]", "[5, 6, 7]", "[1, 5, 6, 7, 1]", "[[0, 1], [2, 3], [9, 8]]",
            "[1.5, 0.0, 0.0]", "[3, 4, 5, 1, 2]", "[1, 2] [5, 6, 7]")])

    # The receiver of objects adds their sizes up.
    def test_reduces_integers(self):
        printed = [line for line in self.output("""
import torch
a, behind = torch.tensor([[3, 1, 2], [30, 10, -20]]).cuda(), torch.tensor([5]).cuda()
print(a.sum().item(), a.sum(1).tolist(), a.sum(0).tolist(), a.t().sum(1).tolist())
print(a.max().item(), a.amin(1).tolist(), torch.arange(1000).cuda().sum().item())
b = torch.tensor([200, 100], dtype=torch.uint8).cuda()
print(b.sum(dtype=torch.uint8).item(), b.max().item())
yes = torch.tensor([True, False]).cuda()
print(yes.any().item(), yes.all().item())
print((a + 4).tolist(), (10 - behind).item(), (behind + behind).item())
# Sums of a type that is cast first, as most are.
same = torch.tensor([[3, 0, 2], [30, 10, 5]]).cuda()
print((a == same).sum().item(), (a == same).sum(1).tolist(), (a != same).sum().item())
print(a.int().sum().item(), b.sum().item(), yes.sum().item(), a.bool().all().item())
# A sum of floats has the order of its kernel; where nothing is computed, nothing else is lost.
x = torch.tensor([1.5, 2.5]).cuda()
y = torch.tensor([7]).cuda()
x.sum(), x.var(), x.norm(), a.argmax(), torch.aminmax(x), x.mean()
print(x.tolist(), y.tolist(), behind.tolist(), x.sum().item())
""").splitlines() if line.startswith("[rank 0] ")]
        self.assertEqual(printed, [f"[rank 0] {line}" for line in (
            "26 [6, 20] [33, 11, -18] [33, 11, -18]", "30 [1, -20] 499500", "44 200",
            "True False", "[[7, 5, 6], [34, 14, -16]] 5 10", "4 [2, 2] 2", "26 300 1 True",
            "[1.5, 2.5] [7] [5] 4.0")])

    def test_expandable_segments(self):
        # Grown by 20 MiB at a time.
        self.assertIn("41943040 0 True", self.output("""
import os
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
import torch
x = torch.empty(23 << 20, dtype=torch.uint8, device="cuda")
x.copy_(torch.full_like(x, 7, device="cpu"))
grown, same = torch.cuda.memory_reserved(), bool((x.cpu() == 7).all())
del x
torch.cuda.empty_cache()
print(grown, torch.cuda.memory_reserved(), same)
"""))

    def test_trains_a_gpt(self):
        report = vrank.run_json(
            "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--",
            *pytorch.example("single.py", "--checkpoint"))
        times = report["iteration_time_ns"]
        self.assertEqual(len(times), 3)
        self.assertEqual(times[1], times[2])
        self.assertGreater(times[0], times[1])
        # Structures by value: their layout is read from the machine code.
        self.assertNotIn("kernel_arguments_unknown",
                         [loss["name"] for loss in report["losses"]])

    def test_a_kernel_writes_only_what_its_structures_point_to(self):
        # An addition with strides takes its pointers in a structure; what was copied to
        # the GPU before is still there afterwards.
        self.assertIn("kept 21", self.output("""
import torch
mine = torch.arange(7).cuda()
other = torch.empty(64, 64, device="cuda")
other.t().add_(torch.empty(64, device="cuda"))
print("kept", mine.cpu().sum().item())
"""))

    def test_flops_are_those_of_the_model(self):
        # Forward and twice that backward, and the blocks' forward once more (checkpoint) but
        # for the last multiply, whose result nobody needs. A multiply of t tokens with an m x
        # n weight is 2 t m n; causal attention has two of half that size per head forward,
        # five backward.
        layers, hidden, vocabulary, sequence, batch, iterations = 2, 1024, 8192, 1024, 4, 2
        tokens = batch * sequence
        block = 24 * tokens * hidden**2
        last = 8 * tokens * hidden**2
        attention = 2 * batch * sequence**2 * hidden
        head = 2 * tokens * hidden * vocabulary
        expected = iterations * (layers * (4 * block - last + (2 + 2.5) * attention) + 3 * head)
        report = vrank.run_json(
            "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--",
            *pytorch.example("single.py", "--checkpoint", "--layers", layers, "--hidden",
                             hidden, "--vocabulary", vocabulary, "--sequence", sequence,
                             "--batch", batch, "--iterations", iterations))
        self.assertAlmostEqual(report["ranks"][0]["flops"] / expected, 1, delta=0.01)
        total = sum(row["time_ns"] for row in report["kernels"])
        assumed = sum(row["time_ns"] for row in report["kernels"]
                      if row["source"] == "assumed")
        self.assertLess(assumed / total, 0.02)

    def test_kernels_are_priced_by_what_their_arguments_say(self):
        # Operands and element size, per kernel: an addition of 2^22 elements.
        program = """
import torch
for kind in torch.bfloat16, torch.float32:
    x = torch.empty(1 << 22, dtype=kind, device="cuda")
    torch.add(x, x, out=x)
"""
        with vrank.scratch() as folder:
            report = vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                "--", *pytorch.script(folder, program))
        times = {row["name"].split("<")[1].split(",")[0]: row for row in report["kernels"]}
        self.assertEqual({row["source"] for row in times.values()}, {"modelled"})
        overhead = 2200 + 1000  # data/gpus: kernel_overhead_ns, memory_ramp_ns
        halves = times["8"]["time_ns"] - overhead, times["4"]["time_ns"] - overhead
        self.assertAlmostEqual(halves[1] / halves[0], 2, places=3)

    def test_kernels_of_several_types_are_priced_by_their_operands(self):
        program = """
import torch
half, single, yes, long = (torch.empty(1 << 12, 1 << 12, dtype=kind, device="cuda") for kind in (
    torch.bfloat16, torch.float32, torch.bool, torch.int64))
single.to(torch.bool)
yes.to(torch.int64)
half + single
torch.lt(half, single)
torch.add(long, 1.5)
torch.addcdiv(single, half, single)
half.t() + single
half.t() * single
torch.empty_like(single).copy_(half.t())
"""
        # Bytes per element that each of them reads and writes.
        expected = [4 + 1, 1 + 8, 2 + 4 + 4, 2 + 4 + 1, 8 + 4, 4 + 2 + 4 + 4,
                    2 + 4 + 4, 2 + 4 + 4, 2 + 4]
        # On a GPU that issues instructions in no time, so that times say bytes.
        h100 = (vrank.ROOT / "data" / "gpus" / "h100-sxm5-80gb.textproto").read_text()
        with vrank.scratch() as folder:
            gpu = pathlib.Path(folder) / "fast_issue.textproto"
            gpu.write_text(re.sub("(?m)^alias.*$", "", h100).replace(
                "clock_khz: 1980000 ", "clock_khz: 1980000000 "))
            report = vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", gpu, "--json",
                "--", *pytorch.script(folder, program))
        self.assertEqual({row["source"] for row in report["kernels"]}, {"modelled"})
        overhead, bytes_per_ns = 2200 + 1000, 3352.3 * 0.91  # data/gpus
        self.assertEqual(sorted(round((row["time_ns"] - overhead) * bytes_per_ns / 2 ** 24, 1)
                                for row in report["kernels"]), sorted(expected))

    def test_triton_kernels_are_launched(self):
        if subprocess.run([pytorch.PYTHON, "-c", "import triton"], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("the triton package is not there")
        program = """
import torch, triton, triton.language as tl
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
x = torch.ones(5000, device="cuda")
out = torch.zeros(5000, device="cuda")
add[(5,)](x, x, out, 5000, BLOCK=1024)
print("first", out[0].item())
"""
        with vrank.scratch() as folder:
            report = vrank.run_json(
                "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--",
                *pytorch.script(folder, program),
                env=dict(os.environ, TRITON_CACHE_DIR=f"{folder}/cache"))
        self.assertEqual([row["count"] for row in report["kernels"]
                          if row["name"] == "add"], [1])
        # What it wrote is known to be computed.
        self.assertIn(("computed_bytes_to_host", "add"),
                      [(row["name"], row["subject"]) for row in report["losses"]])

    def test_small_numbers_are_compared_and_filled(self):
        self.assertIn("True False [7, 7] 9", self.output("""
import torch
a, b = torch.LongTensor([3]).cuda(), torch.LongTensor([5]).cuda()
numbers = torch.LongTensor([4, 9, 6]).cuda()
print(bool(b > a), bool(a == b), torch.full((2,), 7, device="cuda").tolist(),
      max(number.unsqueeze(0) for number in numbers).item())
"""))

    def test_a_refused_call_names_itself(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import torch
torch.fft.fft(torch.ones(8, device="cuda"))
"""), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("libcufft.so.12: cufftCreate is not modelled", done.stderr)
        self.assertIn("Traceback", done.stderr)

@pytorch.needs_pytorch
class ManyRanksTest(unittest.TestCase):

    SMALL = ["--layers", "2", "--hidden", "128", "--heads", "4", "--vocabulary", "512",
             "--sequence", "128"]

    def report(self, world_size, real, *command):
        separator = [] if "--" in command else ["--"]
        return vrank.run_json("emulate", "--world-size", world_size, "--real", real,
                              "--gpu", "h100", "--json", *separator, *command)

    def test_ddp_is_the_same_with_one_real_rank_as_with_all(self):
        vrank.run("validate", "--ranks", 4, "--real", "0", "--real", "2", "--gpu", "h100",
                  "--", *pytorch.example("ddp.py", *self.SMALL))

    def test_forms_of_parallelism_are_the_same_with_one_real_rank_as_with_all(self):
        # Among them those whose ranks differ: stages, shares of a sequence, of experts. The
        # others play what the full run recorded: following live, they would do what the
        # real one does, which is not theirs to do.
        for name, dimension in (("cp", "cp"), ("pp", "pp"), ("moe", "ep")):
            with self.subTest(name):
                done = vrank.run(
                    "validate", "--ranks", 2, "--real", 0, "--layout", f"{dimension}=2",
                    "--gpu", "h100", "--json", "--",
                    *pytorch.example(f"{name}.py", f"--{dimension}", 2, *self.SMALL),
                    check=False)
                case = json.loads(done.stdout)["cases"][0]
                self.assertGreater(case["collectives"] + case["transfers"], 20)
                self.assertEqual(
                    [case[what] for what in
                     ("unmatched", "max_iteration_error_ns", "max_collective_error_ns",
                      "peak_memory_error_bytes")], [0, 0, 0, 0])

    def test_objects_of_different_sizes_are_gathered(self):
        # Each rank compares the sizes on its GPU to find the largest.
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
gathered = [None] * dist.get_world_size()
dist.all_gather_object(gathered, "x" * 100 * dist.get_rank())
print([len(text) for text in gathered])
dist.destroy_process_group()
"""), world_size=3, real="0-2")
        self.assertEqual(done.stderr.count("[0, 100, 200]"), 3)

    def test_objects_are_sent_and_broadcast(self):
        # Who receives them adds their sizes up on its GPU.
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mine = [[1, "two"], {"three": (3, 4)}] if dist.get_rank() == 0 else [None, None]
dist.broadcast_object_list(mine, 0)
print("broadcast", mine)
if dist.get_rank() == 0:
    dist.send_object_list(["x" * 300, None], dst=1)
else:
    got = [None, None]
    dist.recv_object_list(got, src=0)
    print("received", len(got[0]), got[1])
dist.destroy_process_group()
"""), world_size=2, real="0-1")
        self.assertEqual(done.stderr.count("broadcast [[1, 'two'], {'three': (3, 4)}]"), 2)
        self.assertIn("received 300 None", done.stderr)

    def test_two_runs_are_equal(self):
        # Python's threads wait for the interpreter's lock as often as it happens.
        runs = [self.report(8, 0, "--layout", "tp=2,dp=4", "--",
                            *pytorch.example("tp.py", *self.SMALL)) for _ in range(2)]
        self.assertEqual(*runs)

    def test_one_real_rank_that_is_not_the_first(self):
        # Rank 5 waits for the id that rank 0 would have made.
        report = self.report(8, 5, *pytorch.example("ddp.py", *self.SMALL))
        self.assertEqual(len(report["iteration_time_ns"]), 3)

    def test_fsdp_in_a_large_world(self):
        # More than 128 ranks: NCCL's ids come from several roots.
        for world_size, real in ((1024, 0), (1024, 130)):
            report = self.report(world_size, real,
                                 *pytorch.example("fsdp.py", *self.SMALL))
            self.assertEqual(len(report["iteration_time_ns"]), 3)


if __name__ == "__main__":
    unittest.main()
