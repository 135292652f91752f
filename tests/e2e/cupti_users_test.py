"""A traced program that uses CUPTI itself, at whatever moment: it is traced exactly, or
the trace fails with a message that says what to do. It never hangs, and no trace that
lacks records counts as one."""

import pathlib
import unittest

import pytorch_runner
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

    @pytorch_runner.needs_pytorch
    def test_the_profiler_of_pytorch_stands_down(self):
        """It asks whether it may subscribe, and goes on without records of the GPU."""
        done = self.trace(*pytorch_runner.script(self.scratch.name, """
import torch
x = torch.ones(64, 64, device="cuda")
with torch.profiler.profile() as profile:
    y = x @ x
    torch.cuda.synchronize()
print("profiled", len(profile.events()) > 0)
"""))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0 differences", done.stdout)
        self.assertIn("profiled True", done.stderr)
        self.assertIn("'CUPTI for vrank' subscribes already", done.stderr)

    def test_it_takes_the_records(self):
        for first, later in (("register", "-"), ("-", "register"), ("register,enable", "flush"),
                             ("-", "finalize"), ("-", "finalize,register,enable"),
                             ("subscribe,register,enable", "disable")):
            with self.subTest(first=first, later=later):
                self.expect_refused(self.trace(GUEST, LINKED, first, later))

    def test_it_switches_a_kind_off(self):
        """Whichever that is of which the program leaves records; without --check, too."""
        for first, later, lost in (("disable", "-", "scale"), ("-", "disable", "scale"),
                                   ("-", "disable-1", "memcpy"), ("-", "disable-2", "memset"),
                                   ("-", "disable-5", "memory"), ("-", "disable-36", "record_token"),
                                   ("-", "disable-37", "memory"), ("-", "disable-38", "wait_token"),
                                   ("-", "disable-49", "memory")):
            with self.subTest(first=first, later=later):
                done = vrank.run("trace", "--overwrite", "--world-size", 1, "--layout", "dp=1",
                                 "-o", self.slices, "--", GUEST, LINKED, first, later,
                                 check=False, timeout=60)
                self.assertEqual(done.returncode, 1, done.stdout)
                [message] = [line for line in done.stderr.splitlines()
                             if line.startswith("vrank trace: ")]
                self.assertRegex(message, f"{lost}.* in the emulator's stream, .* in the trace")
                self.assertIn("uses CUPTI itself (a profiler)", message)
                self.assertFalse(list(self.slices.glob("*.vtrace")))

    def test_a_program_that_skips_what_is_due_at_exit(self):
        done = self.trace(GUEST, LINKED, "-", "exit")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the program ended without what is due at its exit (_exit", done.stderr)
        self.assertFalse(list(self.slices.glob("*.vtrace")))


if __name__ == "__main__":
    unittest.main()
