"""Stock PyTorch started by torchrun: the launcher has a store of its own, ranks meet at vrank's."""

import contextlib
import socket
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank


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


if __name__ == "__main__":
    unittest.main()
