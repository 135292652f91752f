"""Random programs with threads that issue work say the same again on an idle machine.
What they say beside busy programs may differ (docs/limitations.md): --full looks."""

import contextlib
import os
import pathlib
import unittest

import pytorch_runner as pytorch
import random_threads
import vrank_runner as vrank
from disturber import Disturber


@pytorch.needs_pytorch
class PytorchRandomThreadsTest(unittest.TestCase):

    def run_once(self, log, program, ranks, environment=None):
        """Its report, and what each rank printed, which goes to the folder `log`."""
        done = vrank.run("emulate", "--world-size", ranks, "--real", f"0-{ranks - 1}", "--gpu",
                         "h100", "--json", "--log-dir", log, "--", *program, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, [pathlib.Path(log, f"rank{rank}.out").read_text()
                             for rank in range(ranks)]

    @contextlib.contextmanager
    def surroundings(self, seed, ranks):
        if not vrank.FULL:
            yield None
            return
        # A rank that is stopped looks to its peers like one that waits.
        with Disturber(pytorch.PYTHON, seed, stops=ranks == 1) as disturber:
            yield disturber.environment
        self.assertGreater(disturber.disturbed, 0)

    def expect_same_again(self, seed, ranks, draw=random_threads.program):
        with self.subTest(seed=seed), vrank.scratch() as folder:
            program = pytorch.script(folder, draw(seed))
            expected = self.run_once(os.path.join(folder, "0"), program, ranks)
            for printed in expected[1]:
                self.assertIn("end", printed)
            with self.surroundings(seed, ranks) as environment:
                self.assertEqual(self.run_once(os.path.join(folder, "1"), program, ranks,
                                               environment), expected)

    def test_one_real_rank(self):
        for seed in range(1, 4 if not vrank.FULL else 101):
            self.expect_same_again(seed, ranks=1)

    def test_two_real_ranks(self):
        for seed in range(201, 203 if not vrank.FULL else 241):
            self.expect_same_again(seed, ranks=2)

    def test_two_real_ranks_that_talk(self):
        # In the 40th a thread asks whether work has ended while all others sleep.
        for seed in (1, 40) if not vrank.FULL else range(1, 47):
            self.expect_same_again(seed, ranks=2, draw=random_threads.program_of_ranks)


if __name__ == "__main__":
    unittest.main()
