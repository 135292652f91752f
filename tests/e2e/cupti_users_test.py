"""A traced program that uses CUPTI itself, at whatever moment: it is traced exactly, or
the trace fails with a message that says what to do. It never hangs, and no trace that
lacks records counts as one."""

import pathlib
import unittest

import vrank_runner as vrank

# The loader, or the program, finds CUPTI.
LINKED = vrank.BUILD / "tests" / "libcupti_user.so"
UNLINKED = vrank.BUILD / "tests" / "libcupti_user_unlinked.so"
GUEST = vrank.BUILD / "tests" / "cupti_guest"
HARMLESS = ["version", "timestamp", "subscribe", "enable", "flush", "push"]


class CuptiUsersTest(unittest.TestCase):

    def setUp(self):
        self.scratch = vrank.scratch()
        self.addCleanup(self.scratch.cleanup)
        self.slices = pathlib.Path(self.scratch.name) / "slices"

    def trace(self, *command):
        return vrank.run("trace", "--check", "--overwrite", "--world-size", 1, "--layout",
                         "dp=1", "-o", self.slices, "--", *command, check=False, timeout=60)

    def expect_traced(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0 differences", done.stdout)
        [held] = vrank.run_json("build", "--list", self.slices, "--json")["slices"]
        self.assertEqual(held["kernels"], 6)

    def expect_refused(self, done):
        self.assertEqual(done.returncode, 1, done.stdout)
        [message] = [line for line in done.stderr.splitlines()
                     if line.startswith("vrank trace: ")]
        self.assertIn("uses CUPTI itself", message)
        self.assertIn("run the program without its profiler", message)
        self.assertFalse(list(self.slices.glob("*.vtrace")))

    def test_its_first_call_is_one_of_cupti(self):
        for step in HARMLESS:
            for library, opened in ((LINKED, ""), (UNLINKED, "open,")):
                with self.subTest(step=step, library=library.name):
                    done = self.trace(GUEST, library, opened + step, "-")
                    self.expect_traced(done)
                    self.assertIn(f"{step}: {39 if step == 'subscribe' else 0}", done.stderr)

    def test_a_constructor_calls_cupti(self):
        for step in HARMLESS:
            for library, opened in ((LINKED, ""), (UNLINKED, "open,")):
                with self.subTest(step=step, library=library.name):
                    self.expect_traced(
                        self.trace("env", f"CUPTI_USER_AT_LOAD={opened}{step}", GUEST,
                                   library, "-", "-"))
        for step in HARMLESS:
            with self.subTest("before main", step=step):
                self.expect_traced(self.trace(
                    "sh", "-c", 'LD_PRELOAD="$1:$LD_PRELOAD" CUPTI_USER_AT_LOAD="$2" '
                    'exec "$3" "$1" - -', "sh", LINKED, step, GUEST))

    def test_two_threads_begin_at_once(self):
        for _ in range(10):
            self.expect_traced(self.trace(GUEST, LINKED, "threads", "-"))

    def test_the_refused_subscriber_is_told_by_whom(self):
        done = self.trace(GUEST, LINKED, "subscribe", "-")
        self.assertIn("CUPTI for vrank", done.stderr)

    def test_it_takes_the_records(self):
        for first, later in (("register", "-"), ("-", "register"), ("register,enable", "flush"),
                             ("-", "finalize"), ("-", "finalize,register,enable"),
                             ("subscribe,register,enable", "disable")):
            with self.subTest(first=first, later=later):
                self.expect_refused(self.trace(GUEST, LINKED, first, later))

    def test_it_switches_kinds_off(self):
        done = self.trace(GUEST, LINKED, "disable", "-")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("not one of its kernels", done.stderr)


if __name__ == "__main__":
    unittest.main()
