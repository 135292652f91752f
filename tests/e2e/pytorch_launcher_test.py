"""Stock PyTorch started by torchrun: the launcher has a store of its own, ranks meet at vrank's."""

import contextlib
import json
import socket
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

# As PyTorch's tutorial of DDP starts its ranks; each has a worker that is spawned, too.
SPAWNS = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 32
    def __getitem__(self, i):
        return torch.full((64,), float(i))

def work(rank, size):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:{port}", rank=rank,
                            world_size=size)
    torch.cuda.set_device(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(Data(), 8, num_workers=1,
                                         multiprocessing_context="spawn")
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("rank", rank, "is at", torch.cuda.current_device())
    dist.destroy_process_group()

if __name__ == "__main__":
    assert torch.cuda.device_count() == 8
    mp.spawn(work, nprocs=2, args=(2,))
"""


@pytorch.needs_pytorch
class PytorchLauncherTest(unittest.TestCase):

    def test_torchrun_starts_the_ranks(self):
        # torchrun's own default port, as another job on the machine may have it.
        taken = socket.socket()
        self.addCleanup(taken.close)
        with contextlib.suppress(OSError):  # somebody else has it
            taken.bind(("", 29500))
            taken.listen()
        job = ("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100", "--json")
        script = pytorch.example("ddp.py", "--iterations", 2)
        alone = vrank.run_json(*job, "--", *script)
        launched = vrank.run_json(*job, "--launcher", "--", script[0], "-m",
                                  "torch.distributed.run", "--nproc-per-node", 2, *script[1:])
        self.assertEqual(launched["iteration_time_ns"], alone["iteration_time_ns"])
        self.assertEqual([rank["peak_memory_bytes"] for rank in launched["ranks"]],
                         [rank["peak_memory_bytes"] for rank in alone["ranks"]])

    # Its ranks are two of the job's four, whose size torchrun does not know.
    def test_torchrun_implies_which_ranks_are_real(self):
        job = ("emulate", "--world-size", 4, "--gpu", "h100", "--json")
        script = pytorch.example("ddp.py", "--iterations", 2)
        alone = vrank.run_json(*job, "--real", "0,1", "--", *script)
        launched = vrank.run_json(*job, "--", script[0], "-m", "torch.distributed.run",
                                  "--nproc-per-node", 2, *script[1:])
        self.assertEqual(launched["iteration_time_ns"], alone["iteration_time_ns"])

    def test_a_program_spawns_its_ranks(self):
        with vrank.scratch() as folder, contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            program = pytorch.script(folder, SPAWNS.replace("{port}", str(free.getsockname()[1])))
            free.close()
            run = vrank.run("emulate", "--world-size", 2, "--launcher", "--gpu", "h100", "--json",
                            "--", *program)
            for rank in (0, 1):
                self.assertIn(f"rank {rank} is at {rank}\n", run.stderr)
            result = json.loads(run.stdout)
            self.assertEqual(len(result["iteration_time_ns"]), 4)
            self.assertEqual([rank["communication"]["all_reduce"]["calls"]
                              for rank in result["ranks"]], [4, 4])


if __name__ == "__main__":
    unittest.main()
