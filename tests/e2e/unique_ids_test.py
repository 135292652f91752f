"""Communicators whose ranks are all real: their unique id says who belongs together."""

import re
import time
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

GUEST = str(vrank.BUILD / "tests" / "unique_ids_guest")


class UniqueIdsTest(unittest.TestCase):

    def emulate(self, world, *command, layout=(), more=(), check=True):
        return vrank.run("emulate", "--world-size", world, "--real", f"0-{world - 1}",
                         *(("--layout", layout) if layout else ()), "--gpu", "h100", *more,
                         "--", GUEST, *command, check=check, timeout=120)

    def test_polls_of_an_init_whose_last_member_has_left_take_little_time(self):
        for who, polls, limit in (("main", 400, 10), ("thread", 40, 10)):
            with self.subTest(who=who):
                began = time.monotonic()
                self.emulate(3, "left", polls, who)
                self.assertLess(time.monotonic() - began, limit)

    # The guest holds every sum and every place against the members of its group.
    def test_random_groups_in_random_orders(self):
        seeds = range(40 if vrank.FULL else 4)
        for way in ("threads", "nonblocking", "group", "blocking"):
            for seed in seeds:
                world, layout = ((4, ""), (4, "tp=2,dp=2"), (3, ""), (6, "tp=3,dp=2"))[seed % 4]
                with self.subTest(way=way, seed=seed):
                    done = self.emulate(world, "random", way, seed, layout=layout)
                    self.assertIn(" group ", done.stdout + done.stderr)

    def test_two_communicators_of_all_ranks_the_other_way_round(self):
        for way in ("threads", "nonblocking", "group", "launch"):
            with self.subTest(way=way):
                done = self.emulate(4, "swap", way)
                text = done.stdout + done.stderr
                for group in (0, 1):
                    total = 4 * 1000 * (group + 1) + 6
                    self.assertEqual(len(re.findall(f"group {group} sum {total} ", text)), 4)

    def test_two_runs_are_equal(self):
        for layout in ("dp=4", "tp=2,dp=2"):
            for mode in (("swap", "nonblocking"), ("random", "nonblocking", 5),
                         ("random", "group", 9)):
                with self.subTest(layout=layout, mode=mode):
                    runs = [self.emulate(4, *mode, layout=layout,
                                         more=("--json", "--quiet")).stdout
                            for _ in range(2)]
                    results = [run[run.index("{"):] for run in runs]
                    self.assertEqual(results[0], results[1])

    # NCCL_COMM_ID, which vrank sets, gives the first rank of each pair the same text.
    def test_ids_that_several_ranks_hand_out(self):
        for world in (4, 5):
            with self.subTest(world=world), vrank.scratch() as folder:
                done = self.emulate(world, "handed_out", folder)
                found = re.findall(r"\d+ group \d+ sum \d+ places.*", done.stdout + done.stderr)
                self.assertEqual(len(found), world)

    # Each rank makes the first id of one group and is handed the first of another.
    def test_rows_and_columns_with_ids_of_their_first_ranks(self):
        for layout in ("", "tp=2,dp=2"):
            with self.subTest(layout=layout), vrank.scratch() as folder:
                done = self.emulate(4, "grid", folder, layout=layout)
                found = re.findall(r"\d+ group \d+ sum \d+ places.*", done.stdout + done.stderr)
                self.assertEqual(len(found), 8)

    def test_a_rank_that_never_joins(self):
        done = self.emulate(3, "missing", more=("--hang-after", 2), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 2", done.stderr)
        self.assertRegex(done.stderr, r"2 of 3 have passed its unique id: rank 0 \(index 0\), "
                         r"rank 1 \(index 1\)")

    def test_an_id_for_each_rank(self):
        done = self.emulate(3, "own", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1 of 3 have passed its unique id", done.stderr)
        self.assertIn("one ncclGetUniqueId", done.stderr)

    @pytorch.needs_pytorch
    def test_pytorch_groups_that_no_layout_has(self):
        with vrank.scratch() as folder:
            done = vrank.run("emulate", "--world-size", 4, "--real", "0-3", "--gpu", "h100",
                             "--", *pytorch.script(folder, """
import os
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
for ranks in ([0, 1, 2], [1, 2, 3], [0, 3]):
    group = dist.new_group(ranks)
    if rank in ranks:
        x = torch.full((4,), 10.0 ** rank).cuda()
        parts = [torch.zeros(4).cuda() for _ in ranks]
        dist.all_reduce(x, group=group)
        dist.all_gather(parts, torch.full((4,), float(rank)).cuda(), group=group)
        print("sum", x.cpu()[0].item(), [int(p.cpu()[0]) for p in parts], flush=True)
dist.destroy_process_group()
"""), timeout=300)
        found = sorted(re.findall(r"sum ([\d.]+ \[.*\])", done.stdout + done.stderr))
        self.assertEqual(found, sorted(["111.0 [0, 1, 2]"] * 3 + ["1110.0 [1, 2, 3]"] * 3 +
                                       ["1001.0 [0, 3]"] * 2))


if __name__ == "__main__":
    unittest.main()
