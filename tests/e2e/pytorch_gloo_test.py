"""Gloo groups of stock PyTorch whose other ranks are not real."""

import pathlib
import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

# init_process_group without a backend makes a Gloo group, too.
PROGRAM = """
import os
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.ones(1024, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
everybody = dist.new_group(backend="gloo")
gathered = [None] * size
dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank}, group=everybody)
print("gathered", *[each["rank"] for each in gathered])
dist.barrier(group=everybody)
dist.monitored_barrier(group=everybody)
number = torch.full((3,), float(rank + 1))
dist.broadcast(number, 0, group=everybody)
print("broadcast", *number.tolist())
ends = dist.new_group([0, size - 1], backend="gloo")
if rank in (0, size - 1):
    gathered = [None] * 2
    dist.all_gather_object(gathered, rank, group=ends)
    print("ends", *gathered)
dist.destroy_process_group()
"""


# Each of the connections ends after a turn of Gloo's loop.
ENDING = """
import time
import torch
import torch.distributed as dist
dist.init_process_group("cpu:gloo,cuda:nccl")
dist.all_reduce(torch.ones(1))
torch.ones(1, device="cuda")
began = time.perf_counter_ns()
dist.destroy_process_group()
print("took", time.perf_counter_ns() - began)
"""


# Both ways of saving. MODEL: with all parameters on each rank, or in shards.
CHECKPOINTS = """
import os
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cpu:gloo,cuda:nccl")
model = MODEL(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
parts = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
dcp.save(parts, checkpoint_id="at_once")
dcp.async_save(parts, checkpoint_id="later").result()
print("saved")
dist.destroy_process_group()
"""


@pytorch.needs_pytorch
class PytorchGlooTest(unittest.TestCase):

    def said(self, **options):
        """By rank, what it printed."""
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, PROGRAM), **options)
        said = {}
        for rank, line in re.findall(r"\[rank (\d+)\] (.*)", done.stderr):
            said.setdefault(int(rank), []).append(line)
        return said, done.stdout

    def test_one_real_rank(self):
        said, report = self.said(world_size=8, real=0)
        self.assertEqual(said, {0: ["gathered" + 8 * " 0", "broadcast 1.0 1.0 1.0", "ends 0 0"]})
        self.assertIn("gloo_mirrored_bytes", report)
        # What an absent root broadcasts is not known.
        said, report = self.said(world_size=8, real=5)
        self.assertEqual(said, {5: ["gathered" + 8 * " 5", "broadcast 0.0 0.0 0.0"]})
        self.assertIn("gloo_zero_bytes", report)

    def test_ending_a_group_takes_no_virtual_time(self):
        with vrank.scratch() as folder:
            program = pytorch.script(folder, ENDING)
            ends = []
            for _ in range(2):
                done = pytorch.emulate(*program, world_size=512, real=0)
                ends.append(int(re.search(r"took (\d+)", done.stderr)[1]))
        self.assertLess(ends[0], 5_000_000)
        self.assertEqual(ends[0], ends[1])

    # A mesh splits each backend's group.
    def test_groups_that_are_split_from_another(self):
        with vrank.scratch() as folder:
            done = vrank.run("emulate", "--world-size", 4, "--real", 0, "--layout", "tp=2,dp=2",
                             "--", *pytorch.script(folder, """
import os
import torch
import torch.distributed as dist
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
mesh = dist.init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
x = torch.ones(1, device=device)
dist.all_reduce(x, group=mesh["tp"].get_group())
print("sum", x.item())
dist.destroy_process_group()
"""))
        self.assertIn("[rank 0] sum 2.0", done.stderr)

    def test_a_limit_of_a_wait_for_a_key_is_pytorchs(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import datetime
import time
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
torch.ones(1, device="cuda")
begin = time.time()
try:
    dist.distributed_c10d._get_default_store().wait(["nobody"], datetime.timedelta(seconds=3))
except dist.DistStoreError:
    print("raised after", round(time.time() - begin), "s")
dist.destroy_process_group()
"""), world_size=2, real="0,1")
        self.assertEqual(done.stderr.count("raised after 3 s"), 2)

    def test_absent_ranks_between_real_ones(self):
        # Each absent rank contributes what the real one before it does.
        said, _ = self.said(world_size=8, real="1,2,5")
        gathered = "gathered 5 1 2 2 2 5 5 5"
        self.assertEqual(said, {rank: [gathered, "broadcast 0.0 0.0 0.0"] for rank in (1, 2, 5)})

    def test_a_real_root_reaches_real_ranks_behind_absent_ones(self):
        # The tree of four: 0 sends to 1 and 2, 1 to 3.
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
objects = [{"of": dist.get_rank()}, "x" * 3000 * dist.get_rank()]
for root in (0, 3):
    dist.broadcast_object_list(objects, root)
    print("root", root, objects[0]["of"], len(objects[1]))
print("on the GPU", torch.ones(3, device="cuda").numel())
dist.destroy_process_group()
"""), world_size=4, real="0,3")
        self.assertEqual(done.stderr.count("root 0 0 0"), 2)
        self.assertEqual(done.stderr.count("root 3 0 0"), 2)
        self.assertNotIn("gloo_zero_bytes", done.stdout)

    def test_zeros_are_named_before_they_end_the_job(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import torch.distributed as dist
dist.init_process_group("gloo")
dist.broadcast_object_list([None], 0)
"""), world_size=4, real="1", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("vrank: broadcast in a Gloo group of 4 ranks: rank 0 of the group is not "
                      "real", done.stderr)

    # A root copies its own part without a message, which is what an absent rank sends.
    def test_gathers(self):
        for real, gathered in (("0", [0, 0, 0, 0]), ("0,2", [0, 0, 2, 2]), ("2", None),
                               ("0-3", [0, 1, 2, 3])):
            with vrank.scratch() as folder:
                done = pytorch.emulate(*pytorch.script(folder, """
import torch, torch.distributed as dist
dist.init_process_group("cpu:gloo,cuda:nccl")
rank = dist.get_rank()
objects = [None] * 4 if rank == 0 else None
dist.gather_object({"rank": rank}, objects)
parts = [torch.zeros(3) for _ in range(4)] if rank == 0 else None
dist.gather(torch.full((3,), float(rank)), parts)
if rank == 0:
    print("gathered", [each["rank"] for each in objects], [int(each[2]) for each in parts])
print("on the GPU", torch.ones(3, device="cuda").numel())
dist.destroy_process_group()
"""), world_size=4, real=real)
            if gathered is not None:
                self.assertIn(f"gathered {gathered} {gathered}", done.stderr)
            self.assertNotIn("gloo_zero_bytes", done.stdout)
            self.assertEqual("gloo_mirrored_bytes" in done.stdout, real != "0-3")

    def checkpoint(self, model, ranks):
        with vrank.scratch() as folder:
            done = vrank.run("emulate", "--world-size", ranks, "--real", 0, "--",
                             *pytorch.script(folder, CHECKPOINTS.replace("MODEL", model)),
                             cwd=folder, check=False)
            saved = sorted(path.parent.name for path in pathlib.Path(folder).glob("*/.metadata"))
        return done, saved

    def test_checkpoints(self):
        for ranks in (4, 8):
            done, saved = self.checkpoint("DistributedDataParallel", ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("[rank 0] saved", done.stderr)
            self.assertEqual(saved, ["at_once", "later"])
            self.assertIn("gloo_mirrored_bytes", done.stdout)

    # Whose shards are all those of the real rank, which its plan is checked for.
    def test_a_checkpoint_of_shards_has_all_ranks_or_fails_after_the_iterations(self):
        done, saved = self.checkpoint("fully_shard", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("starting again with ranks 1-3 as real ranks", done.stderr)
        self.assertEqual(saved, ["at_once", "later"])
        done, saved = self.checkpoint("fully_shard", 32)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(saved, [])
        self.assertIn("Failed to validate global plan", done.stderr)
        self.assertIn("runs with all ranks real (--real 0-31)", done.stderr)
        self.assertIn("incomplete  the job did not get to its end", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^  2  ")

    def test_real_ranks_only(self):
        said, report = self.said(world_size=2, real="0,1")
        self.assertEqual(said[1], ["gathered 0 1", "broadcast 1.0 1.0 1.0", "ends 0 1"])
        self.assertNotIn("gloo_", report)

    def test_a_large_world(self):
        said, _ = self.said(world_size=256, real=17)
        self.assertEqual(said[17][0], "gathered" + 256 * " 17")


if __name__ == "__main__":
    unittest.main()
