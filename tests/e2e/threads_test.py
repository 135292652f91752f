"""Threads that issue work: turns are exact, and what is not is counted."""

import json
import unittest

import vrank_runner as vrank


class ThreadsTest(unittest.TestCase):

    def emulate(self, mode, *more):
        return vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100",
                         "--json", *more, "--", vrank.THREADS_GUEST, mode).stdout

    def counted(self, result):
        return {loss["name"]: loss["count"] for loss in json.loads(result)["losses"]}.get(
            "concurrent_issuers", 0)

    def test_threads_that_take_turns_are_exact(self):
        for mode in ("turns", "queue"):
            with self.subTest(mode=mode):
                expected = self.emulate(mode)
                self.assertEqual(self.counted(expected), 0)
                for _ in range(3):
                    self.assertEqual(self.emulate(mode), expected)

    def test_threads_that_issue_at_the_same_time_are_counted(self):
        for _ in range(4):
            # Two threads of each of two ranks.
            self.assertEqual(self.counted(self.emulate("concurrent")), 4)

    def test_a_helper_that_creates_a_communicator_issues_work(self):
        expected = self.emulate("creator")
        self.assertEqual(self.counted(expected), 0)
        self.assertEqual(self.emulate("creator"), expected)
        vrank.run("validate", "--ranks", 2, "--real", "each", "--gpu", "h100", "--",
                  vrank.THREADS_GUEST, "creator")


if __name__ == "__main__":
    unittest.main()
