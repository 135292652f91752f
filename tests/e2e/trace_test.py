"""A trace says, node by node, what the emulator received from the same run."""

import os
import pathlib
import sys
import unittest

import vrank_runner as vrank


def trace(folder, layout, *flags, program=None, **options):
    world_size = layout[0] * layout[1] * layout[2]
    return vrank.run("trace", "--quiet", "--check", "--world-size", world_size, "--layout",
                     vrank.layout_flag(*layout), "--kernels", vrank.KERNELS, "-o", folder,
                     *flags, "--", *(program or vrank.trainer(*layout)), **options)


class TraceTest(unittest.TestCase):

    def setUp(self):
        self.scratch = vrank.scratch()
        self.addCleanup(self.scratch.cleanup)
        self.place = pathlib.Path(self.scratch.name)

    def test_every_rank_of_every_layout_agrees(self):
        for layout in vrank.LAYOUTS:
            with self.subTest(layout=layout):
                folder = self.place / vrank.layout_flag(*layout)
                done = trace(folder, layout, "--ranks", "0-7")
                self.assertEqual(len(list(folder.glob("*.vtrace"))), 8)
                self.assertIn("8 slices agree", done.stdout)
                built = vrank.run_json("build", folder, "-o", folder / "job.vgraph", "--json")
                # What the run itself lost; building loses nothing, and how the kernels take
                # their arguments is known, structures by value included.
                self.assertLessEqual({loss["name"] for loss in built["losses"]},
                                     {"computed_bytes_to_host"})

    def test_however_a_program_begins_and_ends(self):
        for name in vrank.program_output(vrank.SHORT_PROGRAMS_GUEST).split():
            with self.subTest(name):
                job = ["--quiet", "--world-size", 1, "--layout", "dp=1"]
                program = ["--", vrank.SHORT_PROGRAMS_GUEST, name]
                folder = self.place / name
                done = vrank.run("trace", "--check", *job, "-o", folder, *program, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                live = vrank.run_json("emulate", "--json", *job, "--real", 0, *program)
                vrank.run("build", folder, "-o", folder / "job.vgraph")
                replay = vrank.run_json("replay", "--json", folder / "job.vgraph")
                # Without an iteration in it the whole run counts as one. It lasts until its
                # last device work is complete, which one program does not wait for.
                times, end = replay["iteration_time_ns"], live["ranks"][0]["end_ns"]
                if name == "LastLaunch":
                    self.assertEqual(len(times), 1)
                    self.assertGreater(times[0], end)
                else:
                    self.assertEqual(times, [end])
                self.assertEqual(replay["classes"][0]["peak_memory_bytes"],
                                 live["ranks"][0]["peak_memory_bytes"])

    def test_the_process_with_the_context_is_traced(self):
        """Not one that asked for devices before, nor one that the virtual GPU refuses."""
        asks = ("import ctypes, subprocess, sys\n"
                "cuda = ctypes.CDLL('libcudart.so.13')\n"
                "assert cuda.cudaGetDeviceCount(ctypes.byref(ctypes.c_int())) == 0\n"
                "done = subprocess.run(sys.argv[2:])\n"
                "if sys.argv[1] == 'refused': assert cuda.cudaFree(None) == 46\n"
                "sys.exit(done.returncode)\n")
        for how in ("asks", "refused"):
            folder = self.place / how
            done = vrank.run("trace", "--check", "--world-size", 1, "--layout", "dp=1", "-o",
                             folder, "--", sys.executable, "-c", asks, how, *vrank.trainer(1, 1, 1))
            self.assertNotIn("tracer:", done.stderr)
            self.assertEqual("another process of this rank" in done.stderr, how == "refused")
            [held] = vrank.run_json("build", "--list", folder, "--json")["slices"]
            self.assertGreater(held["kernels"], 0)

    def test_a_second_process_of_a_rank_is_refused(self):
        """As without tracing: by the virtual GPU, which says so."""
        for script in ('"$@" && "$@"', '"$@" & first=$!; "$@"; code=$?; wait $first && exit $code'):
            done = vrank.run("trace", "--world-size", 1, "--layout", "dp=1", "--overwrite", "-o",
                             self.place / "slices", "--", "sh", "-c", script, "sh",
                             *vrank.trainer(1, 1, 1), check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("start the program once per rank", done.stderr)
            self.assertNotIn("tracer:", done.stderr)
            self.assertFalse(list((self.place / "slices").glob("*.vtrace")))

    def test_a_falsified_trace_is_found_out(self):
        for how, words in (("none", None), ("longer", "ns on lane"),
                           ("renamed", "ns on lane"), ("unwaited", "wait_token"),
                           ("unfreed", "memory"), ("swapped", "release_communicator")):
            with self.subTest(how):
                done = trace(self.place / how, (2, 2, 2), "--ranks", "0", check=False,
                             executable=vrank.WRONG_TRACE_VRANK,
                             env=dict(os.environ, VRANK_WRONG_TRACE=how))
                if words is None:
                    self.assertEqual(done.returncode, 0, done.stderr)
                    continue
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("not what the emulator received from rank 0", done.stderr)
                self.assertIn(words, done.stderr)
                self.assertRegex(done.stderr, "in the emulator's stream, .* in the trace")

    def test_a_layout_that_nobody_states(self):
        for layout in [(2, 2, 2), (1, 8, 1), (4, 2, 1), (2, 1, 4)]:
            with self.subTest(layout=layout):
                replays = []
                for how in ("inferred", "stated"):
                    folder = self.place / (vrank.layout_flag(*layout) + how)
                    flags = ["--layout", vrank.layout_flag(*layout)] * (how == "stated")
                    traced = vrank.run_json("trace", "--quiet", "--json", "--world-size", 8,
                                            *flags, "-o", folder, "--",
                                            *vrank.trainer(*layout))
                    self.assertEqual(traced["layout_inferred"], how == "inferred")
                    built = vrank.run_json("build", folder, "-o", folder / "job.vgraph",
                                           "--json")
                    self.assertEqual(built["layout_inferred"], how == "inferred")
                    self.assertEqual(built["layout"], traced["layout"])
                    replay = vrank.run_json("replay", folder / "job.vgraph", "--json")
                    # Names of dimensions cannot be told from groups: tp=4 may be dp=4.
                    self.assertEqual(replay.pop("layout"), built["layout"])
                    replays.append(replay)
                self.assertEqual(*replays)

    def test_groups_finer_than_those_of_the_first_iteration(self):
        # Slices of the layout that the first iteration shows do not stay, whether there
        # was something to be overwritten or not.
        vrank.run("trace", "--quiet", "--overwrite", "--world-size", 8, "-o",
                  self.place / "slices", "--", vrank.LATE_GROUPS_GUEST, "--coarse")
        built = vrank.run_json("build", self.place / "slices", "-o",
                               self.place / "job.vgraph", "--json")
        self.assertEqual(built["layout"], "tp=2,dp=4,order=tp-dp")
        report = vrank.run_json("validate", "--quiet", "--json", "--via-graph", "--ranks",
                                8, "--real", 0, "--", vrank.LATE_GROUPS_GUEST, "--coarse")
        for case in report["cases"]:
            self.assertEqual(case["max_iteration_error_ns"], 0)
            self.assertEqual(case["peak_memory_error_bytes"], 0)

    def test_says_which_slices_a_graph_needs_besides(self):
        done = trace(self.place / "slices", (2, 2, 1), "--ranks", "0")
        self.assertIn("pp 1 has none yet; trace the same job with --ranks 2", done.stdout)
        self.assertNotEqual(vrank.run("build", self.place / "slices", "-o",
                                      self.place / "job.vgraph", check=False).returncode, 0)
        done = trace(self.place / "slices", (2, 2, 1), "--ranks", "2")
        self.assertNotIn("none yet", done.stdout)
        vrank.run("build", self.place / "slices", "-o", self.place / "job.vgraph")

    def test_overwriting_leaves_no_slice_of_another_job(self):
        """Where it fails half way: neither the slices that it had not got to."""
        folder = self.place / "slices"
        trace(folder, (1, 1, 2), "--ranks", "0,1")
        fails = ["sh", "-c",
                 '[ "$RANK" = 1 ] && [ "$VRANK_TRACE_FILE" ] && exit 3; exec "$@"', "sh"]
        done = trace(folder, (1, 1, 2), "--ranks", "0,1", "--overwrite",
                     program=[*fails, *vrank.trainer(1, 1, 2)], check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([path.name for path in folder.glob("*.vtrace")],
                         ["rank000000.vtrace"])

    def test_a_trace_that_fails_leaves_no_empty_folder(self):
        for command in ("false", "true"):  # fails; makes no CUDA call
            done = vrank.run("trace", "--quiet", "--world-size", 2, "--layout", "dp=2",
                             "-o", self.place / "new" / "slices", "--", command,
                             check=False)
            self.assertEqual(done.returncode, 1)
            self.assertFalse((self.place / "new").exists())
            if command == "true":
                [line] = done.stderr.splitlines()
                self.assertIn("without giving their GPUs any work", line)
        there = self.place / "there"
        there.mkdir()
        vrank.run("trace", "--quiet", "--world-size", 2, "--layout", "dp=2", "-o", there,
                  "--", "false", check=False)
        self.assertTrue(there.exists())

    def test_what_a_run_lost_hangs_on_no_slice_beside_it(self):
        losses = []
        for together in (1, 4):
            folder = self.place / f"{together}"
            trace(folder, (1, 1, 4), "--ranks", "0-3", "--together", together)
            built = vrank.run_json("build", folder, "-o", folder / "job.vgraph", "--json")
            losses.append(built["losses"])
        self.assertGreater(sum(loss["count"] for loss in losses[0]), 0)
        self.assertEqual(*losses)

    def test_an_empty_trace_is_listed_beside_others(self):
        trace(self.place / "slices", (1, 1, 2), "--ranks", "0")
        (self.place / "slices" / "rank000001.vtrace.raw").touch()
        done = vrank.run("build", "--list", self.place / "slices", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank000000.vtrace ", done.stdout)
        self.assertRegex(done.stdout, r"rank000001.vtrace.raw': the file is empty")

    def test_a_communicator_that_comes_after_the_first_iteration(self):
        """Learning begins with one iteration; what that does not show is learned, too."""
        for flags in (["--layout", "tp=2,dp=4"], []):
            report = vrank.run_json("validate", "--quiet", "--json", "--via-graph", "--ranks", 8,
                                    *flags, "--real", 0, "--", vrank.LATE_GROUPS_GUEST)
            for case in report["cases"]:
                self.assertGreater(case["collectives"], 8 * 3)
                self.assertEqual(case["unmatched"], 0)
                self.assertEqual(case["max_iteration_error_ns"], 0)
                self.assertEqual(case["max_collective_error_ns"], 0)
                self.assertEqual(case["peak_memory_error_bytes"], 0)

    def test_large_worlds_must_state_their_layout(self):
        done = vrank.run("trace", "--world-size", 128, "-o", self.place / "slices", "--",
                         *vrank.trainer(8, 4, 4), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("state --layout", done.stderr)

    def test_what_a_killed_rank_left_can_be_read(self):
        folder = self.place / "slices"
        # Killed in the middle, and only where it is traced; the tracer writes now and then.
        script = ("import os,subprocess,sys,time\n"
                  "p=subprocess.Popen(sys.argv[1:],stdout=subprocess.PIPE,text=True)\n"
                  "for line in p.stdout:\n"
                  "    if 'iteration 2/' in line and 'VRANK_TRACE_FILE' in os.environ:\n"
                  "        time.sleep(3)\n"
                  "        p.kill()\n"
                  "sys.exit(-p.wait())\n")
        done = vrank.run("trace", "--quiet", "--world-size", 1, "--layout", "dp=1", "-o", folder,
                         "--", "python3", "-c", script, *vrank.trainer(1, 1, 1, "--iterations", "100000"),
                         check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("vrank build --list", done.stderr)
        [raw] = folder.glob("*.vtrace.raw")
        [held] = vrank.run_json("build", "--list", folder, "--json")["slices"]
        self.assertEqual(held["file"], str(raw))
        self.assertIsNone(held["rank"])
        self.assertFalse(held["complete"])
        self.assertGreater(held["kernels"], 0)
        refused = vrank.run("build", raw, "-o", folder / "job.vgraph", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("trace the rank again", refused.stderr)


if __name__ == "__main__":
    unittest.main()
