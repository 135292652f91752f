"""Threads of one process whose communication crosses that of other ranks."""

import json
import re
import unittest

import vrank_runner as vrank

GUEST = str(vrank.BUILD / "tests" / "crossing_guest")


class CrossingTest(unittest.TestCase):

    def emulate(self, mode, *arguments):
        return vrank.run("emulate", *arguments, "--gpu", "h100", "--json", "--", GUEST, mode,
                         timeout=120)

    def sums(self, done):
        found = re.findall(r"(\d+) sum (\d+)", done.stdout + done.stderr)
        return sorted((int(rank), int(total)) for rank, total in found)

    def losses(self, done):
        # Lines of the ranks come before the result.
        text = done.stdout[done.stdout.index("{"):]
        return {loss["name"]: loss["count"] for loss in json.loads(text)["losses"]}

    def test_a_wait_lets_other_threads_issue(self):
        done = self.emulate("wait", "--world-size", 2, "--real", "0,1")
        # Summed twice, the second time what both had by then.
        once = [(rank, total) for rank in (0, 1) for total in (21, 41)]
        twice = [(rank, 2 * total) for rank, total in once]
        self.assertEqual(self.sums(done), sorted(once + twice))
        # One clock for threads side by side is an approximation, and counted.
        self.assertGreater(self.losses(done).get("concurrent_issuers", 0), 0)

    # It is not one that issues work yet, so nobody knows that it will.
    def test_a_thread_that_computes_before_its_first_call(self):
        done = self.emulate("compute", "--world-size", 2, "--real", "0,1")
        self.assertEqual(len(self.sums(done)), 8)

    def test_an_init_lets_other_threads_init(self):
        done = self.emulate("init", "--world-size", 6, "--real", "0-5", "--layout", "tp=2,dp=3")
        pairs = [(rank, 21 + 4 * (rank // 2)) for rank in range(6)]
        world = [(rank, sum(20 + r for r in range(6))) for rank in range(6)]
        self.assertEqual(self.sums(done), sorted(pairs + world))

    def test_members_of_one_process_need_not_have_begun(self):
        done = self.emulate("members", "--world-size", 1, "--real", "0")
        self.assertEqual(self.sums(done), [(0, 30), (0, 30)])

    def test_another_thread_polls_an_init(self):
        for mode, totals in (("poll", (21,)), ("poll_all", (21, 41))):
            with self.subTest(mode=mode):
                done = self.emulate(mode, "--world-size", 2, "--real", "0,1")
                self.assertEqual(self.sums(done),
                                 [(rank, total) for rank in (0, 1) for total in totals])

    # Ranks that are played use it as soon as their program says, and wait for the others.
    def test_played_ranks_that_another_thread_polls(self):
        for mode in ("poll", "poll_all", "poll_work"):
            with self.subTest(mode=mode):
                done = vrank.run("validate", "--ranks", 2, "--layout", "dp=2", "--real", "each",
                                 "--gpu", "h100", "--quiet", "--", GUEST, mode, timeout=120)
                self.assertEqual(len(re.findall(r" 0 ns +0 ns +0 B ", done.stdout)), 4,
                                 done.stdout)

    def test_another_thread_aborts(self):
        for mode in ("abort", "abort_pending"):
            for real in ("0-3", "0,1", "0,3"):
                with self.subTest(mode=mode, real=real):
                    done = self.emulate(mode, "--world-size", 4, "--layout", "dp=4",
                                        "--real", real)
                    self.assertEqual(len(self.sums(done)), 4 if real == "0-3" else 2)

    def test_followers_of_threads_that_cross(self):
        done = self.emulate("wait", "--world-size", 4, "--layout", "tp=2,dp=2", "--real", "0,1")
        self.assertEqual(len(self.sums(done)), 8)


if __name__ == "__main__":
    unittest.main()
