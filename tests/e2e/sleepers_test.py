"""A sleep beside other real ranks ends at its place among what these do."""

import json
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

    def test_processes_that_sleep(self):
        """Each sleep costs its time, and no wait for a quiet session but for the first."""
        for ranks in (1, 2):
            runs = []
            for _ in range(2):
                with vrank.scratch() as folder:
                    told = pathlib.Path(folder, "told")
                    done = vrank.run(
                        "emulate", "--quiet", "--json", "--world-size", ranks, "--real",
                        f"0-{ranks - 1}", "--gpu", "h100", "--", vrank.SLEEPERS_GUEST, told,
                        "children", timeout=200, env={**os.environ, "VRANK_LOG": "schedule:2"})
                    runs.append((done, told.read_text()))
            done, told = runs[0]
            steps = [line.split()[2:] for line in done.stderr.splitlines()
                     if line.startswith("vrank schedule: ")]
            self.assertEqual(len(steps), 50 * ranks)
            for rank, result in enumerate(json.loads(done.stdout)["ranks"]):
                own = [step for step in steps if step[1] == str(rank)]
                self.assertEqual({step[2] for step in own}, {"sleep-ends"})
                self.assertGreater(sum(step[3] == "rest" for step in own), 25)
                period = 1_103_000 + 1000 * rank
                self.assertEqual(int(own[-1][0]) - int(own[0][0]), 29 * period)
                self.assertEqual(result["end_ns"], int(own[-1][0]))
            self.assertEqual(runs[1][1], told)
            self.assertEqual(vrank.prediction(runs[1][0].stdout), vrank.prediction(done.stdout))

    def test_threads_and_processes_that_sleep_go_by_turns(self):
        for ranks in (1, 2):
            expected = self.logs("family", ranks)
            times = [int(line.split()[0]) for line in expected[-1].splitlines()]
            self.assertEqual(len(times), 105 * ranks)
            self.assertEqual(times, sorted(times), expected[-1])
            self.assertEqual(self.logs("family", ranks), expected)
        self.load()
        for _ in range(2):
            self.assertEqual(self.logs("family", 2), expected)


if __name__ == "__main__":
    unittest.main()
