"""A rank fails, and the others go on without it (--survive-failures)."""

import json
import os
import pathlib
import unittest

import vrank_runner as vrank

HOW = {"exit": "rank 1 exited with 3", "kill": "rank 1 was killed by SIGKILL",
       "pair": "rank 1 exited with 3"}
# Steps of two collectives; the next one is what the rank never calls.
NEXT = "before collective #6 of communicator 'world'"


def run(ranks, failure, notice, shrinks, *flags, real=None, **options):
    return vrank.run("emulate", "--world-size", ranks, "--real", real or f"0-{ranks - 1}",
                     *flags, "--", vrank.SHRINKING_GUEST, failure, notice, shrinks,
                     timeout=120, **options)


class LostRanksTest(unittest.TestCase):

    def setUp(self):
        self.mark = f"LOST_RANKS_TEST_MARK={os.getpid()}."
        name, value = self.mark.split("=")
        os.environ[name] = value

    def tearDown(self):
        del os.environ["LOST_RANKS_TEST_MARK"]
        self.assertEqual(vrank.processes_with(self.mark), [])

    def survived(self, ranks, failure, notice):
        done = run(ranks, failure, notice, "right", "--survive-failures", "--json")
        for rank in range(ranks):
            if rank != 1:
                self.assertIn(f"rank {rank}: told: ", done.stderr)
                self.assertIn(f"{HOW[failure]}", done.stderr)
                self.assertIn(f"{NEXT}", done.stderr)
        return done.stderr, json.loads(done.stdout)

    def test_the_others_go_on(self):
        for ranks in (2, 3, 4):
            for failure in ("exit", "kill"):
                for notice in ("poll", "watch", "patience"):
                    with self.subTest(ranks=ranks, failure=failure, notice=notice):
                        said, report = self.survived(ranks, failure, notice)
                        for rank in range(ranks):
                            if rank != 1:
                                self.assertIn(f"rank {rank}: went on with {ranks - 1}", said)
                        [lost] = report["lost_ranks"]
                        self.assertEqual(lost["rank"], 1)
                        self.assertIn(HOW[failure], f"rank 1 {lost['how']}")
                        ends = {rank["rank"]: rank["end_ns"] for rank in report["ranks"]}
                        self.assertEqual(lost["end_ns"], ends.pop(1))
                        self.assertLess(lost["end_ns"], min(ends.values()))
                        self.assertIn("lost_rank", [row["name"] for row in report["losses"]])

    def test_one_after_the_other(self):
        said, report = self.survived(4, "pair", "poll")
        for rank in (0, 3):
            self.assertIn(f"rank {rank}: went on with 2", said)
        self.assertEqual([rank["rank"] for rank in report["lost_ranks"]], [1, 2])

    def failed(self, *arguments, **options):
        done = run(*arguments, "--survive-failures", check=False, **options)
        self.assertEqual(done.returncode, 1, done.stderr)
        return f"\n{done.stderr}".split("\nvrank emulate: ")[-1]

    def test_nobody_aborts(self):
        error = self.failed(3, "kill", "never", "right")
        self.assertRegex(error, "^rank 1 was killed by SIGKILL.*the job is stuck without it")
        self.assertRegex(error, r"host waits for .*all_reduce #6 of communicator 'world'")

    def test_a_list_without_the_lost_rank(self):
        error = self.failed(4, "exit", "poll", "other")
        self.assertRegex(error, "^rank 1 exited with 3, and the job is stuck without it")

    def test_lists_that_differ(self):
        error = self.failed(4, "exit", "poll", "mixed")
        self.assertIn("exclude different members", error)

    # Bytes of played ranks are made up, so that no sum is checked.
    def test_beside_played_ranks(self):
        for real, more in (("0,1,2", ["--layout", "pp=2,dp=2,order=dp-pp"]),
                           ("0-2", ["--assume-absent", "--layout", "pp=4"])):
            with self.subTest(more=more):
                done = run(4, "exit", "poll", "right", "--survive-failures", *more, real=real,
                           env=dict(os.environ, SHRINKING_PLAYED="1"))
                for rank in (0, 2):
                    self.assertIn(f"rank {rank}: went on with 3", done.stderr + done.stdout)

    def test_who_follows_the_lost_rank_is_named(self):
        error = self.failed(8, "exit", "poll", "right", real="0,1",
                            env=dict(os.environ, SHRINKING_PLAYED="1"))
        self.assertRegex(error, r"^rank 1 exited with 3, and virtual ranks \(2-7\) follow it.*"
                         "make")

    def test_what_it_does_not_go_with(self):
        with vrank.scratch() as folder:
            job = pathlib.Path(folder, "job.vgraph")
            vrank.run("trace", "--world-size", 2, "--layout", "dp=2", "--ranks", "0,1", "-o", folder,
                      "--", *vrank.trainer(1, 1, 2))
            vrank.run("build", folder, "-o", job)
            for flags in (["--launcher"], ["--real-gpu"], ["--graph", job]):
                done = vrank.run("emulate", "--real", "0", "--survive-failures", *flags,
                                 *([] if "--graph" in flags else ["--world-size", 2]), "--",
                                 *vrank.trainer(1, 1, 2), check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"--survive-failures: not with {flags[0]}", done.stderr)


if __name__ == "__main__":
    unittest.main()
