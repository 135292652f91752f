"""Threads that issue work: turns are exact, what is not is counted, and the same again."""

import json
import time
import unittest

import vrank_runner as vrank


class ThreadsTest(unittest.TestCase):

    def emulate(self, mode, ranks=2):
        return vrank.run("emulate", "--world-size", ranks, "--real", f"0-{ranks - 1}", "--gpu",
                         "h100", "--json", "--", vrank.THREADS_GUEST, mode)

    def counted(self, result):
        return {loss["name"]: loss["count"] for loss in json.loads(result)["losses"]}.get(
            "concurrent_issuers", 0)

    def test_threads_that_take_turns_are_exact(self):
        for mode in ("turns", "queue"):
            with self.subTest(mode=mode):
                expected = self.emulate(mode).stdout
                self.assertEqual(self.counted(expected), 0)
                for _ in range(3):
                    self.assertEqual(self.emulate(mode).stdout, expected)

    def test_threads_that_issue_at_the_same_time_are_counted(self):
        for _ in range(4):
            # Two threads of each of two ranks.
            self.assertEqual(self.counted(self.emulate("concurrent").stdout), 4)

    def test_threads_that_issue_at_the_same_time_say_the_same_again(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                expected = self.emulate("sleeps", ranks)
                self.assertEqual(self.counted(expected.stdout), 3 * ranks)
                self.assertIn("saw", expected.stderr)
                for _ in range(3):
                    again = self.emulate("sleeps", ranks)
                    self.assertEqual((again.stdout, again.stderr),
                                     (expected.stdout, expected.stderr))

    def test_a_helper_that_creates_a_communicator_issues_work(self):
        expected = self.emulate("creator").stdout
        self.assertEqual(self.counted(expected), 0)
        self.assertEqual(self.emulate("creator").stdout, expected)
        vrank.run("validate", "--ranks", 2, "--real", "each", "--gpu", "h100", "--",
                  vrank.THREADS_GUEST, "creator")

    def test_threads_that_wait_for_each_other_are_named_at_once(self):
        began = time.monotonic()
        done = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--", vrank.THREADS_GUEST,
                         "deadlock", check=False)
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the job is stuck", done.stderr)
        for waits, missing in ((0, 1), (1, 0)):
            self.assertRegex(done.stderr, rf"rank {waits}: host waits for .*all_reduce #0 of "
                             rf"communicator .* rank {missing}\b")


if __name__ == "__main__":
    unittest.main()
