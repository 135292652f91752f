"""A rank fails: the others get NCCL's error, react to it, and end in bounded time."""

import os
import time
import unittest

import vrank_runner as vrank

FIRST_CAUSE = {
    "exit": "rank 1 exited with 3",
    "kill": "rank 1 was killed by SIGKILL",
    "early": "rank 1 exited with 0 while others wait for it",
    "other": "collective #2 differs between members",
    "hang": "rank 1 has used no CPU for 1 s",
    "init": "rank 1 exited with 3",
}
REMOTE = "remote process exited or there was a network error"


def run(ranks, failure, reaction, *flags, **options):
    with vrank.scratch() as board:
        return vrank.run("emulate", "--world-size", ranks, "--real", f"0-{ranks - 1}", *flags,
                         "--", vrank.SURVIVOR_GUEST, failure, reaction, timeout=120,
                         env=dict(os.environ, SURVIVORS_BOARD=board), **options)


class SurvivorsTest(unittest.TestCase):

    def setUp(self):
        self.mark = f"SURVIVORS_TEST_MARK={os.getpid()}."
        name, value = self.mark.split("=")
        os.environ[name] = value

    def tearDown(self):
        del os.environ["SURVIVORS_TEST_MARK"]
        self.assertEqual(vrank.processes_with(self.mark), [])

    def ended(self, ranks, failure, reaction, *flags):
        done = run(ranks, failure, reaction, *flags, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        [error] = f"\n{done.stderr}".split("\nvrank emulate: ")[1:]
        self.assertTrue(FIRST_CAUSE[failure] in error.splitlines()[0], done.stderr)
        return done.stderr + done.stdout, error

    def test_survivors_handle_it(self):
        for ranks in (2, 4):
            survivors = [rank for rank in range(ranks) if rank != 1]
            for failure, reaction in (("exit", "block"), ("exit", "poll"), ("exit", "watch"),
                                      ("kill", "block"), ("kill", "poll"), ("kill", "next"),
                                      ("early", "block"), ("early", "watch"),
                                      ("other", "block"), ("init", "block")):
                with self.subTest(ranks=ranks, failure=failure, reaction=reaction):
                    text, error = self.ended(ranks, failure, reaction)
                    self.assertRegex(error, "(?m)then .* exited with 7$")
                    for rank in survivors:
                        self.assertRegex(text, rf"rank {rank}: {REMOTE}: .*{FIRST_CAUSE[failure]}")
                        self.assertIn(f"rank {rank}: saved 1.5", text)
                        # What had come before stays; what never came is told.
                        if failure != "init":
                            self.assertIn(f"rank {rank}: sum {1.5 * ranks:g}", text)
                        if reaction in ("block", "poll") and failure in ("exit", "kill"):
                            self.assertIn(f"rank {rank}: no sum 0", text)
                            self.assertRegex(error, rf"rank {rank} copied 4 bytes of results "
                                             "that never came")

    # What the job waits for is told to the program, too.
    def test_the_error_names_the_call(self):
        text, _ = self.ended(4, "early", "block")
        self.assertRegex(text, rf"rank 0: {REMOTE}: .*host waits for .*all_reduce #2 of "
                         r"communicator 'world'")

    def test_a_rank_that_hangs(self):
        text, error = self.ended(2, "hang", "block", "--hang-after", 1)
        self.assertIn("rank 0: saved 1.5", text)
        self.assertIn("then rank 0 exited with 7", error)

    def test_both_calls_are_named(self):
        _, error = self.ended(2, "other", "block")
        self.assertRegex(error, r"communicator '\S+': collective #2 differs between members.*"
                         "rank 0 calls all_reduce.*rank 1 calls all_gather")

    def test_who_ignores_it_is_ended_after_the_grace(self):
        for ranks, who in ((2, "rank 0 was"), (4, "ranks 0,2,3 were")):
            began = time.monotonic()
            _, error = self.ended(ranks, "kill", "ignore", "--failure-grace", 1)
            self.assertIn(f"then {who} ended after 1 s", error)
            self.assertLess(time.monotonic() - began, 20)

    def test_without_a_grace_they_are_ended_at_once(self):
        text, error = self.ended(2, "kill", "ignore", "--failure-grace", 0)
        self.assertNotIn("then ", error)
        self.assertNotIn(REMOTE, text)


class AbortTest(unittest.TestCase):
    """What nobody comes to ends with the abort, though the others go on."""

    def test_in_time(self):
        for ranks in (2, 4):
            for how in ("timeout", "patience"):
                done = run(ranks, "sleep", how)
                for rank in range(ranks):
                    if rank != 1:
                        self.assertRegex(done.stderr + done.stdout,
                                         rf"rank {rank}: went on after 3\d\d\.\d ms")

    def test_a_rank_that_sleeps_for_ever(self):
        done = run(2, "sleep-on", "timeout", "--hang-after", 2, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr + done.stdout, r"rank 0: went on after 3\d\d\.\d ms")
        self.assertIn("rank 1 only sleeps, again and again", done.stderr)


if __name__ == "__main__":
    unittest.main()
