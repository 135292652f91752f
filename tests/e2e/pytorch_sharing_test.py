"""Memory that real ranks share by CUDA's IPC handles, as torch.multiprocessing does."""

import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

# Of an h100, and the code of PyTorch 2.11 (base/guest/context_memory.h).
CONTEXT_BYTES = 552402944 + (92 << 20)

PROGRAM = """
import os
import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import reduce_tensor
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
tensor = torch.ones(4 << 20, device="cuda")
shared = [None] * dist.get_world_size()
dist.all_gather_object(shared, reduce_tensor(tensor))
for peer, (rebuild, arguments) in enumerate(shared):
    if peer == rank:
        continue
    held = torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0]
    theirs = rebuild(*arguments)
    print(f"rank {rank} took", torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0] - held)
    tensor.copy_(theirs)
    torch.cuda.synchronize()
    print(f"rank {rank} has {tuple(theirs.shape)} of {peer} on {theirs.device}", flush=True)
    del theirs
dist.barrier()
dist.destroy_process_group()
"""


@pytorch.needs_pytorch
class PytorchSharingTest(unittest.TestCase):

    def emulate(self, *options):
        with vrank.scratch() as folder:
            run = vrank.run("emulate", "--gpu", "h100", *options, "--",
                            *pytorch.script(folder, PROGRAM))
        return run.stdout, run.stderr

    def test_between_real_ranks(self):
        report, output = self.emulate("--world-size", 2, "--real", "0,1")
        self.assertIn("rank 0 has (4194304,) of 1 on cuda:1", output)
        self.assertIn("rank 1 has (4194304,) of 0 on cuda:0", output)
        # A mapping takes nothing; the other rank's context on this GPU may begin meanwhile.
        taken = re.findall(r"rank \d took (\d+)", output)
        self.assertEqual(len(taken), 2)
        self.assertLessEqual(set(taken), {"0", str(CONTEXT_BYTES)})
        self.assertIn("waits_for_other_processes_events", report)
        self.assertNotIn("shared_handles_of_played_ranks", report)

    def test_of_ranks_that_are_played(self):
        report, output = self.emulate("--world-size", 4, "--layout", "dp=4", "--real", 0)
        for peer in (1, 2, 3):
            self.assertIn(f"rank 0 has (4194304,) of {peer} on cuda:0", output)
        self.assertIn("shared_handles_of_played_ranks", report)


if __name__ == "__main__":
    unittest.main()
