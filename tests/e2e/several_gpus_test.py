"""Processes that drive several GPUs: values, times, and every way of init."""

import re
import unittest

import vrank_runner as vrank

GUEST = str(vrank.BUILD / "tests" / "several_gpus_guest")


def reports(done):
    """(sum, members, microseconds) of every member that reported, in any order."""
    found = re.findall(r"sum (\d+) members (\d+) time ([\d.]+) us", done.stdout + done.stderr)
    return sorted((int(total), int(members), float(time)) for total, members, time in found)


class SeveralGpusTest(unittest.TestCase):

    def emulate(self, world, real, mode, gpus, *more):
        return vrank.run("emulate", "--world-size", world, "--real", real, "--gpu", "h100",
                         *more, "--", GUEST, mode, gpus, timeout=300)

    def expect(self, done, members, total, reported):
        rows = reports(done)
        self.assertEqual(len(rows), reported, done.stdout + done.stderr)
        for row in rows:
            self.assertEqual(row[:2], (total, members))
        # 64 MiB over NVLink, by the model, on every device.
        self.assertEqual(len({row[2] for row in rows}), 1, rows)

    def test_one_process_with_all_gpus_of_a_node(self):
        total = sum(100 + i for i in range(8))
        for mode in ("all", "group", "nonblocking"):
            with self.subTest(mode=mode):
                self.expect(self.emulate(1, "0", mode, 8), 8, total, 8)

    def test_threads_with_a_gpu_each(self):
        done = self.emulate(1, "0", "threads", 4)
        rows = reports(done)
        self.assertEqual([row[:2] for row in rows], [(406, 4)] * 4,
                         done.stdout + done.stderr)

    def test_several_processes_with_several_gpus(self):
        total = sum(100 + i for i in range(4))
        for mode in ("group", "nonblocking"):
            with self.subTest(mode=mode):
                done = self.emulate(2, "0,1", mode, 2, "--ranks-per-node", 4)
                self.expect(done, 4, total, 4)

    def test_a_communicator_within_each_process(self):
        done = self.emulate(2, "0,1", "all", 2)
        self.assertEqual([row[:2] for row in reports(done)],
                         [(201, 2)] * 2 + [(205, 2)] * 2)

    def test_processes_on_nodes_of_their_own_meet_over_the_network(self):
        near = self.emulate(2, "0,1", "group", 4)
        far = self.emulate(2, "0,1", "group", 4, "--ranks-per-node", 1)
        self.assertGreater(reports(far)[0][2], reports(near)[0][2])

    def test_a_played_process_follows_with_all_its_gpus(self):
        done = self.emulate(4, "0", "group", 2)
        rows = reports(done)
        self.assertEqual([row[1] for row in rows], [8, 8])
        # Mirrored: members 0 and 1 stand for all four processes.
        self.assertEqual([row[0] for row in rows], [4 * (100 + 101)] * 2)


if __name__ == "__main__":
    unittest.main()
