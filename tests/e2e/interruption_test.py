"""SIGINT, SIGTERM and SIGHUP end any command with one line that says what stays."""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import termios
import time
import unittest

import vrank_runner as vrank

F_GETPIPE_SZ = 1032  # linux/fcntl.h; Python has it from 3.10 on
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
TRACE = ["trace", "--quiet", "--world-size", "8", "--layout", "tp=2,pp=2,dp=2", "--ranks", "0-7"]

# Tells a semaphore's name once the process is ready that unlinks it at the end.
CLEANED_UP = """
import multiprocessing.resource_tracker
import os
import pathlib
import signal
import sys
lock = multiprocessing.get_context("spawn").Lock()
tracker = multiprocessing.resource_tracker._resource_tracker._pid
both = 1 << signal.SIGINT - 1 | 1 << signal.SIGTERM - 1
ignored = 0
while ignored & both != both:
    status = pathlib.Path(f"/proc/{tracker}/status").read_text()
    ignored = int(status.split("SigIgn:")[1].split()[0], 16)
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that it is killed
told = pathlib.Path(sys.argv[1] + ".part")
told.write_text(lock._semlock.name)
os.rename(told, sys.argv[1])
signal.pause()
"""


class InterruptionTest(unittest.TestCase):

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.place = pathlib.Path(scratch.name)
        self.mark = f"INTERRUPTION_TEST_MARK={os.getpid()}."

    def start(self, *command):
        name, value = self.mark.split("=")
        return subprocess.Popen([vrank.VRANK, *map(str, command)], text=True,
                                env=dict(os.environ, TMPDIR=str(self.place), **{name: value}),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @staticmethod
    def await_handlers(process):
        mask = 1 << (signal.SIGTERM - 1)
        while process.poll() is None:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            if int(status.split("SigCgt:")[1].split()[0], 16) & mask:
                return

    def end(self, process, number):
        """What it says: one line, and no process stays. None: it had ended before."""
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        if process.returncode == 0:
            return None
        self.assertEqual(process.returncode, -number, err)
        self.assertEqual(out, "")
        [line] = err.splitlines()
        self.assertIn(f"interrupted by {number.name}; ", line)
        deadline = time.monotonic() + 20
        while vrank.processes_with(self.mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(vrank.processes_with(self.mark), [])
        return line

    def test_traces(self):
        for number in SIGNALS:
            for slices in (0, 1, 3):
                folder = self.place / f"{number.name}-{slices}"
                process = self.start(*TRACE, "-o", folder, "--",
                                     *vrank.trainer(2, 2, 2, "--iterations", "20"))
                while len(list(folder.glob("*.vtrace"))) < slices and process.poll() is None:
                    time.sleep(0.002)
                self.await_handlers(process)
                line = self.end(process, number)
                complete = list(folder.glob("*.vtrace"))
                if line is None:
                    self.assertEqual(len(complete), 8)
                    continue
                self.assertRegex(line, f"{len(complete)} of 8 slices are complete in {folder}"
                                 if complete else "no slice is complete|no output is half")
                left = [each for each in folder.glob("*") if each not in complete]
                for each in left:  # of a rank that ran: told, and readable
                    self.assertIn(str(each), line)
                if complete:
                    vrank.run("build", "--list", *complete)
                elif not left:
                    self.assertFalse(folder.exists(), line)

    def test_builds(self):
        slices = self.place / "slices"
        vrank.run(*TRACE, "-o", slices, "--", *vrank.trainer(2, 2, 2))
        graph = self.place / "job.vgraph"
        for number in SIGNALS:
            line = None
            while line is None:  # it takes some hundredths of a second, and may be over
                graph.write_text("as it was")
                process = self.start("build", slices, "-o", graph)
                self.await_handlers(process)
                line = self.end(process, number)
            self.assertIn("no ", line)
            self.assertEqual(graph.read_text(), "as it was")
            self.assertEqual(sorted(path.name for path in self.place.iterdir()),
                             ["job.vgraph", "slices"])

    def test_validations_in_between(self):
        """Nor does one go on with its next case."""
        for after in (0.1, 0.4, 0.7):
            process = self.start("validate", "--quiet", "--ranks", 8, "--layout",
                                 "tp=2,pp=2,dp=2", "--real", "each", "--",
                                 *vrank.trainer(2, 2, 2, "--iterations", "100"))
            self.await_handlers(process)
            time.sleep(after)
            self.assertIsNotNone(self.end(process, signal.SIGTERM))

    STUBBORN = {
        "spins": "trap '' TERM INT HUP; echo ready >&2; while :; do :; done",
        "hangs": "trap '' TERM INT HUP; echo ready >&2; exec tail -f /dev/null",
        "is stopped": "echo ready >&2; kill -STOP $$",
        "has left a daemon": "(setsid sh -c \"trap '' TERM INT HUP; while :; do :; done\" &) ; "
                             "echo ready >&2; exec tail -f /dev/null",
    }

    def test_ranks_that_do_not_end_by_themselves(self):
        jobs = {"emulate": ["--world-size", 2, "--real", "0,1"],
                "trace": ["--world-size", 2, "--ranks", "0,1", "-o", self.place / "slices"],
                "validate": ["--ranks", 2, "--layout", "tp=2", "--real", "each"]}
        for case, (rank, script) in enumerate(self.STUBBORN.items()):
            for command, flags in jobs.items():
                number = SIGNALS[case % len(SIGNALS)]
                with self.subTest(rank=rank, command=command, signal=number.name):
                    before = vrank.shared_memory()
                    process = self.start(command, *flags, "--gpu", "h100", "--", "sh", "-c", script)
                    self.addCleanup(process.kill)
                    heard = ""
                    while "ready" not in heard:
                        line = process.stderr.readline()
                        self.assertTrue(line, heard)
                        heard += line
                    process.send_signal(number)
                    out, err = process.communicate(timeout=60)
                    self.assertEqual(process.returncode, -number, err)
                    self.assertEqual(out, "")
                    self.assertIn(f"interrupted by {number.name}; ", err)
                    self.assertEqual(vrank.processes_with(self.mark), [])
                    self.assertEqual(list(self.place.iterdir()), [])
                    self.assertEqual(vrank.shared_memory() - before, set())

    def test_a_job_that_has_completed_iterations_prints_its_result(self):
        process = self.start("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json", "--",
                             *vrank.trainer(1, 1, 1, "--iterations", 1_000_000))
        self.addCleanup(process.kill)
        heard = ""
        while heard.count("iteration ") < 3:
            line = process.stderr.readline()
            self.assertTrue(line, heard)
            heard += line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("interrupted by SIGINT", err)
        result = json.loads(out)
        self.assertGreater(len(result["iteration_time_ns"]), 1)
        self.assertIn("interrupted by SIGINT", result["failure"])
        self.assertEqual(vrank.processes_with(self.mark), [])

    # The loop waits for the reader of the pipe, and cannot answer the signal by itself.
    def test_a_reader_that_has_stopped_reading(self):
        for command, flags in {"emulate": ["--world-size", 1, "--real", 0],
                               "trace": ["--world-size", 1, "-o", self.place / "slices"]}.items():
            process = self.start(command, *flags, "--gpu", "h100", "--", "yes")
            self.addCleanup(process.kill)
            pipe = process.stderr.fileno()
            waiting = bytearray(4)
            while int.from_bytes(waiting, sys.byteorder) < fcntl.fcntl(pipe, F_GETPIPE_SZ) - 4096:
                fcntl.ioctl(pipe, termios.FIONREAD, waiting)
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
            self.assertEqual(vrank.processes_with(self.mark), [])
            self.assertEqual(list(self.place.iterdir()), [])
            process.communicate()

    # A process that outlives the others on purpose: Python's, which unlinks semaphores.
    def test_what_cleans_up_is_let(self):
        made, program = self.place / "made", self.place / "program.py"
        program.write_text(CLEANED_UP)
        process = self.start("emulate", "--quiet", "--world-size", 1, "--real", 0, "--",
                             sys.executable, program, made)
        self.addCleanup(process.kill)
        while not made.exists() and process.poll() is None:
            time.sleep(0.01)
        semaphore = pathlib.Path(f"/dev/shm/sem.{made.read_text().lstrip('/')}")
        self.assertTrue(semaphore.exists())
        self.end(process, signal.SIGTERM)
        self.assertFalse(semaphore.exists())


if __name__ == "__main__":
    unittest.main()
