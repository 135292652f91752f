"""A sleep beside other real ranks ends at its place among what these do."""

import os
import pathlib
import subprocess
import unittest

import vrank_runner as vrank


class SleepersTest(unittest.TestCase):

    def logs(self, how, ranks=2, start=()):
        """What each rank printed, and what the file holds at the end. `start`: a command
        that ends by becoming the one behind it."""
        with vrank.scratch() as folder:
            logs, told = os.path.join(folder, "logs"), pathlib.Path(folder, "told")
            vrank.run("emulate", "--world-size", ranks, "--real", f"0-{ranks - 1}",
                      "--gpu", "h100", "--log-dir", logs, "--", *start,
                      vrank.SLEEPERS_GUEST, told, how, timeout=200)
            return [pathlib.Path(logs, f"rank{rank}.out").read_text().split("\n")
                    for rank in range(ranks)] + [told.read_text()]

    def load(self):
        """Two busy loops until the test is over."""
        for _ in range(2):
            busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            self.addCleanup(busy.wait)
            self.addCleanup(busy.kill)

    def test_a_limit_expires_while_another_rank_sleeps_again_and_again(self):
        expected = self.logs("limit")
        # 30 ms in steps of 3 ms.
        self.assertIn(expected[0][0], ("slept 10 times", "slept 11 times"))
        self.load()
        for _ in range(3):
            self.assertEqual(self.logs("limit"), expected)

    def test_a_rank_that_computes_is_waited_for(self):
        self.assertEqual(self.logs("late")[1][0], "slept 1 times")

    def test_a_rank_that_has_not_started_is_waited_for(self):
        # Rank 0 computes before it loads vrank's libraries.
        compute = ('i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done; '
                   'LD_PRELOAD=$LATER exec "$@"')
        start = ('[ $RANK = 0 ] || exec "$@"; '
                 f"exec env -u LD_PRELOAD LATER=$LD_PRELOAD sh -c '{compute}' sh \"$@\"")
        logs = self.logs("late", start=("sh", "-c", start, "sh"))
        self.assertEqual(logs[1][0], "slept 1 times")

    def test_a_rank_that_polls_without_a_pause_is_left_behind(self):
        with vrank.scratch() as folder:
            report = vrank.run_json(
                "emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100", "--json", "--",
                vrank.SLEEPERS_GUEST, os.path.join(folder, "told"), "poll", timeout=200)
        self.assertEqual({loss["name"]: loss["count"] for loss in report["losses"]},
                         {"ranks_left_behind": 1})

    def test_what_ranks_and_their_threads_do_by_turns(self):
        expected = self.logs("ring", ranks=3)
        self.assertEqual(expected[-1].count("\nrank"), 60)
        self.assertGreater(expected[-1].count("thread"), 60)
        self.load()
        for _ in range(3):
            self.assertEqual(self.logs("ring", ranks=3), expected)

    def test_threads_beside_one_that_waits_for_another_rank_sleep(self):
        expected = self.logs("beside")
        times = [int(line.split()[0]) for line in expected[-1].splitlines()]
        self.assertEqual(len(times), 100)
        self.assertEqual(times, sorted(times), expected[-1])
        self.load()
        for _ in range(3):
            self.assertEqual(self.logs("beside"), expected)


if __name__ == "__main__":
    unittest.main()
