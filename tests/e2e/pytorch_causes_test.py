"""Faults of PyTorch's ranks that hang on a cluster: each ends at once, with its cause."""

import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

START = """
import os
import torch
import torch.distributed as dist
rank, world, local = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
torch.cuda.set_device(local)
device = torch.device("cuda", local)
"""


@pytorch.needs_pytorch
class PytorchCausesTest(unittest.TestCase):

    def emulate(self, text, *flags, world=2, real="0-1"):
        with vrank.scratch() as folder:
            return vrank.run("emulate", "--world-size", world, "--real", real, "--gpu", "h100",
                             *flags, "--", *pytorch.script(folder, START + text), check=False,
                             timeout=300)

    def fails_with(self, done, *causes):
        self.assertEqual(done.returncode, 1, done.stderr)
        for cause in causes:
            self.assertIn(cause, done.stderr)

    def test_a_receive_without_a_send(self):
        """Its communicator is made through the store when both ends first use it."""
        done = self.emulate("""
dist.init_process_group("nccl")
x = torch.ones(8, device=device)
dist.all_reduce(x)
if rank == 1:
    dist.recv(x, 0)
dist.all_reduce(x)
torch.cuda.synchronize()
""")
        self.fails_with(done, "the job is stuck", "rank 1 waits at the store for key '",
                        "//cuda//0:1'", "set by rank 0 when it sends to rank 1",
                        "rank 0: host waits", "all_reduce #1")
        self.assertNotIn("something that vrank does not see", done.stderr)

    def test_new_group_with_each_ranks_own_members(self):
        """Whichever rank is first, the cause is the same."""
        for late in range(4):
            with self.subTest(late=late):
                done = self.emulate(f"""
import time
dist.init_process_group("nccl")
mine = [0, 3] if rank in (0, 3) else [1, 2]
if rank == {late}:
    time.sleep(2)
group = dist.new_group(mine)
dist.all_reduce(torch.ones(8, device=device), group=group)
dist.barrier()
""", world=4, real="0-3")
                self.fails_with(done, "every rank has to call new_group for every group",
                                "with the same members")

    def test_a_graph_that_outlives_its_process_group(self):
        text = """
dist.init_process_group("nccl", device_id=device)
x = torch.ones(1 << 20, device=device)
dist.all_reduce(x)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    dist.all_reduce(x)
graph.replay()
torch.cuda.synchronize()
%s
dist.destroy_process_group()
"""
        self.fails_with(self.emulate(text % ""), "never returns",
                        "in CUDA graphs that still exist", "`del graph`")
        done = self.emulate(text % "del graph")
        self.assertEqual(done.returncode, 0, done.stderr)

    MESH = """
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cuda", (%s), mesh_dim_names=(%s))
dist.all_reduce(torch.ones(8, device=device), group=mesh["tp"].get_group())
dist.all_reduce(torch.ones(8, device=device), group=mesh["dp"].get_group())
torch.cuda.synchronize()
dist.destroy_process_group()
"""

    def test_the_layout_is_held_against_groups_of_unique_ids(self):
        """One rank cannot tell tensor parallelism across nodes: a second one is added."""
        outermost = self.emulate(self.MESH % ("8, 2", '"tp", "dp"'), "--layout", "tp=8,dp=2",
                                 world=16, real="0")
        self.fails_with(outermost, "the layout tp=8,dp=2,order=tp-dp has no group of that size",
                        "correct --layout")
        innermost = self.emulate(self.MESH % ("2, 8", '"dp", "tp"'), "--layout", "tp=8,dp=2",
                                 world=16, real="0")
        self.assertEqual(innermost.returncode, 0, innermost.stderr)
        self.assertIn("starting again with rank", innermost.stderr)

    def test_a_group_that_names_its_members_needs_no_layout(self):
        done = self.emulate("""
dist.init_process_group("nccl", device_id=device)
group = dist.new_group(range(8))
if rank < 8:
    dist.all_reduce(torch.ones(8, device=device), group=group)
torch.cuda.synchronize()
dist.destroy_process_group()
""", world=8192, real="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("unchecked   faults on the 8,191 virtual ranks", done.stdout)


if __name__ == "__main__":
    unittest.main()
