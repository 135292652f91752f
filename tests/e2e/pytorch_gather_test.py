"""Gathers and scatters of stock PyTorch, which are sends and receives, with ranks that follow:
objects, tensors, torch.distributed.checkpoint."""

import pathlib
import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

# The range begins right where the GPU's context has been made.
PROGRAM = """
import os
import sys
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.cuda.nvtx.range_push("iteration")
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
objects = [None] * size if rank == 0 else None
dist.gather_object({"rank": rank}, objects)
own = torch.tensor([3 + rank], device="cuda")
tensors = [torch.zeros_like(own) for _ in range(size)] if rank == 0 else None
dist.gather(own, tensors)
if rank == 0:
    print("gathered", *[each["rank"] for each in objects], *[each.item() for each in tensors])
received = torch.zeros(4096, device="cuda")
dist.scatter(received, [torch.zeros(4096, device="cuda") for _ in range(size)]
             if rank == 0 else None)
if "objects" in sys.argv:
    received = [None]
    dist.scatter_object_list(received, [f"for {i}" for i in range(size)] if rank == 0 else None)
    print("scattered", received[0])
dist.all_reduce(torch.ones(1024, device="cuda"))
torch.cuda.synchronize()
torch.cuda.nvtx.range_pop()
dist.destroy_process_group()
"""

CHECKPOINT = """
import os
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint
from torch.distributed.fsdp import fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Linear(64, 64, device="cuda")
if sys.argv[1] == "sharded":
    fully_shard(model)
torch.distributed.checkpoint.save(model.state_dict(), checkpoint_id=sys.argv[2])
print("saved")
dist.destroy_process_group()
"""

OBJECTS = """
import os
import torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
objects = [{"from": dist.get_rank()}]
dist.broadcast_object_list(objects, src=0)
print("received", objects)
dist.destroy_process_group()
"""

FLAGS = ["--layout", "dp=4", "--gpu", "h100"]


@pytorch.needs_pytorch
class PytorchGatherTest(unittest.TestCase):

    def said(self, real, **options):
        """By rank, what it printed."""
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, PROGRAM), "objects", world_size=4,
                                   real=real, **options)
        said = {}
        for rank, line in re.findall(r"\[rank (\d+)\] (gathered .*|scattered .*)", done.stderr):
            said.setdefault(int(rank), []).append(line)
        return said

    def test_a_root_gets_its_own_part_from_ranks_that_follow(self):
        self.assertEqual(self.said(0), {0: ["gathered 0 0 0 0 3 3 3 3", "scattered for 0"]})
        self.assertEqual(self.said("0,2"), {
            0: ["gathered 0 0 2 0 3 3 5 3", "scattered for 0"], 2: ["scattered for 2"]})

    # Rank 1 leads the others, and rank 0 is nobody's leader: all is as with four real ranks.
    def test_times_are_those_of_real_ranks(self):
        with vrank.scratch() as folder:
            result = vrank.run_json("validate", "--ranks", 4, *FLAGS, "--real", "0,1", "--json", "--",
                                    *pytorch.script(folder, PROGRAM))
        case = result["cases"][0]
        for figures in (case, case["live"]):
            self.assertEqual([figures[what] for what in (
                "unmatched", "max_iteration_error_ns", "max_collective_error_ns",
                "peak_memory_error_bytes")], [0] * 4)

    def test_a_graph_of_two_ranks_is_that_of_all(self):
        tables = []
        with vrank.scratch() as folder:
            command = pytorch.script(folder, PROGRAM)
            for ranks in ("0,1", "each"):
                place = pathlib.Path(folder, ranks)
                vrank.run("trace", "--world-size", 4, *FLAGS, "--ranks", ranks, "-o", place, "--",
                          *command)
                vrank.run("build", place, "-o", place / "job.vgraph")
                for executor in ("sweep", "worklist", "folded"):
                    vrank.run("replay", place / "job.vgraph", "--executor", executor,
                              "--rank-table", place / "ranks.csv")
                    tables.append(pathlib.Path(place, "ranks.csv").read_text())
            refused = vrank.run("scale", pathlib.Path(folder, "0,1", "job.vgraph"), "--layout",
                                "dp=8", "-o", pathlib.Path(folder, "scaled.vgraph"), check=False)
        self.assertEqual(len(tables[0].splitlines()), 5)
        self.assertEqual(set(tables), {tables[0]})
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("gathers or scatters by sends and receives", refused.stderr)

    # What a root decides by what all ranks say of themselves, it knows from a recorded run.
    def test_checkpoints(self):
        with vrank.scratch() as folder:
            program = pytorch.script(folder, CHECKPOINT)

            def save(real, how, *flags):
                place = pathlib.Path(folder, f"{how}{real}")
                done = vrank.run("emulate", "--world-size", 4, *FLAGS, "--real", real, *flags,
                                 "--", *program, how, place)
                self.assertIn("saved", done.stderr)
                # What a recorded run has is no copy.
                self.assertEqual("\ncopied  " in done.stdout, not flags)
                return sorted(each.name for each in place.iterdir() if each.suffix)

            self.assertEqual(save("0", "replicated"), ["__0_0.distcp"])
            recorded = pathlib.Path(folder, "recorded")
            save("0-3", "sharded", "--record-payloads", recorded)
            for real in ("0", "2"):
                save(real, "sharded", "--recorded-payloads", recorded)

            # Without a recording, the job restarts with all ranks real.
            place = pathlib.Path(folder, "alone")
            done = vrank.run("emulate", "--world-size", 4, *FLAGS, "--real", 0, "--", *program,
                             "sharded", place)
            self.assertIn("starting again with ranks 1-3 as real ranks", done.stderr)
            self.assertNotIn("\ncopied  ", done.stdout)
            self.assertEqual(len([each for each in place.iterdir() if each.suffix]), 4)

    # Nobody knows what rank 0 would have sent but a run that had it.
    def test_an_object_of_a_rank_that_is_not_real(self):
        with vrank.scratch() as folder:
            command = pytorch.script(folder, OBJECTS)
            flags = ["emulate", "--world-size", 4, *FLAGS, "--real"]
            done = vrank.run(*flags, "3", "--", *command, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.splitlines()[-1],
                             r"rank 3 exited with 1; .* it had read \d+ bytes that vrank made up: "
                             r".*--recorded-payloads")
            recorded = pathlib.Path(folder, "recorded")
            vrank.run(*flags, "0,3", "--record-payloads", recorded, "--", *command)
            done = vrank.run(*flags, "3", "--recorded-payloads", recorded, "--", *command)
            self.assertIn("[rank 3] received [{'from': 0}]", done.stderr)


if __name__ == "__main__":
    unittest.main()
