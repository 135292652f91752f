"""gpt_trainer_host, started as docs/gpt_trainer.md says."""

import os
import pathlib
import re
import shlex
import subprocess
import unittest

import vrank_runner as vrank

HOST_TRAINER = str(vrank.BUILD / "bin" / "gpt_trainer_host")
SMALL = ["--layers", "4", "--hidden", "32", "--heads", "4", "--sequence", "16", "--vocab", "256",
         "--micro-batches", "4", "--tp", "2", "--dp", "2"]
PAGE = (vrank.ROOT / "docs" / "gpt_trainer.md").read_text()


def train(*arguments, environment=None):
    """Its patience with a rank that does not come is a minute; nothing here takes half."""
    return subprocess.run([HOST_TRAINER, *map(str, arguments)], capture_output=True, text=True,
                          timeout=50, check=False, env=dict(os.environ, **(environment or {})))


def losses(text):
    return [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", text)]


class HostTrainerTest(unittest.TestCase):

    def expect_error(self, *arguments, code=1, **more):
        failed = train(*arguments, **more)
        self.assertEqual(failed.returncode, code, failed.stderr)
        self.assertEqual(len(failed.stderr.splitlines()), 1, failed.stderr)
        return failed.stderr, failed.stdout

    def test_the_page_shows_that_it_trains(self):
        commands = [shlex.split(line)[1:] for line in PAGE.splitlines()
                    if line.startswith("    gpt_trainer_host ")]
        printed = []
        for command in commands:
            done = train(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            printed.append(losses(done.stdout))
        falling, *layouts, reference = printed
        self.assertLess(falling[-1], 0.6 * falling[0])
        self.assertEqual(len(layouts), 3)
        for layout in layouts:
            self.assertEqual(len(layout), 3)
            for loss, first in zip(layout, layouts[0]):
                self.assertAlmostEqual(loss / first, 1, delta=1e-5)
        self.assertAlmostEqual(reference[0] / layouts[0][0], 1, delta=1e-5)

    def test_help_says_how_it_is_started(self):
        self.assertIn("One process is the whole job", train("--help").stdout)
        self.assertNotIn("One process per GPU", train("--help").stdout)
        self.assertIn("without a launcher",
                      self.expect_error(*SMALL, code=2,
                                        environment={"WORLD_SIZE": "4", "RANK": "1"})[0])

    def test_an_error_of_one_rank_ends_all(self):
        with vrank.scratch() as folder:
            self.assertEqual(train(*SMALL, "--save", folder).returncode, 0)
            lost = pathlib.Path(folder) / "rank_00003.ckpt"
            lost.unlink()
            error, _ = self.expect_error(*SMALL, "--load", folder, "--iterations", 6)
            self.assertEqual(error, f"gpt_trainer: rank 3: checkpoint '{lost}': cannot be read\n")

    def test_nobody_trains_who_could_not_save(self):
        with vrank.scratch() as folder:
            (pathlib.Path(folder) / "rank_00002.ckpt").mkdir()
            error, printed = self.expect_error(*SMALL, "--save", folder)
            self.assertIn("gpt_trainer: rank 2: checkpoint", error)
            self.assertNotIn("iteration", printed)
            (pathlib.Path(folder) / "file").touch()
            error, printed = self.expect_error(*SMALL, "--save", f"{folder}/file/sub")
            self.assertIn("the folder cannot be made: Not a directory", error)
            self.assertNotIn("iteration", printed)
        self.assertIn("--save-interval needs --save",
                      self.expect_error(*SMALL, "--save-interval", 2, code=2)[0])

    def test_a_checkpoint_goes_on_only_as_it_was_saved(self):
        experts = [*SMALL, "--experts", "4", "--ep", "2"]
        with vrank.scratch() as folder:
            through = losses(train(*experts, "--iterations", 4).stdout)
            train(*experts, "--iterations", 2, "--save", folder)
            self.assertEqual(
                losses(train(*experts, "--load", folder, "--iterations", 4).stdout), through[2:])
            for other in (["--ep", "1"], ["--bucket-mb", "1"], ["--tp", "1", "--dp", "4"]):
                self.assertIn(f"this run has '{' '.join(other[:2])}'",
                              self.expect_error(*experts, *other, "--load", folder,
                                                "--iterations", 4)[0])
            self.assertIn("holds the state after 2",
                          self.expect_error(*experts, "--load", folder, "--iterations", 2)[0])


if __name__ == "__main__":
    unittest.main()
