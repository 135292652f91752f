"""What VRANK_LOG and --log-schedule tell: the decisions of a run, alike in every run."""

import os
import pathlib
import re
import unittest

import vrank_runner as vrank


class DecisionLogTest(unittest.TestCase):

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def sleepers(self, how, ranks, *flags, log=None):
        """stderr of ranks that tell each other something by a file and sleep meanwhile."""
        told = self.folder / "told"
        told.unlink(missing_ok=True)
        env = {**os.environ, **({"VRANK_LOG": log} if log else {})}
        return vrank.run("emulate", "--quiet", "--world-size", ranks, "--real", f"0-{ranks - 1}",
                         "--gpu", "h100", *flags, "--", vrank.SLEEPERS_GUEST, told, how,
                         timeout=200, env=env).stderr

    def schedule(self, how, ranks):
        file = self.folder / "schedule"
        self.assertEqual(self.sleepers(how, ranks, "--log-schedule", file), "")
        return file.read_text()

    def test_the_schedule_of_a_wait_among_sleeps(self):
        """Rank 0 looks for a file every 3 ms, rank 1 makes it once a wait of 30 ms has
        expired."""
        lines = [line.split() for line in self.schedule("limit", 2).splitlines()]
        first = int(lines[0][0]) - 3_000_000
        steps = [(int(ns) - first, int(rank), decision) for ns, rank, decision in lines]
        ms = 1_000_000
        self.assertEqual(steps, [(3 * step * ms, 0, "sleep-ends") for step in range(1, 11)] +
                         [(30 * ms, 1, "wait-expires"), (33 * ms, 0, "sleep-ends")])

    def test_it_is_the_same_in_every_run(self):
        for how, ranks in (("ring", 3), ("beside", 2)):
            expected = self.schedule(how, ranks)
            times = [int(line.split()[0]) for line in expected.splitlines()]
            self.assertGreater(len(times), 100 if how == "beside" else 200)
            self.assertEqual(times, sorted(times))
            self.assertEqual(self.schedule(how, ranks), expected)
            # On stderr, with the rule of each.
            told = self.sleepers(how, ranks, log="schedule:2")
            found = re.findall(r"(?m)^vrank schedule: (.*) (?:past|rest|quiet)$", told)
            self.assertEqual("\n".join(found) + "\n", expected)

    def test_every_module_tells_and_no_result_changes(self):
        trainer = vrank.trainer(2, 1, 2)
        arguments = ("emulate", "--quiet", "--json", "--world-size", 4, "--layout", "tp=2,dp=2",
                     "--real", 0, "--gpu", "h100", "--", *trainer)
        silent = vrank.run(*arguments)
        env = {**os.environ, "VRANK_LOG": "all:2,schedule:0"}
        told = vrank.run(*arguments, env=env)
        self.assertEqual(vrank.prediction(told.stdout), vrank.prediction(silent.stdout))
        for line in (r"vrank launch: rank 0: process \d+ connects",
                     r"vrank membership: rank 0: communicator \d+ is world, rank 0 of 4: 0,1,2,3",
                     r"vrank pricing: rank 0: \d+ ns \(assumed.* in \d+ blocks of \d+: gpt::fill\(",
                     r"vrank iterations: rank 0: 2 iterations by annotation, regularity 1",
                     r"vrank iterations: rank 0: ops \d+ to \d+, \d+ to \d+ ns"):
            self.assertRegex(told.stderr, f"(?m)^{line}")
        self.assertNotIn("vrank schedule:", told.stderr)
        self.assertNotRegex(silent.stderr, r"(?m)^vrank \w+: rank")

    def test_what_is_no_module_is_named(self):
        done = vrank.run("demo", check=False, env={**os.environ, "VRANK_LOG": "store,prices:1"})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertTrue(done.stderr.startswith("vrank: VRANK_LOG: 'prices:1' is no MODULE"))
        documented = (vrank.ROOT / "docs" / "command_line.md").read_text()
        for module in re.findall(r"(?m)^  (\w+) ", done.stderr):
            self.assertTrue(module == "all" or f"\n| `{module}` |" in documented, module)


if __name__ == "__main__":
    unittest.main()
