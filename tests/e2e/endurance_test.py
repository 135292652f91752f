"""Long runs keep their memory, and large payloads arrive to the last element."""

import re
import unittest

import vrank_runner as vrank

GUEST = str(vrank.BUILD / "tests" / "endurance_guest")
JOB = ["--world-size", 8, "--layout", "dp=8", "--gpu", "h100"]
# What may be taken from one tenth of the way to its end; pages of the 4 MiB ring count
# from their first use.
GROWTH_KIB = 6144
# What vrank keeps of an action of a rank whose program does not annotate its iterations, so that
# they can be found at its end, and of how many (emulator/world/iteration_log.h).
ACTION_BYTES = 16
MOST_ACTIONS = 4_000_000


class EnduranceTest(unittest.TestCase):

    def memory(self, *mode, job=JOB):
        """Of guest and vrank, in KiB: after a tenth of the way, and at the end."""
        done = vrank.run("emulate", *job, "--real", "0,1", "--", GUEST, *mode,
                         timeout=3000)
        found = re.findall(r"memory after \d+: guest (\d+) KiB, vrank (\d+) KiB",
                           done.stderr)
        self.assertEqual(len(found), 2, done.stderr)
        return [tuple(map(int, pair)) for pair in found]

    def test_collectives(self):
        count = 10**7 if vrank.FULL else 200_000
        early, late = self.memory("collectives", count)
        self.assertLess(late[0], early[0] + GROWTH_KIB, "guest")
        # Of two real ranks.
        actions = min(count, MOST_ACTIONS) - min(count // 10, MOST_ACTIONS)
        kept_kib = 2 * actions * ACTION_BYTES // 1024
        self.assertLess(late[1], early[1] + kept_kib + GROWTH_KIB, "vrank")

    def test_communicators(self):
        self.check_communicators(JOB)

    # Told by their unique ids.
    def test_communicators_of_real_ranks_alone(self):
        self.check_communicators(["--world-size", 2, "--gpu", "h100"])

    def check_communicators(self, job):
        early, late = self.memory("communicators", 10**6 if vrank.FULL else 20_000, job=job)
        self.assertLess(late[0], early[0] + GROWTH_KIB, "guest")
        # Of up to four real ranks; 1 KiB kept for each communicator would be above it.
        self.assertLess(late[1], early[1] + 4 * 4096 + 1024, "vrank")

    def test_a_large_payload_is_exact_on_every_rank(self):
        size = 256 << 20 if vrank.FULL else 16 << 20
        done = vrank.run("emulate", *JOB, "--real", "0-7", "--", GUEST, "payload", size,
                         timeout=3000)
        self.assertEqual(done.stderr.count(f"{size // 4} elements are right"), 8,
                         done.stderr)


if __name__ == "__main__":
    unittest.main()
