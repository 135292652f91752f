"""A debugger that holds a real rank changes nothing but how long the run takes."""

import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import vrank_runner as vrank

# Longer than every limit on real time that a run could meet meanwhile: the hang
# detector's (--hang-after, 60 s unless given), the session's patience with an exit
# status (3 s), a guest's wait with a limit (2 s in this guest; at most 30 s).
HOLD_S = 150 if vrank.FULL else 5
HANG_AFTER_S = 60 if vrank.FULL else 1


def why_no_debugger():
    """What keeps gdb from attaching to a process here; None: nothing."""
    if shutil.which("gdb") is None:
        return "gdb is not installed"
    process = subprocess.Popen(["sleep", "60"])
    try:
        done = subprocess.run(["gdb", "-nx", "-batch", "-p", str(process.pid)],
                              capture_output=True, text=True, timeout=120)
    finally:
        process.kill()
        process.wait()
    refused = re.search(r"ptrace: .*", done.stdout + done.stderr)
    return f"gdb cannot attach here: {refused.group(0)}" if refused else None


class DebuggerTest(unittest.TestCase):

    def setUp(self):
        reason = why_no_debugger()
        if reason is not None:
            self.skipTest(reason)

    def command(self, folder, *more):
        return [vrank.VRANK, "emulate", "--world-size", "2", "--real", "0,1", "--gpu",
                "h100", "--collectives", "--json", "--hang-after", str(HANG_AFTER_S),
                "--log-dir", folder, "--", vrank.DEBUGGED_GUEST, *more]

    def rank_1(self, process):
        """The pid of rank 1 once it runs."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.assertIsNone(process.poll(), "the run ended before the debugger came")
            for pid in vrank.processes_running(vrank.DEBUGGED_GUEST):
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                if b"RANK=1" in environment.split(b"\0"):
                    return pid
            time.sleep(0.02)
        self.fail("rank 1 did not start")

    def held(self, breakpoint, folder):
        """Runs with gdb at rank 1, which holds it at the breakpoint."""
        process = subprocess.Popen(self.command(folder, "--await-debugger"), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            session = subprocess.run(
                ["gdb", "-nx", "-batch", "-p", str(self.rank_1(process)),
                 "-ex", f"break {breakpoint}", "-ex", "continue", "-ex", "continue 3",
                 "-ex", "backtrace 1", "-ex", f"shell sleep {HOLD_S}", "-ex", "delete",
                 "-ex", "detach"],
                capture_output=True, text=True, timeout=HOLD_S + 300)
            output, errors = process.communicate(timeout=120)
        finally:
            process.kill()
            process.wait()
        self.assertIn(breakpoint, session.stdout.split("#0")[-1], session.stdout)
        self.assertEqual(process.returncode, 0, errors)
        return output, errors

    def logs(self, folder):
        return {name: pathlib.Path(folder, name).read_bytes()
                for name in sorted(os.listdir(folder))}

    def test_held_at_a_breakpoint(self):
        for breakpoint in ("ncclAllReduce", "cudaLaunchKernel", "sendto"):
            with self.subTest(breakpoint=breakpoint), vrank.scratch() as plain, \
                    vrank.scratch() as debugged:
                expected = subprocess.run(self.command(plain), capture_output=True,
                                          text=True, timeout=120, check=True).stdout
                output, errors = self.held(breakpoint, debugged)
                self.assertEqual(vrank.prediction(output), vrank.prediction(expected))
                self.assertEqual(self.logs(debugged), self.logs(plain))
                self.assertIn(b"round 11", self.logs(plain)["rank1.out"])
                told = [line for line in errors.splitlines() if "has been stopped" in line]
                self.assertEqual(len(told), 1, errors)
                self.assertIn("rank 1", told[0])

    def emulated(self, *command):
        """The result of the program started by the command, and what its ranks wrote."""
        with vrank.scratch() as folder:
            done = subprocess.run(
                [vrank.VRANK, "emulate", "--world-size", "2", "--real", "0,1", "--gpu",
                 "h100", "--collectives", "--json", "--log-dir", folder, "--", *command],
                capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = [[line for line in pathlib.Path(folder, name).read_text().splitlines()
                     if line.startswith(f"rank {rank} round")]
                    for rank, name in enumerate(("rank0.out", "rank1.out"))]
        for lines in said:
            self.assertEqual(len(lines), 12)
        return vrank.prediction(done.stdout), said

    def test_started_by_a_debugger(self):
        """Neither what the debugger does before the program starts, nor how long it
        holds it before its first call, is the program's time."""
        alone = self.emulated(vrank.DEBUGGED_GUEST)
        gdb = ["gdb", "-nx", "-batch"]
        program = ["--args", vrank.DEBUGGED_GUEST]
        self.assertEqual(self.emulated(*gdb, "-ex", "run", *program), alone)
        held = ["-ex", "break main", "-ex", "run", "-ex", "shell sleep 2", "-ex", "continue"]
        self.assertEqual(self.emulated(*gdb, *held, *program), alone)
        if shutil.which("strace") is not None:
            strace = ["strace", "-f", "-o", "/dev/null"]
            self.assertEqual(self.emulated(*strace, vrank.DEBUGGED_GUEST), alone)


if __name__ == "__main__":
    unittest.main()
