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

    def test_what_is_computed_between_ranges_is_in_none(self):
        path = self.record(5, loader=["apart"])
        for report, _ in (self.emulate(5, "--host-time", "measured", loader=["apart"]),
                          self.play(path, 5, loader=["apart"])):
            self.assertLess(max(report["iteration_time_ns"][1:]), 2 * MILLISECOND)
            ends = report["ranks"][0]["iteration_end_ns"]
            for before, after in zip(ends[1:], ends[2:]):
                self.assertGreater(after - before, 2 * MILLISECOND)
            self.assertGreater(report["between_iterations_ns"], 2 * MILLISECOND)
        told = vrank.run("emulate", "--quiet", "--world-size", 2, "--real", 0, "--host-time",
                         "measured", "--", vrank.COMPUTING_GUEST, 5000, "apart").stdout
        self.assertRegex(told, r"(?m)^  from one to the next [.0-9]+ ms pass \(mean\)")

    def test_a_log_in_some_iterations_takes_nothing_from_the_others(self):
        path = self.record(5, loader=["logs"])
        report, _ = self.play(path, 5, loader=["logs"])
        ends = report["ranks"][0]["iteration_end_ns"]
        apart = [after - before for before, after in zip(ends[1:], ends[2:])]
        for time in apart:
            self.assertGreater(time, 4 * MILLISECOND)
            self.assertLess(time, 1.5 * min(apart))

    def test_what_a_process_computes_for_the_rank_delays_it(self):
        path = self.record(0, loader=("process", 20_000))
        for report, _ in (self.emulate(0, "--host-time", "measured",
                                       loader=("process", 20_000), host_cpu=True),
                          self.play(path, 0, loader=("process", 20_000), host_cpu=True)):
            self.assertIsNone(report["host_bound"])
            for time in report["iteration_time_ns"][2:]:
                self.assertGreater(time, 15 * MILLISECOND)
        # As recorded, whatever it computes now.
        played = [self.play(path, 0, loader=("process", loads))[0]
                  for loads in (20_000, 1000)]
        for report in played:
            del report["provenance"]
        self.assertEqual(*played)

    def test_a_loader_that_computes_for_longer_makes_a_lower_bound(self):
        for kind, where in (("process", "that it started"),
                            ("thread", "beside those that issue work")):
            for mode in ("measured", "modelled") if kind == "thread" else ("modelled",):
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
                             "--host-time",
                             "measured" if kind == "thread" else "modelled", "--",
                             vrank.COMPUTING_GUEST, 0, kind,
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


def fields(data):
    """Fields of a protobuf message: (number, an int or bytes)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = 8 if key & 7 == 1 else varint()
        yield key >> 3, data[at:at + size]
        at += size


def host_slices(trace):
    """Time by name on the tracks called "host" of a Perfetto trace
    (graph/export/perfetto.cc lists the fields)."""
    names, hosts, opened, times = {}, set(), {}, {}
    for _, packet in fields(trace.read_bytes()):
        packet = dict(fields(packet))
        if 12 in packet:
            name = dict(fields(dict(fields(packet[12]))[2]))
            names[name[1]] = name[2].decode()
        elif 60 in packet:
            track = dict(fields(packet[60]))
            if 4 in track and dict(fields(track[4]))[5] == b"host":
                hosts.add(track[1])
        elif 11 in packet:
            event = dict(fields(packet[11]))
            if event[11] in hosts and event[9] == 1:
                opened[event[11]] = (packet[8], names[event[10]])
            elif event[11] in hosts and event[9] == 2:
                begin, name = opened.pop(event[11])
                times[name] = times.get(name, 0) + packet[8] - begin
    return times


class HostTimeInGraphsTest(unittest.TestCase):
    """Slices of virtual GPUs hold it, and whatever is made of them."""

    JOB = ["--world-size", 2, "--ranks-per-node", 1, "--layout", "dp=2"]
    PROGRAM = ["--", vrank.COMPUTING_GUEST, 5000]

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.recording = self.folder / "host.vhost"
        vrank.run("emulate", *self.JOB, "--real", 0, "--record-host-time", self.recording,
                  "--quiet", *self.PROGRAM)
        self.flags = ["--host-time", self.recording, "--force-host-time"]

    def graph(self, name, *flags, job=None):
        slices = self.folder / f"{name}.slices"
        vrank.run("trace", *(job or self.JOB), "-o", slices, "--check", "--quiet", *flags,
                  *self.PROGRAM)
        graph = self.folder / f"{name}.vgraph"
        vrank.run("build", slices, "-o", graph, "--quiet")
        return graph

    @staticmethod
    def replay(graph, *flags):
        return vrank.run_json("replay", graph, "--json", *flags)

    @staticmethod
    def recorded(replay):
        (one,) = replay["classes"]
        return one["breakdown"]["host_by_source"]["recorded"]

    def test_a_graph_holds_what_was_recorded(self):
        emulated = vrank.run_json("emulate", *self.JOB, "--real", 0, "--json", *self.flags,
                                  *self.PROGRAM)
        graph = self.graph("recorded", "--ranks", 0, *self.flags)
        replay = self.replay(graph)
        self.assertEqual(replay["iteration_time_ns"], emulated["iteration_time_ns"])
        self.assertEqual(replay["host_time"]["mode"], "recorded")
        total = emulated["ranks"][0]["host"]["the program itself, between calls"]["time_ns"]
        self.assertGreater(total, 6 * 5 * MILLISECOND // 2)
        trace = self.folder / "trace"
        self.replay(graph, "--perfetto", trace, "--perfetto-run")
        self.assertEqual(host_slices(trace)["host time, recorded"], total)
        without = self.replay(self.graph("modelled", "--ranks", 0))
        self.assertEqual(without["host_time"]["mode"], "modelled")
        self.assertEqual(self.recorded(without), 0)
        self.assertLess(max(without["iteration_time_ns"]), MILLISECOND)

        # Each iteration: ledger, breakdown, critical path and Perfetto agree.
        for iteration in range(6):
            one = self.replay(graph, "--iteration", iteration, "--perfetto", trace)
            shown = host_slices(trace)["host time, recorded"]
            path = one["host_time"]["critical_path_ns"]["recorded"]
            self.assertGreater(path, 5 * MILLISECOND // 2)
            self.assertGreaterEqual(shown, path)
            self.assertGreaterEqual(path, self.recorded(one))
            self.assertLess(shown - self.recorded(one), MILLISECOND // 10)
            self.assertAlmostEqual(
                one["ledger"]["recorded"] * one["critical_path"]["length_ns"], path,
                delta=10)
            host = [row for row in one["critical_path"]["contributors"]
                    if row["kind"] == "host"]
            self.assertGreaterEqual(sum(row["time_ns"] for row in host), path)
        text = vrank.run("replay", graph).stdout
        self.assertRegex(text, r"(?m)^host time   5[.0-9]+ ms of the critical path is CPU "
                         "time between calls, recorded$")

        # What-ifs keep it, but those of the host.
        before = self.recorded(replay)
        for edit in ("kernel * x0.5", "network free"):
            edited = self.replay(graph, "--what-if", edit)
            self.assertLess(abs(self.recorded(edited) - before), MILLISECOND // 10)
        faster = self.replay(graph, "--what-if", "host x0.5")
        self.assertEqual(self.recorded(faster), 0)
        saved = replay["iteration_time_ns"][-1] - faster["iteration_time_ns"][-1]
        self.assertLess(abs(saved - before // 2), MILLISECOND // 10)
        cluster = self.replay(graph, "--cluster", "hgx-a100-ib200")
        self.assertLess(abs(self.recorded(cluster) - before), MILLISECOND // 10)

        # So do 1,022 ranks more.
        larger = self.folder / "larger.vgraph"
        vrank.run("scale", graph, "--layout", "dp=1024", "-o", larger)
        scaled = self.replay(larger)
        self.assertEqual(scaled["classes"][0]["ranks"], "0-1023")
        self.assertEqual(self.recorded(scaled), before)

    def test_slices_of_one_recording_are_equal(self):
        first, second = (self.graph(name, "--ranks", 0, *self.flags) for name in "ab")
        self.assertEqual(first.read_bytes(), second.read_bytes())
        slices = self.folder / "a.slices"
        [held] = vrank.run_json("build", "--list", slices, "--json")["slices"]
        self.assertEqual(held["host_time_source"], "recorded")
        self.assertGreater(held["host_time_ns"], 0)
        table = vrank.run("build", "--list", slices).stdout.splitlines()
        self.assertRegex(table[0], r"  host time$")
        self.assertRegex(table[1], r" recorded$")
        done = vrank.run("trace", *self.JOB, "--ranks", 1, "-o", slices, "--host-time",
                         "measured", *self.PROGRAM, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("host_time=measured", done.stderr)

    def test_measured_time_is_measured_in_the_graph(self):
        graph = self.graph("measured", "--ranks", "0,1", "--host-time", "measured")
        replay = self.replay(graph)
        self.assertEqual(replay["host_time"]["mode"], "measured")
        self.assertGreater(min(replay["iteration_time_ns"]), 5 * MILLISECOND // 2)
        self.assertGreater(replay["ledger"]["measured"], 0.8)
        self.assertEqual(replay["ledger"]["recorded"], 0)
        self.assertRegex(vrank.run("replay", graph).stdout, r"[.0-9]+ % measured, ")
        # Two measurements of one program make no two programs.
        beside = vrank.run_json("emulate", "--graph", graph, "--real", 0, "--host-time",
                                "measured", "--json", *self.PROGRAM)
        self.assertEqual(beside["played"], {"following": 1, "recorded": 0, "absent": 0})

    def test_ranks_that_play_a_graph_take_its_host_time(self):
        # Of two stages: rank 1 cannot follow rank 0, whose host takes none.
        job = ["--world-size", 2, "--ranks-per-node", 1, "--layout", "pp=2"]
        graphs = [self.graph(name, *flags, job=job)
                  for name, flags in (("with", self.flags), ("without", []))]
        beside = [vrank.run_json("emulate", "--graph", graph, "--real", 0, "--json",
                                 *self.PROGRAM) for graph in graphs]
        for report in beside:
            self.assertEqual(report["played"], {"following": 0, "recorded": 1, "absent": 0})
        self.assertGreater(min(beside[0]["iteration_time_ns"]), 5 * MILLISECOND // 2)
        self.assertLess(max(beside[1]["iteration_time_ns"]), MILLISECOND)
        self.assertGreater(beside[0]["ledger"]["recorded"], 0.8)
        losses = [{loss["name"] for loss in report["losses"]} for report in beside]
        self.assertIn("graph_of_other_costs", losses[0])
        self.assertNotIn("graph_of_other_costs", losses[1])

    def test_flags_of_trace(self):
        for flags, word in ((["--host-time", "no.vhost"], "no.vhost"),
                            (["--host-time", "measured", "--real-gpu"], "--real-gpu"),
                            (["--host-speed", "2"], "--host-speed"),
                            (["--record-host-time", "new.vhost"], "--record-host-time")):
            done = vrank.run("trace", *self.JOB, "-o", self.folder / "none", *flags,
                             *self.PROGRAM, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
