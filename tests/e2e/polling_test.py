"""A query costs what a query costs, and a host function lasts as long as it takes."""

import pathlib
import unittest

import vrank_runner as vrank

QUERY_NS, CLOCK_NS = 500, 25  # base/guest/host_costs.def
SLEEP_MS = 200


class PollingTest(unittest.TestCase):

    def printed(self, program, ranks=1, *flags):
        """The numbers that each rank printed."""
        with vrank.scratch() as folder:
            logs = pathlib.Path(folder, "logs")
            vrank.run("emulate", "--world-size", ranks, "--gpu", "h100", "--log-dir", logs,
                      *(flags or ("--real", f"0-{ranks - 1}")), "--", vrank.POLLING_GUEST,
                      program, timeout=200)
            return [[float(word) for word in log.read_text().split()]
                    for log in sorted(logs.glob("rank*.out"))]

    def test_queries_in_passing_wait_for_nothing(self):
        asked, ended = self.printed("asks_in_passing")[0]
        self.assertEqual(asked, 500 * QUERY_NS + CLOCK_NS)
        self.assertGreater(ended, 10 * asked)

    def test_a_polling_loop_ends_with_the_first_query_behind_the_end(self):
        for program, cycle in (("polls_an_event", QUERY_NS), ("polls_a_stream", QUERY_NS),
                               ("polls_and_yields", QUERY_NS + 200)):
            with self.subTest(program):
                asked, polled, ended = self.printed(program)[0]
                self.assertEqual(polled, asked * cycle + CLOCK_NS)
                self.assertGreater(asked, 1000)
                # Nothing is left to wait for: a call of its own cost.
                self.assertLess(ended - polled, 10_000)

    def test_a_poll_for_a_rank_that_sleeps(self):
        expected = self.printed("polls_for_a_sleeper", 2)
        for passed, in expected:
            self.assertGreater(passed, 30_000_000)
            self.assertLess(passed, 31_000_000)
        for _ in range(3):
            self.assertEqual(self.printed("polls_for_a_sleeper", 2), expected)

    def test_a_poll_that_gives_up(self):
        """What rank 0 asks about ends once it has given up, and has joined rank 1."""
        (passed,), (waited,) = self.printed("polls_until_a_limit", 2)
        self.assertGreaterEqual(passed, 50_000_000)
        self.assertLess(passed, 50_002_000)
        self.assertGreater(waited, passed)

    def test_a_trace_of_queries_gives_the_times_of_the_run(self):
        for program in ("asks_in_passing", "polls_an_event", "polls_a_stream"):
            with self.subTest(program), vrank.scratch() as folder:
                job = ["--world-size", 1, "--layout", "dp=1"]
                command = ["--", vrank.POLLING_GUEST, program]
                vrank.run("trace", "--quiet", "--check", *job, "-o", f"{folder}/slices",
                          *command)
                live = vrank.run_json("emulate", "--json", *job, "--real", 0, *command)
                vrank.run("build", f"{folder}/slices", "-o", f"{folder}/job.vgraph")
                replay = vrank.run_json("replay", "--json", f"{folder}/job.vgraph")
                self.assertEqual(
                    replay["iteration_time_ns"],
                    live["iteration_time_ns"] or [live["ranks"][0]["end_ns"]])

    def test_a_host_function_holds_up_its_stream(self):
        for program, times in (("host_function", 1), ("host_node", 2)):
            with self.subTest(program):
                slept, milliseconds = self.printed(program)[0]
                self.assertGreaterEqual(slept, SLEEP_MS * 1e6)
                self.assertGreaterEqual(milliseconds, times * SLEEP_MS)
                self.assertLess(milliseconds, times * SLEEP_MS + 1)

    def test_a_host_function_holds_up_other_ranks(self):
        with self.subTest("real"):
            for _, milliseconds in self.printed("host_function_of_one_rank", 2):
                self.assertGreaterEqual(milliseconds, SLEEP_MS)
                self.assertLess(milliseconds, SLEEP_MS + 1)
        with self.subTest("following"):
            self.assertEqual(
                self.printed("host_function_of_one_rank", 2, "--real", "0")[0],
                self.printed("host_function_of_one_rank", 2)[0])

    def test_a_trace_without_a_host_functions_time_says_so(self):
        with vrank.scratch() as folder:
            vrank.run("trace", "--quiet", "--world-size", 1, "--layout", "dp=1", "-o",
                      f"{folder}/slices", "--", vrank.POLLING_GUEST, "host_function")
            built = vrank.run_json("build", f"{folder}/slices", "-o", f"{folder}/job.vgraph",
                                   "--json")
        self.assertIn("host_functions", {loss["name"] for loss in built["losses"]})


if __name__ == "__main__":
    unittest.main()
