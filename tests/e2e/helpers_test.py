"""What a watchdog thread sees of virtual time is the same in every run."""

import os
import pathlib
import subprocess
import unittest

import vrank_runner as vrank

# 12 rounds that sleep 10 to 21 seconds.
TICKS = 10 * sum(range(10, 22))


class HelpersTest(unittest.TestCase):

    def logs(self, real, *more, one_core=False):
        """What each real rank printed."""
        with vrank.scratch() as folder:
            command = [vrank.VRANK, "emulate", "--world-size", "2", "--real", real,
                       "--gpu", "h100", "--log-dir", folder, "--", vrank.WATCHED_GUEST,
                       *more]
            core = min(os.sched_getaffinity(0))
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=300,
                preexec_fn=(lambda: os.sched_setaffinity(0, {core})) if one_core else None)
            self.assertEqual(done.returncode, 0, done.stderr)
            return {name: pathlib.Path(folder, name).read_text()
                    for name in sorted(os.listdir(folder))}

    def assert_ticks(self, text):
        ticks = int(text.split()[0])
        self.assertGreaterEqual(ticks, TICKS)
        self.assertLess(ticks, TICKS + 10)

    def test_work_that_has_not_ended_yet(self):
        expected = self.logs("0,1", "--late")
        seen = expected["rank0.out"]
        # Five of every 15 to 26 seconds.
        self.assertGreater(seen.count("not yet"), 50)
        self.assertGreater(seen.count("ended"), 150)
        for one_core in (False, True):
            self.assertEqual(self.logs("0,1", "--late", one_core=one_core), expected)

    def test_same_in_every_run(self):
        expected = self.logs("0,1")
        self.assert_ticks(expected["rank0.out"])
        for _ in range(3):
            self.assertEqual(self.logs("0,1"), expected)
        self.assertEqual(self.logs("0,1", one_core=True), expected)

    def test_same_under_load(self):
        expected = self.logs("0,1")
        load = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
                for _ in range(2 * len(os.sched_getaffinity(0)))]
        try:
            self.assertEqual(self.logs("0,1"), expected)
        finally:
            for process in load:
                process.kill()
                process.wait()

    def test_same_beside_virtual_ranks(self):
        self.assertEqual(self.logs("0")["rank0.out"], self.logs("0,1")["rank0.out"])

    def test_validates(self):
        vrank.run("validate", "--ranks", 2, "--real", "0", "--gpu", "h100", "--", vrank.WATCHED_GUEST)

    def test_ranks_that_talk_unseen_while_one_polls(self):
        expected = self.logs("0,1", "--pipe")
        for _ in range(2):
            self.assertEqual(self.logs("0,1", "--pipe"), expected)

    def test_an_answer_that_a_later_arrival_contradicts(self):
        done = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100",
                         "--", vrank.WATCHED_GUEST, "--early", check=False, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("causality violation: rank 0", done.stderr)


if __name__ == "__main__":
    unittest.main()
