"""Memory is a GPU's: processes that use another rank's GPU leave less for it."""

import json
import re
import unittest

import vrank_runner as vrank

GUEST = str(vrank.BUILD / "tests" / "shared_gpu_guest")
GIB = 1 << 30


def lines(done):
    found = re.findall(r"rank (\d+) has (\d) cuda ([\d.]+) nvml ([\d.]+)",
                       done.stdout + done.stderr)
    return {int(rank): (has == "1", float(cuda), float(nvml))
            for rank, has, cuda, nvml in found}


class SharedGpuTest(unittest.TestCase):

    def emulate(self, real, *command, world=4, flags=(), check=True):
        return vrank.run("emulate", "--world-size", world, "--real", real, "--gpu", "h100",
                         *flags, "--", GUEST, *command, check=check, timeout=300)

    def test_the_third_of_four_that_want_30_gib_finds_no_memory(self):
        done = self.emulate("0-3", "stray", 30)
        rows = lines(done)
        self.assertEqual([rows[rank][0] for rank in range(4)], [True, True, False, False],
                         done.stdout + done.stderr)
        for rank in range(4):
            # Four contexts, the communicator of rank 0, and twice 30 GiB, by either way.
            self.assertGreater(rows[rank][1], 62)
            self.assertLess(rows[rank][1], 66)
        self.assertRegex(done.stdout, r"memory +6\d\.\d+ GiB at most \(GPU 0 of node 0\)")
        self.assertIn("shared GPU", done.stdout)
        self.assertIn("other ranks", done.stdout)

    def test_what_is_found_is_the_same_in_every_run(self):
        first = self.emulate("0-3", "stray", 30, flags=("--json",)).stdout
        for _ in range(3):
            self.assertEqual(self.emulate("0-3", "stray", 30, flags=("--json",)).stdout,
                             first)

    def test_a_gpu_has_what_two_ranks_hold_there(self):
        done = self.emulate("0-3", "one", 30, flags=("--json",))
        rows = lines(done)
        self.assertTrue(all(row[0] for row in rows.values()), done.stderr)
        shared = json.loads(done.stdout)["shared_gpus"]
        # To ask what GPU 0 has left, all ranks make a context there.
        self.assertEqual([(gpu["node"], gpu["gpu"]) for gpu in shared], [(0, 0)])
        self.assertEqual([rank["rank"] for rank in shared[0]["ranks"]], [0, 1, 2, 3])
        self.assertTrue(shared[0]["fits"])
        programs = [rank["program"] for rank in shared[0]["ranks"]]
        self.assertGreaterEqual(programs[0], 20 * GIB)
        self.assertGreaterEqual(programs[1], 30 * GIB)
        self.assertEqual(programs[2:], [0, 0])
        self.assertEqual(shared[0]["peak_bytes"],
                         sum(rank[owner] for rank in shared[0]["ranks"]
                             for owner in ("program", "context", "communicators")))

    def test_ranks_that_follow_do_as_their_leader(self):
        for real, has in (("1", True), ("3", False)):
            with self.subTest(real=real):
                done = self.emulate(real, "stray", 30, check=False)
                self.assertEqual(lines(done)[int(real)][0], has, done.stderr)
                self.assertEqual(done.returncode, 1 if has else 0)
                self.assertIn("memory_on_other_ranks_gpus", done.stdout)
        done = self.emulate("1", "stray", 30, check=False)
        self.assertIn("does not fit", done.stdout)
        self.assertRegex(done.stderr, r"GPU 0 of node 0 runs out of memory")

    def test_a_forgotten_device_is_refused_with_one_real_rank(self):
        for real in ("1", "0-3"):
            with self.subTest(real=real):
                done = self.emulate(real, "unset", check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("Duplicate GPU detected", done.stderr)

    def test_gpus_in_another_order_are_nobody_elses(self):
        done = self.emulate("0-3", "reversed", 60, flags=("--json",))
        self.assertTrue(all(row[0] for row in lines(done).values()), done.stderr)
        self.assertEqual(json.loads(done.stdout)["shared_gpus"], [])


if __name__ == "__main__":
    unittest.main()
