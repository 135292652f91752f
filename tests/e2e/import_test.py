"""A profile becomes a graph, the graph replays, and what does not fit is one error."""

import json
import pathlib
import tempfile
import unittest

import vrank_runner as vrank


def call(name, ts, dur, correlation):
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 9, "tid": 9, "ts": ts,
            "dur": dur, "args": {"correlation": correlation}}


def kernel(name, ts, dur, correlation, **args):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts,
            "dur": dur, "args": {"device": 0, "stream": 7, "correlation": correlation,
                                 **args}}


def profile(rank, begin):
    """A kernel, an all-reduce that ends at 400 us on both ranks, a wait, a step."""
    collective = {"Collective name": "allreduce", "In msg nelems": 1 << 20,
                  "dtype": "Float", "Group size": 2, "Process Group Name": "0",
                  "Process Group Ranks": "[0, 1]"}
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 9, "tid": 9,
         "ts": begin, "dur": 450 - begin, "args": {}},
        call("cudaLaunchKernel", begin, 5, 1),
        kernel("gemm", begin + 6, 100, 1),
        call("cudaLaunchKernel", begin + 10, 5, 2),
        kernel("ncclDevKernel_AllReduce(x)", begin + 106, 294 - begin, 2, **collective),
        call("cudaDeviceSynchronize", begin + 20, 385 - begin, 3),
    ]
    return {"distributedInfo": {"rank": rank, "world_size": 2},
            "deviceProperties": [{"name": "a GPU"}], "traceEvents": events}


class ImportTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vrank import ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, rank, begin):
        path = self.folder / f"rank {rank}.json"
        path.write_text(json.dumps(profile(rank, begin)))
        return path

    def test_a_run_comes_back(self):
        files = [self.write(0, 0), self.write(1, 60)]
        graph = self.folder / "run.vgraph"
        made = vrank.run_json("import", "kineto", *files, "-o", graph, "--json", "--quiet")
        self.assertEqual(made["schema"], "vrank.import/1")
        self.assertEqual(made["recorded_ranks"], [0, 1])
        self.assertEqual(made["communicators"], 1)
        replay = vrank.run_json("replay", graph, "--against-recording", "--json", "--quiet")
        against = replay["against_recording"]
        self.assertEqual([one["recorded_ns"] for one in against["iterations"]],
                         [450000, 390000])
        self.assertEqual([one["replayed_ns"] for one in against["iterations"]],
                         [450000, 390000])
        self.assertEqual(against["collective_ends"]["count"], 2)
        self.assertEqual(against["collective_ends"]["largest_ns"], 0)
        self.assertEqual(replay["cluster"], "recorded")
        text = vrank.run("replay", graph, "--against-recording", "--quiet").stdout
        self.assertIn("ProfilerStep#3", text)

    def test_a_run_of_which_one_rank_was_recorded(self):
        graph = self.folder / "one.vgraph"
        vrank.run("import", "kineto", self.write(1, 60), "-o", graph, "--quiet")
        replay = vrank.run_json("replay", graph, "--json", "--quiet")
        self.assertEqual(replay["recorded_ranks"], [1])
        self.assertEqual(replay["iteration_time_ns"], [390000])
        self.assertEqual([one["ranks"] for one in replay["classes"]], ["1"])
        self.assertEqual(sum(part for part in replay["ledger"].values()), 1)
        path = replay["critical_path"]
        self.assertEqual((path["rank"], path["length_ns"]), (1, 390000))
        text = vrank.run("replay", graph, "--quiet").stdout
        self.assertIn("only 1 of 2 ranks (1)", text)
        self.assertIn("390.000 us", text)
        jitter = vrank.run_json("replay", graph, "--jitter", "1%", "--json", "--quiet")
        self.assertEqual([one["ranks"] for one in jitter["classes"]], ["1"])
        self.assertEqual(jitter["recorded_ranks"], [1])
        vrank.run("replay", graph, "--quiet", "--perfetto", self.folder / "one.pftrace")

    def test_a_straggler_holds_up_both(self):
        files = [self.write(0, 0), self.write(1, 60)]
        graph = self.folder / "run.vgraph"
        vrank.run("import", "kineto", *files, "-o", graph, "--quiet")
        slow = vrank.run_json("replay", graph, "--straggler", "1=11", "--against-recording",
                              "--json", "--quiet")
        # Its kernel of 100 us takes 1,100.
        for one in slow["against_recording"]["iterations"]:
            self.assertEqual(one["replayed_ns"] - one["recorded_ns"], 1000000)

    def test_what_ifs_edit_the_graph(self):
        files = [self.write(0, 0), self.write(1, 60)]
        graph = self.folder / "run.vgraph"
        vrank.run("import", "kineto", *files, "-o", graph, "--quiet")
        # Both all-reduces take 234 us behind rank 1's kernel, which ends at 166 us.
        edited = vrank.run_json("replay", graph, "--what-if", "kernel g?mm x0.5", "--what-if",
                                "all_reduce x0.5", "--json", "--quiet")
        what_if = edited["what_if"]
        self.assertEqual([edit["edit"] for edit in what_if["edits"]],
                         ["kernel g?mm x0.5", "all_reduce x0.5"])
        self.assertEqual([edit["nodes"] for edit in what_if["edits"]], [2, 2])
        self.assertEqual([edit["after_ns"] for edit in what_if["edits"]], [100000, 234000])
        self.assertEqual([edit["assumed_before"] for edit in what_if["edits"]], [0, 0])
        self.assertEqual((what_if["before_ns"], what_if["after_ns"]), (450000, 283000))
        self.assertEqual(edited["iteration_time_ns"], [283000])
        self.assertGreater(edited["ledger"]["assumed"], 0.3)
        text = vrank.run("replay", graph, "--what-if", "network free", "--quiet").stdout
        self.assertIn("iteration 0 takes 216.000 us instead of 450.000 us: 52.0 % shorter", text)

    def test_the_table_of_what_ifs_is_sorted_by_gain(self):
        files = [self.write(0, 0), self.write(1, 60)]
        graph = self.folder / "run.vgraph"
        vrank.run("import", "kineto", *files, "-o", graph, "--quiet")
        table = vrank.run_json("replay", graph, "--what-if-table", "--json", "--quiet")
        self.assertEqual(table["schema"], "vrank.what_if_table/1")
        self.assertEqual(table["iteration_time_ns"], 450000)
        gains = {row["edit"]: row["gain_ns"] for row in table["rows"]}
        self.assertEqual(gains["all_reduce free"], 234000)
        # The launch of the all-reduce comes 10 us behind the kernel's.
        self.assertEqual(gains["kernel gemm free"], 90000)
        self.assertEqual(list(gains.values()), sorted(gains.values(), reverse=True))
        by_edit = {row["edit"]: row for row in table["rows"]}
        self.assertEqual(by_edit["all_reduce free"]["iteration_time_at_half_ns"], 333000)
        self.assertIsNone(by_edit["no stragglers"]["iteration_time_at_half_ns"])
        # Each row is an edit of its own, and one thread finds what two find.
        alone = vrank.run_json("replay", graph, "--what-if", "all_reduce free", "--json", "--quiet")
        self.assertEqual(alone["what_if"]["after_ns"], 216000)
        self.assertEqual(table, vrank.run_json("replay", graph, "--what-if-table", "--threads",
                                               "1", "--json", "--quiet"))
        text = vrank.run("replay", graph, "--what-if-table", "--what-if", "host x0.5",
                         "--quiet").stdout
        self.assertIn("host x0.5", text)

    def test_what_ifs_that_cannot_be_are_refused_by_name(self):
        graph = self.folder / "one.vgraph"
        vrank.run("import", "kineto", self.write(0, 0), "-o", graph, "--quiet")
        for flags, words in (
                (["--what-if", "kernel *gem x0.5"], "nearest: gemm"),
                (["--what-if", "all_gather x0.5"], "no such operation"),
                (["--what-if", "speed x2"], "nothing is named 'speed'"),
                (["--what-if", "network free", "--contention", "--cluster",
                  "hgx-h100-ib400"], "--contention"),
                (["--what-if", "host free", "--against-recording"], "--against-recording"),
                (["--what-if-table", "--jitter", "2%"], "leave --jitter out"),
                (["--what-if-table", "--executor", "folded"], "leave --executor out"),
                (["--what-if-table", "--iteration", "7"], "--iteration 7")):
            with self.subTest(flags=flags):
                done = vrank.run("replay", graph, *flags, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
        jitter = vrank.run_json("replay", graph, "--jitter", "0.0001%", "--what-if",
                                "kernel gemm x3", "--json", "--quiet")
        # Of the host's range.
        self.assertGreater(jitter["what_if"]["after_ns"], jitter["what_if"]["before_ns"])

    def test_three_times_the_work_is_three_times_the_time(self):
        """The host is ahead of a busy device: a gate sees what the device takes."""
        def ahead(name, factor):
            events = []
            for step in range(3):
                begin = 1000 + 10000 * step
                events += [
                    {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}",
                     "pid": 9, "tid": 9, "ts": begin, "dur": 10000, "args": {}},
                    call("cudaLaunchKernel", begin + 100, 5, step + 1),
                    kernel("gemm", 1110 + 9990 * factor * step + 10 * (factor == 1) * step,
                           9990 * factor, step + 1)]
            path = self.folder / f"{name}.json"
            path.write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 1},
                                        "traceEvents": events}))
            graph = self.folder / f"{name}.vgraph"
            vrank.run("import", "kineto", path, "-o", graph, "--quiet")
            return graph

        base, tripled = ahead("base", 1), ahead("tripled", 3)
        gate = vrank.run("compare", base, tripled, "--fail-if", "iteration_time > +1%",
                         check=False)
        self.assertEqual(gate.returncode, 3, gate.stdout)
        self.assertEqual(vrank.run("compare", base, base, "--fail-if",
                                   "iteration_time > +1%").returncode, 0)
        slow = vrank.run_json("replay", base, "--straggler", "0=3", "--against-recording",
                              "--json", "--quiet")
        self.assertEqual([one["end_difference_ns"]
                          for one in slow["against_recording"]["iterations"]],
                         [19980000, 39950000, 59920000])

    def send(self, elements):
        """Rank 0 sends to rank 1 in 100 ms, and each waits; `elements`: None, not recorded."""
        files = []
        for rank in range(2):
            about = {"Collective name": "recv" if rank else "send", "dtype": "BFloat16",
                     "Group size": 2, "Process Group Name": "0",
                     "Process Group Ranks": "[0, 1]", "Src Rank": 0, "Dst Rank": 1}
            if elements is not None:
                about["In msg nelems"] = about["Out msg nelems"] = elements
            events = [
                {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 9,
                 "tid": 9, "ts": 0, "dur": 100100, "args": {}},
                call("cudaLaunchKernel", 10, 5, 1),
                kernel("ncclDevKernel_SendRecv(x)", 20, 100000, 1, **about),
                call("cudaDeviceSynchronize", 30, 100000, 2)]
            files.append(self.folder / f"pp{rank}.json")
            files[-1].write_text(json.dumps({
                "distributedInfo": {"rank": rank, "world_size": 2},
                "deviceProperties": [{"name": "a GPU"}], "traceEvents": events}))
        graph = self.folder / f"send {elements}.vgraph"
        vrank.run("import", "kineto", *files, "-o", graph, "--quiet")
        return graph

    def test_transfers_of_known_size_take_the_time_of_a_cluster(self):
        cluster = ("--cluster", "hgx-h100-ib400", "--json", "--quiet")
        times = []
        for elements in (1 << 24, 1 << 28):
            graph = self.send(elements)
            recorded = vrank.run_json("replay", graph, "--json", "--quiet")
            self.assertEqual(recorded["iteration_time_ns"], [100100000])
            priced = vrank.run_json("replay", graph, *cluster)
            times.append(priced["iteration_time_ns"][0])
            # None of the recorded time is left.
            free = vrank.run_json("replay", graph, *cluster, "--what-if", "send_recv free")
            self.assertLess(free["iteration_time_ns"][0], 200000)
            half = vrank.run_json("replay", graph, *cluster, "--what-if", "send_recv x0.5")
            edit = half["what_if"]["edits"][0]  # of both ranks
            self.assertAlmostEqual(times[-1] - half["iteration_time_ns"][0],
                                   edit["before_ns"] / 2 / 2, delta=2)
        # Sixteen times the bytes, over a link of 300 to 500 GB/s.
        per_byte = (times[1] - times[0]) / (2 * ((1 << 28) - (1 << 24)))
        self.assertGreater(1 / per_byte, 300)
        self.assertLess(1 / per_byte, 500)
        text = vrank.run("replay", graph, "--cluster", "hgx-h100-ib400", "--quiet").stdout
        self.assertIn("2 of 2 operations take the cluster's times", text)

    def test_a_cluster_that_changes_nothing_is_named_so(self):
        graph = self.send(None)
        priced = vrank.run("replay", graph, "--cluster", "hgx-h100-ib400", "--quiet").stdout
        self.assertIn("the cluster changes nothing: of 2 operations", priced)
        self.assertIn("iterations  100.100 ms", priced)

    def test_memory_that_was_not_recorded_is_unknown(self):
        without, with_totals = profile(0, 0), profile(0, 0)
        with_totals["traceEvents"].append(
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 9,
             "ts": 20, "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512,
                                "Total Allocated": 3 << 20, "Total Reserved": 1 << 30}})
        peaks, graphs = [], []
        for number, made in enumerate((without, with_totals)):
            path = self.folder / f"{number}.json"
            path.write_text(json.dumps(made))
            graphs.append(self.folder / f"{number}.vgraph")
            made = vrank.run_json("import", "kineto", path, "-o", graphs[-1], "--json",
                                  "--quiet")
            replay = vrank.run_json("replay", graphs[-1], "--json", "--quiet")
            peaks.append(replay["classes"][0]["peak_memory_bytes"])
            jitter = vrank.run_json("replay", graphs[-1], "--jitter", "1%", "--json", "--quiet")
            self.assertEqual(jitter["classes"][0]["peak_memory_bytes"], peaks[-1])
        self.assertEqual(peaks, [None, 1 << 30])
        for one in (made["ranks"][0], made["ranks"][0]["iterations"][0]):
            self.assertEqual(one["memory"],
                             {"allocated_bytes": 3 << 20, "reserved_bytes": 1 << 30})
        self.assertIn("unknown", vrank.run("replay", graphs[0], "--quiet").stdout)
        limit = ("--fail-if", "peak_memory > 512MiB")
        gate = vrank.run("compare", graphs[0], graphs[0], *limit, check=False)
        self.assertEqual((gate.returncode, "not known" in gate.stderr), (2, True), gate.stderr)
        gate = vrank.run("compare", graphs[1], graphs[1], *limit, check=False)
        self.assertEqual(gate.returncode, 3, gate.stdout)
        self.assertIn("recorded", gate.stdout)

    def test_what_does_not_fit_is_one_error(self):
        whole = self.write(0, 0)
        cut = self.folder / "cut.json"
        cut.write_text(whole.read_text()[:300])
        for files, words in (([cut], ("cut.json", "ends in the middle")),
                             ([whole, whole], ("both of rank 0",)),
                             ([self.folder / "no.json"], ("no.json", "No such file"))):
            done = vrank.run("import", "kineto", *files, "-o", self.folder / "x.vgraph",
                             "--quiet", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
        self.assertFalse((self.folder / "x.vgraph").exists())

    def test_formats_and_graphs_that_are_others_are_refused(self):
        whole = self.write(0, 0)
        done = vrank.run("import", "chakra", whole, "-o", self.folder / "x.vgraph",
                         check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there are: kineto, schedule", done.stderr)


if __name__ == "__main__":
    unittest.main()
