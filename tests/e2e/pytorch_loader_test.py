"""A data loader's workers take host time, as it is measured or recorded."""

import json
import pathlib
import statistics
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

MILLISECOND = 1_000_000
# Each batch takes its worker so many additions.
PROGRAM = """
import sys
import torch
workers, additions = int(sys.argv[1]), int(sys.argv[2])
class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return 14
    def __getitem__(self, index):
        sum(i * i for i in range(additions))
        return torch.ones(256)
weight = torch.ones(256, 256, device="cuda")
loader = iter(torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=workers))
for step in range(14):
    torch.cuda.nvtx.range_push("iteration")
    batch = next(loader).cuda() @ weight
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
"""


@pytorch.needs_pytorch
class PytorchLoaderTest(unittest.TestCase):

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.program = pytorch.script(scratch.name, PROGRAM)

    def emulate(self, workers, additions, *flags):
        return json.loads(vrank.run(
            "emulate", "--world-size", 1, "--gpu", "h100", "--json", *flags, "--",
            *self.program, workers, additions).stdout)

    @staticmethod
    def step(report):
        # Between the start of the workers and the batches that they have in advance.
        return statistics.mean(report["iteration_time_ns"][4:-4])

    def test_workers_delay_the_iteration_side_by_side(self):
        alone, one, two = (
            self.step(self.emulate(workers, 400_000, "--host-time", "measured"))
            for workers in (0, 1, 2))
        self.assertGreater(alone, 4 * MILLISECOND)
        self.assertGreater(one, 0.7 * alone)
        self.assertGreater(two, 0.3 * one)
        self.assertLess(two, 0.75 * one)
        self.assertLess(self.step(self.emulate(1, 400_000)), MILLISECOND)  # modelled

    def test_a_recording_is_played_alike(self):
        path = self.folder / "host.vhost"
        for workers in (1, 2):
            self.emulate(workers, 400_000, "--record-host-time", path)
            played = [self.emulate(workers, additions, "--host-time", path,
                                   "--force-host-time") for additions in (400_000, 400_000, 4)]
            self.assertGreater(self.step(played[0]), 4 * MILLISECOND / workers)
            if workers == 1:
                times = [report["iteration_time_ns"] for report in played]
                self.assertEqual(times, [times[0]] * 3)
            # Two workers are not ordered; the mean is still that of the recording.
            for report in played:
                self.assertLess(abs(self.step(report) / self.step(played[0]) - 1), 0.1)


if __name__ == "__main__":
    unittest.main()
