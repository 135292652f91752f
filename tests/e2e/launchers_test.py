"""Commands that start the ranks themselves: what they imply, and launchers that fail to.

The launchers are shell scripts with the names and options of real ones.
"""

import json
import pathlib
import sys
import unittest

import vrank_runner as vrank

# Options, then the program, which is started once per rank that RANKS names.
LAUNCHER = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift 2; done
for rank in RANKS; do
  RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank NCCL_COMM_ID=127.0.0.1:29517 "$@" &
done
wait
"""
COUNTS = """
import ctypes
count = ctypes.c_int()
status = ctypes.CDLL("libcudart.so.13").cudaGetDeviceCount(ctypes.byref(count))
print(f"status {status}, GPUs {count.value}", flush=True)
"""
TRAINER = vrank.trainer(1, 1, 2)


def launcher(folder, name, ranks):
    path = pathlib.Path(folder, name)
    path.write_text(LAUNCHER.replace("RANKS", ranks))
    path.chmod(0o755)
    return path


class LaunchersTest(unittest.TestCase):

    def run_with(self, name, ranks, *flags, options=("-n", 2), check=False):
        with vrank.scratch() as folder:
            return vrank.run("emulate", *flags, "--", launcher(folder, name, ranks), *options,
                             *TRAINER, check=check)

    def test_its_options_state_the_ranks(self):
        alone = vrank.run_json("emulate", "--world-size", 2, "--real", "0,1", "--json", "--",
                               *TRAINER)
        launched = json.loads(self.run_with("mpirun", "0 1", "--json", check=True).stdout)
        self.assertEqual(launched["iteration_time_ns"], alone["iteration_time_ns"])
        self.assertEqual([rank["rank"] for rank in launched["ranks"]], [0, 1])

    def test_real_ranks_that_it_does_not_start(self):
        done = self.run_with("srun", "0 1", "--world-size", 4, "--real", "0,3")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--real 0,3: srun starts ranks 0-1", done.stderr)
        done = self.run_with("mpiexec", "0 1", "--world-size", 2, options=("-x", "A=b"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--real is needed: the options of mpiexec do not state", done.stderr)

    def test_one_that_starts_no_rank(self):
        done = self.run_with("torchrun", "", "--hang-after", 3,
                             options=("--nproc-per-node", 1))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launcher 'torchrun' has ended, but its ranks were not started",
                      done.stderr)

    def test_one_that_waits_for_ever(self):
        with vrank.scratch() as folder:
            waits = pathlib.Path(folder, "deepspeed")
            waits.write_text("#!/bin/sh\nsleep 1000\n")
            waits.chmod(0o755)
            done = vrank.run("emulate", "--hang-after", 3, "--", waits, "--num_gpus", 2,
                             *TRAINER, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launcher 'deepspeed' has not started any rank", done.stderr)

    def test_one_that_starts_too_few(self):
        done = self.run_with("mpirun", "0", "--hang-after", 3)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launcher 'mpirun' has not started rank 1", done.stderr)

    def test_one_that_starts_others(self):
        done = self.run_with("start_ranks", "1", "--launcher", "--world-size", 2, "--real", 0)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launcher 'start_ranks' has started rank 1, which is not real here",
                      done.stderr)

    def test_one_that_counts_gpus(self):
        with vrank.scratch() as folder:
            counts = pathlib.Path(folder, "deepspeed")
            counts.write_text(f"#!{sys.executable}\n" + COUNTS)
            counts.chmod(0o755)
            done = vrank.run("emulate", "--world-size", 8, "--real", "0-7", "--", counts,
                             check=False)
        self.assertIn("[deepspeed] status 0, GPUs 8", done.stderr)

    def test_a_program_that_is_none_needs_real_ranks(self):
        done = vrank.run("emulate", "--world-size", 2, "--", *TRAINER, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--real is needed", done.stderr)


if __name__ == "__main__":
    unittest.main()
