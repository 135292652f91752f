"""The newest PyTorch release that the tests hold, installed by scripts/setup --pytorch=newest:
what it loads, and what it does otherwise than the oldest."""

import json
import pathlib
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

SMALL = ["--layers", "2", "--hidden", "64", "--heads", "2", "--vocabulary", "128",
         "--sequence", "64", "--iterations", "2"]
STEP = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(200)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
other = torch.optim.SGD(model.parameters(), momentum=0.9, foreach=True)
for _ in range(2):
    x = torch.nn.functional.silu(model(torch.randn(32, 64, device="cuda")))
    torch.nn.functional.layer_norm(x[:, :63].contiguous(), (63,)).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    other.step()
torch.cuda.synchronize()
"""
LISTS = """
import os
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mine = torch.tensor([dist.get_rank() + 53], device="cuda")
listed = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(listed, mine)
print("gathered", [each.item() for each in listed])
copies = [torch.zeros(2, dtype=torch.int64, device="cuda"), torch.zeros(1, device="cuda")]
torch._foreach_copy_(copies, [torch.tensor([3, 4]).cuda(), torch.tensor([1.5]).cuda()])
print("copied", [each.tolist() for each in copies])
dist.destroy_process_group()
"""
# From 2.15 on a stream with a priority is not of PyTorch's pool: its number is its handle.
STREAMS = """
import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.ones(1024, device="cuda")
for stream in [torch.cuda.Stream(priority=-1) for _ in range(20)] + [torch.cuda.Stream()]:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        dist.all_reduce(x)
    torch.cuda.current_stream().wait_stream(stream)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)]).cuda()
for layer in model:
    fully_shard(layer)
fully_shard(model)
inputs = torch.ones(8, 64, device="cuda")
captures = torch.cuda.Stream()
with torch.cuda.stream(captures):
    for _ in range(2):
        model(inputs).sum().backward()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=captures, capture_error_mode="thread_local"):
    model(inputs).sum().backward()
for step in range(3):
    with torch.cuda.nvtx.range("iteration"):
        graph.replay()
        torch.cuda.synchronize()
del graph
dist.destroy_process_group()
"""
# No destroy_process_group: the exit handlers of PyTorch's libraries wait for the GPU.
ENDS = """
import os
import sys
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.nn.Linear(64, 64).cuda()(torch.ones(8, 64, device="cuda"))
dist.all_reduce(x)
if len(sys.argv) > 1:
    raise RuntimeError("the data is not there")
print("ended")
"""
# The root copies its own part among the received ones behind the receives.
OBJECTS = """
import os
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(2):
    objects = [None] * size if rank == 0 else None
    dist.gather_object({"rank": rank, "step": step}, objects)
    print("objects", objects)
own = torch.tensor([3 + rank], device="cuda")
tensors = [torch.zeros_like(own) for _ in range(size)] if rank == 0 else None
dist.gather(own, tensors)
if rank == 0:
    print("total", torch.stack(tensors).sum().item())
model = torch.nn.Linear(64, 64, device="cuda")
torch.distributed.checkpoint.save(model.state_dict(), checkpoint_id=sys.argv[1])
print("saved")
dist.destroy_process_group()
"""
# Lists of tensors are parameters of 32 KiB. One gradient is infinite in step 1: its step is left
# out, and the scale is halved.
SCALES = """
import torch
weight = torch.ones(8, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.5)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=100)
for step in range(3):
    factor = torch.ones(8, device="cuda")
    if step == 1:
        factor[3] = float("inf")
    optimizer.zero_grad()
    scaler.scale((weight * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    print("step", step, scaler.get_scale(), weight.tolist()[:2])
norm = torch._foreach_norm([torch.full((9,), 2.0, device="cuda")])[0].item()
print("norm", norm)
"""


# Two replicas of a pipeline whose stages send each other what shapes their tensors have.
PIPELINE = """
import os
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size() // 4, 4), mesh_dim_names=("dp", "pp"))
index = mesh.get_local_rank("pp")
model = torch.nn.Linear(64, 64, device=device)
for Schedule in (ScheduleGPipe, Schedule1F1B):
    stage = PipelineStage(model, index, 4, device, group=mesh.get_group("pp"))
    schedule = Schedule(stage, 4, loss_fn=lambda y, target: (y - target).square().mean())
    for step in range(2):
        with torch.cuda.nvtx.range("iteration"):
            x = torch.ones(32, 64, device=device)
            schedule.step(*([x] if index == 0 else []), **({"target": x} if index == 3 else {}))
            dist.all_reduce(model.weight.grad, group=mesh.get_group("dp"))
            torch.cuda.synchronize()
dist.destroy_process_group()
"""


def of_rank_0(output):
    return [line.removeprefix("[rank 0] ") for line in output.splitlines()
            if line.startswith("[rank 0] ")]


@pytorch.needs_newest
class NewestPytorchTest(unittest.TestCase):

    def validated(self, name, ranks):
        validated = json.loads(vrank.run(
            "validate", "--ranks", ranks, "--real", 0, "--gpu", "h100", "--json", "--quiet",
            "--", *pytorch.example(name, *SMALL, python=pytorch.NEWEST)).stdout)
        case = validated["cases"][0]
        self.assertGreater(case["collectives"], 0)
        self.assertEqual((case["max_iteration_error_ns"], case["max_collective_error_ns"],
                          case["peak_memory_error_bytes"]), (0, 0, 0))

    # Attention goes to cuDNN's graph API, whose version PyTorch compares with its own.
    def test_one_gpu(self):
        run = pytorch.emulate(*pytorch.example("single.py", *SMALL, python=pytorch.NEWEST))
        self.assertIn("step 1 loss", run.stderr)
        self.assertNotIn("is not modelled", run.stderr)

    # Kernels' names and parameters differ from release to release: norms over a list, a fused
    # optimizer, kernels with a vector's width.
    def test_no_kernel_of_a_step_has_an_assumed_time(self):
        result = json.loads(vrank.run(
            "emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--quiet",
            "--", pytorch.NEWEST, "-c", STEP).stdout)
        self.assertGreater(len(result["kernels"]), 10)
        self.assertEqual([kernel["name"] for kernel in result["kernels"]
                          if kernel["source"] == "assumed"], [])

    def test_kernels_over_lists_are_computed(self):
        with vrank.scratch() as folder:
            printed = of_rank_0(pytorch.emulate(
                *pytorch.script(folder, SCALES, pytorch.NEWEST)).stderr)
        self.assertEqual([line for line in printed if line.startswith(("step", "norm"))],
                         ["step 0 1024.0 [0.5, 0.5]", "step 1 512.0 [0.5, 0.5]",
                          "step 2 512.0 [0.0, 0.0]", "norm 6.0"])

    def test_a_program_ends_that_leaves_its_group_alone(self):
        with vrank.scratch() as folder:
            program = pytorch.script(folder, ENDS, pytorch.NEWEST)
            run = pytorch.emulate(*program, world_size=8, real="0,1", timeout=100)
            self.assertIn("ended", of_rank_0(run.stderr))
            failed = pytorch.emulate(*program, "fail", world_size=8, real="0,1", timeout=100,
                                     check=False)
            self.assertEqual(failed.returncode, 1)
            self.assertIn("the data is not there", failed.stderr)
            self.assertIn("exited with 1", failed.stderr)

    def test_a_root_gets_its_own_part_from_ranks_that_follow(self):
        with vrank.scratch() as folder:
            for size in (2, 4):
                place = pathlib.Path(folder, f"checkpoint{size}")
                run = pytorch.emulate(*pytorch.script(folder, OBJECTS, pytorch.NEWEST), place,
                                      world_size=size)
                self.assertRegex(run.stdout, r"\ncopied +\d+ objects that real ranks gathered")
                printed = of_rank_0(run.stderr)
                for step in range(2):
                    self.assertIn(f"objects {[{'rank': 0, 'step': step}] * size}", printed)
                if size > 2:  # of two, one received part does not tell where the own one is
                    self.assertIn(f"total {3 * size}", printed)
                self.assertIn("saved", printed)
                self.assertTrue(any(place.glob("*.distcp")))

    # What torchtitan does by default, from 0.3 on.
    def test_collectives_are_on_streams_with_a_priority(self):
        with vrank.scratch() as folder:
            program = pytorch.script(folder, STREAMS, pytorch.NEWEST)
            result = json.loads(vrank.run(
                "emulate", "--world-size", 4, "--real", 0, "--gpu", "h100", "--json", "--quiet",
                "--", *program).stdout)
            self.assertEqual(len(result["iteration_time_ns"]), 3)

    # Rank 4 becomes real, to distinguish the two pipelines. It receives from virtual rank 5 the
    # object that rank 1, which rank 5 follows, sends to rank 0. A trace of one pipeline alone adds
    # the ranks whose objects the learning ranks read.
    def test_stages_that_send_objects(self):
        with vrank.scratch() as folder:
            program = pytorch.script(folder, PIPELINE, pytorch.NEWEST)
            runs = [json.loads(vrank.run(
                "emulate", "--world-size", 8, "--layout", "pp=4,dp=2,order=pp-dp", "--real", real,
                "--gpu", "h100", "--json", "--", *program).stdout) for real in ("0-3", "0-7")]
            slices, graph = pathlib.Path(folder, "slices"), pathlib.Path(folder, "job.vgraph")
            vrank.run("trace", "--world-size", 8, "--layout", "pp=4,dp=2,order=pp-dp", "--gpu",
                      "h100", "--ranks", "0-3", "--together", 4, "-o", slices, "--", *program)
            vrank.run("build", slices, "-o", graph)
            replayed = json.loads(vrank.run("replay", graph, "--json").stdout)
        self.assertEqual(replayed["iteration_time_ns"][1:], runs[1]["iteration_time_ns"][1:])
        self.assertLess(len(runs[0]["ranks"]), len(runs[1]["ranks"]))
        self.assertEqual(len(runs[1]["iteration_time_ns"]), 4)
        self.assertEqual(runs[0]["iteration_time_ns"], runs[1]["iteration_time_ns"])
        self.assertEqual([run["copied_objects"] for run in runs], [0, 0])

    # Its exit handlers wait for the GPU, too, where a tracer listens.
    def test_a_job_is_traced(self):
        with vrank.scratch() as folder:
            for program in (pytorch.script(folder, ENDS, pytorch.NEWEST),
                            pytorch.example("ddp.py", *SMALL, python=pytorch.NEWEST)):
                slices = pathlib.Path(folder, program[1].stem)
                graph = pathlib.Path(folder, "job.vgraph")
                vrank.run("trace", "--world-size", 4, "--ranks", 0, "--gpu", "h100", "--quiet",
                          "-o", slices, "--", *program)
                vrank.run("build", slices, "-o", graph)
                replayed = json.loads(vrank.run("replay", graph, "--json").stdout)
                self.assertEqual(replayed["world_size"], 4)
                graph.unlink()

    def test_ddp(self):
        self.validated("ddp.py", 2)

    def test_fsdp(self):
        self.validated("fsdp.py", 2)

    # One unique id per 128 ranks, of which one real rank makes one: the store speaks for
    # the others.
    def test_a_world_with_several_roots(self):
        run = pytorch.emulate(*pytorch.example("ddp.py", *SMALL, python=pytorch.NEWEST),
                              world_size=256)
        self.assertIn("step 1 loss", run.stderr)

    def test_lists_are_copied(self):
        with vrank.scratch() as folder:
            printed = of_rank_0(pytorch.emulate(
                *pytorch.script(folder, LISTS, pytorch.NEWEST), world_size=2,
                real="0-1").stderr)
        self.assertIn("gathered [53, 54]", printed)
        self.assertIn("copied [[3, 4], [1.5]]", printed)


if __name__ == "__main__":
    unittest.main()
