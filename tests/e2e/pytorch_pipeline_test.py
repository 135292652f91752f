"""Pipelines of stock PyTorch, by sends and receives in batches and without."""

import json
import pathlib
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

# A pipeline that says nothing of its stages. "pairs": each exchanges with the next one first, as
# torch.distributed.pipelining does.
PIPELINE = """
import os
import sys
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
def move(*operations):
    for work in dist.batch_isend_irecv([dist.P2POp(*each) for each in operations]):
        work.wait()
weight, x = (torch.ones(1024, 1024, device="cuda") for _ in range(2))
if "pairs" in sys.argv and rank < size - 1:
    move((dist.isend, x, rank + 1), (dist.irecv, weight, rank + 1))
if "pairs" in sys.argv and rank > 0:
    move((dist.isend, x, rank - 1), (dist.irecv, weight, rank - 1))
for step in range(2):
    torch.cuda.nvtx.range_push("iteration")
    if rank > 0:
        move((dist.irecv, x, rank - 1))
    y = x @ weight
    if rank < size - 1:
        move((dist.isend, y, rank + 1))
        move((dist.irecv, y, rank + 1))
    y = y @ weight
    if rank > 0:
        move((dist.isend, y, rank - 1))
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
dist.destroy_process_group()
"""
# Two replicas of a pipeline. Up to 2.14 PyTorch makes a communicator for each two stages that
# exchange data, which no layout has.
REPLICAS = """
import os
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
stages = 4
replicas = size // stages
pipelines = [dist.new_group(list(range(first, size, replicas))) for first in range(replicas)]
pipeline, stage = pipelines[rank % replicas], rank // replicas
groups = [dist.new_group(list(range(first, first + replicas)))
          for first in range(0, size, replicas)]
weight, x = (torch.ones(1024, 1024, device="cuda") for _ in range(2))
for step in range(2):
    torch.cuda.nvtx.range_push("iteration")
    if stage > 0:
        dist.recv(x, group=pipeline, group_src=stage - 1)
    y = x @ weight
    if stage < stages - 1:
        dist.send(y, group=pipeline, group_dst=stage + 1)
        dist.recv(y, group=pipeline, group_src=stage + 1)
    y = y @ weight
    if stage > 0:
        dist.send(y, group=pipeline, group_dst=stage - 1)
    dist.all_reduce(y, group=groups[stage])
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
dist.destroy_process_group()
"""


@pytorch.needs_pytorch
class PytorchPipelineTest(unittest.TestCase):

    # No rank of one class can do what a stage does: the others become real, where they are few.
    def test_a_pipeline_of_one_class(self):
        with vrank.scratch() as folder:
            program = pytorch.script(folder, PIPELINE)
            flags = ["--gpu", "h100", "--json", "--real"]
            for how in ("plain", "pairs"):
                times = [json.loads(vrank.run("emulate", "--world-size", 4, *flags, real, "--",
                                              *program, how).stdout)["iteration_time_ns"]
                         for real in ("0-3", 0, 2)]
                self.assertEqual(times, [times[0]] * 3, how)
            many = vrank.run("emulate", "--world-size", 64, *flags, 0, "--", *program, check=False)
        self.assertEqual(many.returncode, 1)
        self.assertIn("rank 0: it sends to rank 1 alone, in a communicator of 64 ranks that follow it",
                      many.stderr)
        self.assertIn("state its stages (like --layout pp=4)", many.stderr)

    def test_a_rank_of_each_stage(self):
        with vrank.scratch() as folder:
            program = pytorch.script(folder, REPLICAS)

            def emulate(size, real):
                return json.loads(vrank.run(
                    "emulate", "--world-size", size, "--layout", f"dp={size // 4},pp=4,order=dp-pp",
                    "--gpu", "h100", "--real", real, "--json", "--", *program).stdout)

            runs = [emulate(8, real) for real in ("0-7", "0,2,4,6", "1,2,5,6")]
            # Of the third, two groups that the layout has not would explain the calls, too.
            self.assertEqual([len(run["ranks"]) for run in runs[:2]], [8, 4])
            self.assertEqual(runs[1]["iteration_time_ns"], runs[0]["iteration_time_ns"])
            for run in runs[1:]:
                self.assertEqual(run["iteration_time_ns"][1], runs[0]["iteration_time_ns"][1])
                by_rank = {rank["rank"]: rank for rank in runs[0]["ranks"]}
                for rank in run["ranks"]:
                    self.assertEqual(rank["peak_memory_bytes"],
                                     by_rank[rank["rank"]]["peak_memory_bytes"])
            many = emulate(64, "0,16,32,48")["iteration_time_ns"]
            slices, graph, scaled = (pathlib.Path(folder, name)
                                     for name in ("slices", "job.vgraph", "scaled.vgraph"))
            vrank.run("trace", "--world-size", 8, "--layout", "dp=2,pp=4,order=dp-pp", "--gpu",
                      "h100", "-o", slices, "--", *program)
            vrank.run("build", slices, "-o", graph)
            vrank.run("scale", graph, "--layout", "dp=16,pp=4,order=dp-pp", "-o", scaled)
            for file, expected in ((graph, runs[0]["iteration_time_ns"]), (scaled, many)):
                times = json.loads(vrank.run("replay", file, "--json").stdout)["iteration_time_ns"]
                self.assertEqual(times[1], expected[1])


if __name__ == "__main__":
    unittest.main()
