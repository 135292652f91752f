"""Streams of a GPU that is not vrank's are held: a device of host threads stands in for it."""

import json
import os
import re
import statistics
import time
import unittest

import vrank_runner as vrank

FOLDER = str(vrank.BUILD / "tests" / "fake_cuda")
GUEST = str(vrank.BUILD / "tests" / "held_guest")


class HeldGpuTest(unittest.TestCase):

    def emulate(self, ranks, real, *guest, check=True, flags=()):
        libraries = dict(os.environ, LD_LIBRARY_PATH=FOLDER)
        return vrank.run("emulate", "--world-size", ranks, "--real", real, "--real-gpu",
                         "--gpu", "h100", "--json", *flags, "--", GUEST, *guest, env=libraries,
                         check=check, timeout=120)

    def lines(self, done):
        """By rank: (milliseconds, seconds since 1970) of each call."""
        found = {}
        for rank, ms, at in re.findall(r"\[rank (\d+)\] ([\d.]+) (\d+)", done.stderr):
            found.setdefault(int(rank), []).append((float(ms), int(at)))
        return found

    def test_a_stream_is_held_for_a_late_rank_by_the_real_clock(self):
        begin = time.time()
        done = self.emulate(2, "0,1", 5, 40)
        found = self.lines(done)
        self.assertEqual(sorted(map(len, found.values())), [5, 5])
        # A busy machine may hold up the rank that waits, too, now and then.
        self.assertGreater(statistics.median(ms for ms, _ in found[0]), 20)
        for _, at in found[0]:
            self.assertGreaterEqual(at, int(begin) - 1)
            self.assertLessEqual(at, time.time() + 1)
        result = json.loads(done.stdout)
        self.assertEqual(result["world_size"], 2)
        iterations = result["iteration_time_ns"]
        self.assertEqual(len(iterations), 5)
        for ns in iterations:
            self.assertGreater(ns, 40e6)
            self.assertLess(ns, 1e6 * (time.time() - begin) * 1e3)
        self.assertNotIn("concurrent_issuers", [row["name"] for row in result["losses"]])

    def test_iterations_are_found_by_collectives_where_no_range_names_them(self):
        done = self.emulate(2, "0,1", 6, 40, -1, "plain")
        result = json.loads(done.stdout)
        self.assertEqual(result["iteration_source"]["evidence"], "communication")
        self.assertEqual(len(result["iteration_time_ns"]), 6)
        for ns in result["iteration_time_ns"][1:]:
            self.assertGreater(ns, 40e6)
        self.assertEqual(result["host_time"], {"mode": "real"})
        self.assertNotEqual(result["gpu"], "h100-sxm5-80gb")

    def test_a_real_rank_gets_through_beside_played_ones(self):
        found = self.lines(self.emulate(8, "0", 20, 0))
        self.assertEqual(len(found[0]), 20)

    def test_each_launch_of_a_graph_is_held_for_a_late_rank(self):
        done = self.emulate(2, "0,1", 4, 40, -1, "graph")
        found = self.lines(done)
        self.assertEqual(sorted(map(len, found.values())), [4, 4])
        self.assertGreater(statistics.median(ms for ms, _ in found[0]), 20)
        for rank in json.loads(done.stdout)["ranks"]:
            self.assertEqual(rank["communication"]["all_reduce"]["calls"], 8)

    def test_a_rank_that_fails_ends_the_others_while_they_are_held(self):
        begin = time.monotonic()
        done = self.emulate(2, "0,1", 5, 300, 1, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertIn("rank 1 exited with 3", done.stderr)
        self.assertFalse(vrank.processes_running(GUEST))

    def test_ranks_that_begin_apart_have_one_clock(self):
        late_ms = 2000
        found = self.lines(self.emulate(2, "0,1", 6, late_ms, -1, "late-init"))
        self.assertEqual(sorted(map(len, found.values())), [6, 6])
        for calls in found.values():
            self.assertLess(sum(ms for ms, _ in calls), late_ms / 2)

    def test_a_static_destructor_may_call_nccl(self):
        self.assertEqual(len(self.lines(self.emulate(8, "0", 2, 0, -1, "at-exit"))[0]), 2)

    def test_children_of_a_process_whose_stream_is_held_exit(self):
        self.assertEqual(len(self.lines(self.emulate(2, "0,1", 20, 20, -1, "forks"))[0]), 20)

    def test_a_second_process_of_a_rank_is_refused(self):
        done = self.emulate(8, "0", 2, 0, -1, "twice")
        self.assertEqual(len(self.lines(done)[0]), 2)
        self.assertIn("another process of this rank uses its GPUs already", done.stderr)


if __name__ == "__main__":
    unittest.main()
