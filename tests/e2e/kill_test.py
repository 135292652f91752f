"""kill -9 of any process of a run, at any moment, leaves nothing behind."""

import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import vrank_runner as vrank

MOMENTS = 200 if vrank.FULL else 10
GONE_WITHIN_S = 20

GUEST = ["--", vrank.FAULTY_GUEST, "children"]
WORLD = ["--gpu", "h100", "--quiet"]
JOBS = [
    ["emulate", "--world-size", "4", "--real", "0-3", *WORLD, *GUEST],
    ["emulate", "--world-size", "2", "--real", "0,1", *WORLD, "--", "sh", "-c",
     'sleep 1 | "$0" orphan', vrank.FAULTY_GUEST],
    ["validate", "--via-graph", "--ranks", "2", "--layout", "tp=2", "--real", "each",
     *WORLD, "--kernels",
     vrank.KERNELS, "--", *vrank.trainer(2, 1, 1)],
]


def sockets():
    """Names of the abstract sockets that vrank listens at."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()
    return {line.split()[-1] for line in lines if "@vrank-" in line}


class KillTest(unittest.TestCase):

    def setUp(self):
        self.random = random.Random(1)
        self.mark = f"KILL_TEST_MARK={os.getpid()}."

    def start(self, job, folder):
        name, value = self.mark.split("=")
        environment = dict(os.environ, TMPDIR=folder, **{name: value})
        return subprocess.Popen([vrank.VRANK, *job], env=environment, cwd=folder,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def victim(self):
        """Some process of the run and how it is called; None: it has ended."""
        found = sorted(vrank.processes_with(self.mark))
        if not found:
            return None
        pid = self.random.choice(found)
        try:
            return pid, pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return None

    def assert_nothing_left(self, process, folder, when):
        self.assertIsNotNone(process.wait(timeout=60))
        deadline = time.monotonic() + GONE_WITHIN_S
        while time.monotonic() < deadline:
            left = (vrank.processes_with(self.mark), os.listdir(folder),
                    [name for name in sockets() if f"-{process.pid}-" in name])
            if left == ([], [], []):
                break
            time.sleep(0.02)
        self.assertEqual(left, ([], [], []), when)
        self.assertEqual(vrank.shared_memory() - self.shared_memory, set(), when)

    def test_any_process_at_any_moment(self):
        self.shared_memory = vrank.shared_memory()
        killed = {}
        lengths = []
        for job in JOBS:
            with vrank.scratch() as folder:
                began = time.monotonic()
                self.assertEqual(self.start(job, folder).wait(timeout=120), 0, job)
                lengths.append(time.monotonic() - began)
        for moment in range(MOMENTS):
            number = moment % len(JOBS)
            after = self.random.uniform(0, lengths[number])
            with vrank.scratch() as folder:
                process = self.start(JOBS[number], folder)
                time.sleep(after)
                victim = self.victim()
                if victim is not None:
                    try:
                        os.kill(victim[0], signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                    killed[victim[1]] = killed.get(victim[1], 0) + 1
                # The first failure ends the test: what is left would be found again.
                self.assert_nothing_left(process, folder,
                                         f"{JOBS[number]} after {after:.3f} s: {victim}")
        # The moments are spread over a run, so most of them hit something.
        self.assertGreater(sum(killed.values()), MOMENTS / 2, killed)


if __name__ == "__main__":
    unittest.main()
