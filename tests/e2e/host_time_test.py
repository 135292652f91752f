"""What a program computes between its calls takes host time: measured, or as recorded."""

import os
import pathlib
import unittest

import vrank_runner as vrank

MILLISECOND = 1_000_000
CLOCK_READING = 25  # kClockRead of base/guest/host_costs.def


class HostTimeTest(unittest.TestCase):

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.runs = 0

    def emulate(self, milliseconds, *flags, world=2, loader=(), host_cpu=False):
        """The report, and what rank 0's clock showed of the computing of each iteration."""
        self.runs += 1
        logs = self.folder / f"logs{self.runs}"
        report = vrank.run_json(
            "emulate", "--world-size", world, "--real", 0, "--json", "--log-dir", logs,
            *flags, "--", vrank.COMPUTING_GUEST, 1000 * milliseconds, *loader,
            host_cpu=host_cpu)
        shown = (logs / "rank0.out").read_text().split()
        return report, [int(number) for number in shown]

    @staticmethod
    def time_by(report, source):
        return report["ledger"][source] * report["ledger"]["critical_path_ns"]

    def record(self, milliseconds, name="host.vhost", **options):
        path = self.folder / name
        self.emulate(milliseconds, "--record-host-time", path, **options)
        return path

    def play(self, path, milliseconds, *flags, **options):
        # Whether the machine is busy while this runs is not the test's to say.
        return self.emulate(milliseconds, "--host-time", path, "--force-host-time", *flags,
                            **options)

    def test_modelled_takes_none_and_is_the_default(self):
        report, shown = self.emulate(5)
        self.assertEqual(shown, [CLOCK_READING] * 6)
        self.assertEqual(report["host_time"], {"mode": "modelled"})
        recorded, again = self.emulate(1, "--record-host-time", self.folder / "file.vhost")
        self.assertEqual(again, shown)
        self.assertEqual(recorded["iteration_time_ns"], report["iteration_time_ns"])

    def test_measured_time_passes(self):
        modelled, _ = self.emulate(0)
        for milliseconds in (1, 5, 20):
            report, shown = self.emulate(milliseconds, "--host-time", "measured")
            least = milliseconds * MILLISECOND // 2
            self.assertEqual(len(shown), 6)
            self.assertGreater(min(shown), least)
            for before, after in zip(modelled["iteration_time_ns"],
                                     report["iteration_time_ns"]):
                self.assertGreater(after, before + least)
            self.assertGreater(self.time_by(report, "measured"), 5 * least)
            # The rank that follows takes its leader's time.
            self.assertGreater(min(report["virtual_ranks"][0]["iteration_time_ns"]), least)

    def test_a_loader_that_computes_for_longer_makes_a_lower_bound(self):
        for kind, where in (("process", "that it started"),
                            ("thread", "beside those that issue work")):
            for mode in ("measured", "modelled"):
                with self.subTest(kind, mode=mode):
                    report, _ = self.emulate(0, "--host-time", mode, loader=(kind, 20_000),
                                             host_cpu=True)
                    bound = report["host_bound"]
                    self.assertGreater(bound["cpu_ns"], 10 * MILLISECOND)
                    self.assertLess(bound["iteration_ns"], 10 * MILLISECOND)
                    # With modelled host time the process is reported with all its threads.
                    of = "process" if (kind, mode) == ("thread", "modelled") else "threads"
                    self.assertEqual(bound["of"], of)
            told = vrank.run("emulate", "--quiet", "--world-size", 2, "--real", 0,
                             "--host-time", "measured", "--", vrank.COMPUTING_GUEST, 0, kind,
                             20_000, host_cpu=True).stdout
            self.assertRegex(told, rf"(?m)^lower bound rank 0: {kind} 'computing_guest' {where} "
                             r"used at least [.0-9]+ ms of CPU per iteration")
        report, _ = self.emulate(0, "--host-time", "measured", loader=("process", 1),
                                 host_cpu=True)
        self.assertIsNone(report["host_bound"])

    def test_a_recording_of_another_program_is_named(self):
        recording = self.record(0)
        played, _ = self.play(recording, 20, host_cpu=True)
        self.assertEqual(played["host_bound"]["of"], "recording")
        self.assertGreater(played["host_bound"]["cpu_ns"], 10 * MILLISECOND)
        recording = self.record(20, name="same.vhost")
        self.assertIsNone(self.play(recording, 20, host_cpu=True)[0]["host_bound"])

    def test_a_recording_is_played_alike_on_any_load(self):
        path = self.record(5)
        first, shown = self.play(path, 5)
        self.assertGreater(min(shown), 5 * MILLISECOND // 2)
        self.assertGreater(self.time_by(first, "recorded"), 5 * 5 * MILLISECOND // 2)
        self.assertEqual(first["ledger"]["measured"], 0)
        # What follows the last call, which no other one ends.
        self.assertLessEqual(first["host_time"]["gaps_unknown"], 1)
        # What the program computes now is no matter.
        second, again = self.play(path, 1)
        self.assertEqual(again, shown)
        del first["provenance"], second["provenance"]
        self.assertEqual(second, first)

    def test_a_recording_is_played_at_another_speed(self):
        path = self.record(2)
        _, shown = self.play(path, 0)
        _, faster = self.play(path, 0, "--host-speed", "2")
        for slow, fast in zip(shown, faster):
            self.assertEqual(fast - CLOCK_READING, (slow - CLOCK_READING) // 2)

    def test_a_recording_is_played_in_another_world(self):
        path = self.record(5)
        report, shown = self.play(path, 0, world=64)
        self.assertGreater(min(shown), 5 * MILLISECOND // 2)
        self.assertGreater(min(report["iteration_time_ns"]), 5 * MILLISECOND // 2)
        self.assertLessEqual(report["host_time"]["gaps_unknown"], 1)

    def test_recordings_are_merged(self):
        paths = [self.record(milliseconds, f"{milliseconds}.vhost", world=2)
                 for milliseconds in (4, 8)]
        # Of one program: the command's file is the same, its arguments are none.
        _, shown = self.play(",".join(map(str, paths)), 0)
        for one in shown[1:]:
            self.assertGreater(one, 5 * MILLISECOND)
            self.assertLess(one, 8 * MILLISECOND * 2)

    def test_a_recording_of_a_busy_machine_is_refused(self):
        path = self.record(1)
        # A further run, of 1 us of CPU time in which it lost its core 10 times
        # (emulator/host_time/host_times_file.proto).
        path.write_bytes(path.read_bytes() + bytes.fromhex("2205" "10e807" "180a"))
        done = vrank.run("emulate", "--world-size", 2, "--real", 0, "--host-time", path, "--",
                         vrank.COMPUTING_GUEST, 0, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("busy machine", done.stderr)
        self.assertIn("--force-host-time", done.stderr)
        self.play(path, 0)

    def test_flags_that_do_not_go_together(self):
        path = self.record(1)
        before = path.read_bytes()
        for flags, word in ((["--host-time", "no.vhost"], "no.vhost"),
                            (["--host-time", "mesured"], "give modelled, measured, or"),
                            (["--host-time", f"{path},measured"], "'measured' is no file"),
                            (["--host-time", path, "--record-host-time", path], "overwritten"),
                            (["--host-time", "measured", "--real-gpu"], "--real-gpu"),
                            (["--host-speed", "2"], "--host-speed"),
                            (["--host-time", "measured", "--host-speed", "0"], "factor"),
                            (["--host-time", "measured", "--force-host-time"], "file"),
                            (["--record-host-time", self.folder / "no" / "file"], "folder")):
            done = vrank.run("emulate", "--world-size", 2, "--real", 0, *flags, "--",
                             vrank.COMPUTING_GUEST, 0, check=False)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists("no.vhost"))
        self.assertEqual(path.read_bytes(), before)


if __name__ == "__main__":
    unittest.main()
