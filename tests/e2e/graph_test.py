"""Slices that are traced one at a time make a graph that plays like the real job."""

import json
import os
import pathlib
import shutil
import struct
import unittest

import vrank_runner as vrank


def trace(folder, layout, *more, ranks=None):
    arguments = ["trace", "--quiet", "--world-size", 8, "--layout",
                 vrank.layout_flag(*layout), "--kernels", vrank.KERNELS, "-o", folder]
    if ranks is not None:
        arguments += ["--ranks", ranks]
    vrank.run(*arguments, "--", *vrank.trainer(*layout, *more))


def varint(value):
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes(parts) + bytes([value])


def field(number, content):
    """Of a protobuf message: an integer above 0, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def kernel_table(gpu, launches, ns):
    """A .vkernels file (graph/file/kernel_table.proto) in which every launch takes `ns`."""
    body = field(1, 1) + field(2, gpu.encode())
    for name, grid, block in launches:
        body += field(4, field(1, name.encode())
                      + field(2, varint(grid) + b"\1\1") + field(3, varint(block) + b"\1\1")
                      + field(5, 1) + field(6, ns) + field(7, ns)
                      + b"\x41" + struct.pack("<d", ns))
    return body + b"\x2d" + struct.pack("<I", crc32c(body))


class GraphTest(unittest.TestCase):

    def setUp(self):
        self.scratch = vrank.scratch()
        self.addCleanup(self.scratch.cleanup)
        self.place = pathlib.Path(self.scratch.name)

    def test_the_graph_equals_the_real_run(self):
        """Alone, and beside each real rank: every iteration, every end, every peak."""
        for layout in vrank.LAYOUTS:
            with self.subTest(layout=layout):
                report = vrank.run_json(
                    "validate", "--via-graph", "--quiet", "--json", "--ranks", 8,
                    "--real", "each", "--layout", vrank.layout_flag(*layout),
                    "--kernels", vrank.KERNELS, "--", *vrank.trainer(*layout))
                self.assertEqual([case["real_ranks"] for case in report["cases"]],
                                 [[]] + [[rank] for rank in range(8)])
                for case in report["cases"]:
                    self.assertGreater(case["iterations"], 0)
                    for figure in ("unmatched", "max_iteration_error_ns",
                                   "max_collective_error_ns", "peak_memory_error_bytes"):
                        self.assertEqual(case[figure], 0, (case["real_ranks"], figure))

    def test_the_graph_predicts_what_live_emulation_predicts(self):
        layout = ("--layout", "tp=4,pp=4,dp=4")
        program = vrank.trainer(4, 4, 4)
        plan = vrank.run_json("plan", *layout, "--json")
        ranks = ",".join(str(row["rank"]) for row in plan["ranks"])
        live = vrank.run_json("emulate", "--quiet", "--json", "--world-size", 64, *layout,
                              "--real", ranks, "--kernels", vrank.KERNELS, "--", *program)
        vrank.run("trace", "--quiet", "--world-size", 64, *layout, "--kernels",
                  vrank.KERNELS, "-o", self.place / "slices", "--", *program)
        vrank.run("build", self.place / "slices", "-o", self.place / "job.vgraph")
        graph = vrank.run_json("replay", self.place / "job.vgraph", "--json")
        self.assertEqual(graph["iteration_time_ns"], live["iteration_time_ns"])
        self.assertEqual({one["peak_memory_bytes"] for one in graph["classes"]},
                         {rank["peak_memory_bytes"] for rank in live["ranks"]})

    def test_flags_of_the_trace_hold_for_the_graph(self):
        """Ranks per node and names of iterations are those of the trace; a cluster that is
        given later holds, and is said beside the graph's."""
        flags = ("--layout", "tp=2,pp=2,dp=2", "--ranks-per-node", 2, "--kernels",
                 vrank.KERNELS)
        program = vrank.trainer(2, 2, 2)
        live = vrank.run_json("emulate", "--quiet", "--json", "--world-size", 8, *flags,
                              "--real", "0-7", "--", *program)
        vrank.run("trace", "--quiet", "--world-size", 8, *flags, "-o", self.place / "slices",
                  "--", *program)
        graph = self.place / "job.vgraph"
        vrank.run("build", self.place / "slices", "-o", graph)
        alone = vrank.run_json("replay", graph, "--json")
        self.assertEqual(alone["iteration_time_ns"], live["iteration_time_ns"])
        self.assertEqual(alone["cluster"], "hgx-h100-ib400, 2 ranks per node")
        beside = vrank.run_json("emulate", "--quiet", "--json", "--graph", graph, "--real", 1,
                                "--kernels", vrank.KERNELS, "--", *program)
        self.assertEqual(beside["iteration_time_ns"], live["iteration_time_ns"])
        self.assertNotIn("graph_of_other_costs", [row["name"] for row in beside["losses"]])
        other = vrank.run_json("replay", graph, "--cluster", "hgx-b200-ib400", "--json")
        self.assertEqual(other["cluster"], "hgx-b200-ib400, 2 ranks per node (the graph has: "
                         "hgx-h100-ib400, 2 ranks per node)")
        # What the real ranks have otherwise is said.
        nodes = vrank.run_json("emulate", "--quiet", "--json", "--graph", graph, "--real", 1,
                               "--ranks-per-node", 8, "--kernels", vrank.KERNELS, "--",
                               *program)
        [row] = [row for row in nodes["losses"] if row["name"] == "graph_of_other_costs"]
        self.assertIn("ranks_per_node=2", row["subject"])
        self.assertIn("ranks_per_node=8", row["subject"])
        # Slices with and without the flag are of two jobs.
        refused = vrank.run("trace", "--quiet", "--world-size", 8, "--layout",
                            "tp=2,pp=2,dp=2", "--kernels", vrank.KERNELS, "--ranks", 7, "-o",
                            self.place / "slices", "--", *program, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("ranks_per_node=2", refused.stderr)

    def test_operations_that_share_links_slow_each_other_down(self):
        layout = ("--layout", "tp=2,pp=2,dp=8")
        vrank.run("trace", "--quiet", "--world-size", 32, *layout, "--kernels",
                  vrank.KERNELS, "-o", self.place / "slices", "--",
                  *vrank.trainer(2, 2, 8))
        graph = self.place / "job.vgraph"
        vrank.run("build", self.place / "slices", "-o", graph)
        cluster = (vrank.ROOT / "data/clusters/hgx-h100-ib400.textproto").read_text()
        narrow = self.place / "narrow.textproto"
        narrow.write_text(cluster +
                          "fabric { nodes_per_leaf: 1 oversubscription: 64 }\n")
        alone = vrank.run_json("replay", graph, "--executor", "folded", "--json")
        # Without contention and without jitter every rank ends as in its class.
        wide = vrank.run_json("replay", graph, "--contention", "--json")
        slow = vrank.run_json("replay", graph, "--contention", "--cluster", narrow,
                              "--json")
        for i, iteration in enumerate(alone["iterations"]):
            self.assertGreaterEqual(wide["iterations"][i]["most_ns"],
                                    iteration["most_ns"])
            self.assertGreater(slow["iterations"][i]["most_ns"],
                               wide["iterations"][i]["most_ns"])
        self.assertGreater(slow["contention"]["delayed_flows"], 0)
        self.assertIn("leaf", slow["contention"]["slowest_links"][0]["link"])
        refused = vrank.run("replay", graph, "--contention", "--collectives", "--json",
                            check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--contention: with it the report is about every rank", refused.stderr)

    def test_every_executor_says_the_same(self):
        trace(self.place / "slices", (2, 2, 2))
        graph = self.place / "job.vgraph"
        vrank.run("build", self.place / "slices", "-o", graph)
        executors = [("--executor", "sweep"), ("--executor", "worklist"), ("--threads", 1),
                     ("--threads", 2), ("--executor", "sweep", "--vector", "scalar"),
                     ("--executor", "folded"), ()]
        for jitter in (), ("--jitter", "2%", "--seed", 5):
            said = set()
            for i, executor in enumerate(executors):
                table = self.place / f"{i}.csv"
                report = vrank.run("replay", graph, *jitter, *executor, "--rank-table", table,
                                   "--json").stdout
                rows = table.read_text()
                self.assertEqual(rows.count("\n"), 9)
                said.add((report, rows))
            self.assertEqual(len(said), 1, jitter)
        self.assertEqual(json.loads(vrank.run("replay", graph, "--json").stdout)["nodes"],
                         json.loads(vrank.run("replay", graph, "--executor", "folded",
                                              "--json").stdout)["nodes"])

    def test_what_an_executor_cannot_do_is_refused(self):
        trace(self.place / "slices", (2, 2, 2))
        graph = self.place / "job.vgraph"
        vrank.run("build", self.place / "slices", "-o", graph)
        for flags, why in ((("--executor", "folded", "--threads", 2), "one thread"),
                           (("--contention", "--vector", "scalar"), "event executor alone"),
                           (("--executor", "sweep", "--goal", self.place / "x"), "leave"),
                           (("--vector", "mmx"), "avx2")):
            refused = vrank.run("replay", graph, *flags, check=False)
            self.assertEqual(refused.returncode, 2, flags)
            self.assertIn(why, refused.stderr)

    def test_a_graph_of_another_command_is_told(self):
        """Ranks that play keep to the recorded program: a change shows beside them only."""
        slices, graph = self.place / "slices", self.place / "job.vgraph"
        trace(slices, (2, 2, 2))
        vrank.run("build", slices, "-o", graph)

        def losses(*program, costs=("--kernels", vrank.KERNELS)):
            done = vrank.run("emulate", "--quiet", "--json", "--graph", graph, "--real", 0,
                             *costs, "--", *program)
            return {row["name"]: row for row in json.loads(done.stdout)["losses"]
                    if row["name"].startswith("graph_")}, done.stderr

        recorded = vrank.trainer(2, 2, 2)
        wrapper = self.place / "a wrapper"
        wrapper.write_text('#!/bin/sh\nexec "$@"\n')
        wrapper.chmod(0o755)
        for same in (recorded, [wrapper, *recorded]):
            self.assertEqual(losses(*same), ({}, ""))
        other = ["16" if word == "8" and before == "--layers" else word
                 for before, word in zip(["", *recorded], recorded)]
        self.assertNotEqual(other, recorded)
        rows, told = losses(*other)
        self.assertEqual(list(rows), ["graph_of_another_command"])
        row = rows["graph_of_another_command"]
        self.assertEqual(row["count"], 4)  # the other stage
        self.assertEqual(row["subject"], "pp 1 recorded with: " + " ".join(recorded))
        self.assertIn(row["subject"], told)

        # A run that fails because of it says so.
        failed = vrank.run("emulate", "--quiet", "--graph", graph, "--real", 0, "--kernels",
                           vrank.KERNELS, "--", *vrank.trainer(2, 2, 2, "--sequence", "128"),
                           check=False)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("vrank emulate: likely cause: the graph", failed.stderr)
        self.assertIn(f"'{' '.join(recorded)}', than", failed.stderr)
        self.assertIn("--sequence 128'", failed.stderr)

        # Another build of the program behind the same command line.
        changed = self.place / "gpt_trainer"
        shutil.copy(recorded[0], changed)
        with changed.open("ab") as file:
            file.write(b"\0")
        rows, told = losses(changed, *recorded[1:])
        self.assertEqual(list(rows), ["graph_of_another_version"])
        self.assertIn("graph_of_another_version, 4 ranks", told)

        # Other costs than those of the ranks that play.
        rows, told = losses(*recorded, costs=())
        self.assertEqual(list(rows), ["graph_of_other_costs"])
        self.assertIn("graph_of_other_costs, 4 ranks", told)

    def test_kernel_times_at_build_are_those_of_a_trace_with_them(self):
        """A table given to `vrank build` makes the job that one given to `vrank trace`
        makes, and the ledger says what was recorded."""
        slices, plain = self.place / "slices", self.place / "plain.vgraph"
        trace(slices, (2, 2, 2))
        vrank.run("build", slices, "-o", plain)
        [name] = [one["mangled"] for one in vrank.run_json("kernels", "list", plain,
                                                           "--json")["kernels"]
                  if one["name"].startswith("gpt::layer_norm_forward")]
        table, foreign = self.place / "h100.vkernels", self.place / "a100.vkernels"
        launches = [(name, grid, block) for grid in (64, 128, 256)
                    for block in (128, 256, 512)]
        table.write_bytes(kernel_table("h100-sxm5-80gb", launches, 123456))
        foreign.write_bytes(kernel_table("a100-sxm4-80gb", launches, 123456))
        times = ("--kernel-times", table)

        built = self.place / "built.vgraph"
        vrank.run("build", slices, "-o", built, *times)
        traced, again = self.place / "traced", self.place / "traced.vgraph"
        vrank.run("trace", "--quiet", "--world-size", 8, "--layout",
                  vrank.layout_flag(2, 2, 2), "--kernels", vrank.KERNELS, *times, "-o",
                  traced, "--", *vrank.trainer(2, 2, 2))
        vrank.run("build", traced, "-o", again)
        replays = [vrank.run_json("replay", graph, "--json") for graph in (built, again, plain)]
        self.assertEqual(replays[0]["iteration_time_ns"], replays[1]["iteration_time_ns"])
        self.assertEqual(replays[0]["ledger"], replays[1]["ledger"])
        self.assertGreater(replays[0]["iteration_time_ns"][1], replays[2]["iteration_time_ns"][1])
        self.assertGreater(replays[0]["ledger"]["recorded"], replays[2]["ledger"]["recorded"])
        # A run beside the graph that states the table states the same costs.
        beside = vrank.run_json("emulate", "--quiet", "--json", "--graph", built, "--real", 0,
                                "--kernels", vrank.KERNELS, *times, "--",
                                *vrank.trainer(2, 2, 2))
        self.assertEqual(beside["iteration_time_ns"], replays[0]["iteration_time_ns"])
        self.assertNotIn("graph_of_other_costs", [row["name"] for row in beside["losses"]])
        # Its times would stand beside the other table's.
        self.assertIn("traced with a table of kernel times",
                      self.expect_error("build", traced, "-o", self.place / "x.vgraph",
                                        *times, code=1))
        self.assertIn("of GPU 'a100", self.expect_error("build", slices, "-o",
                                                   self.place / "x.vgraph", "--kernel-times",
                                                   foreign))

    def test_two_runs_leave_the_same_bytes(self):
        files = []
        for run in ("a", "b"):
            trace(self.place / run, (2, 2, 2))
            vrank.run("build", self.place / run, "-o", self.place / run / "job.vgraph")
            files.append({path.name: path.read_bytes()
                          for path in sorted((self.place / run).iterdir())})
        self.assertEqual(files[0].keys(), files[1].keys())
        self.assertEqual(files[0], files[1])

    def expect_build_error(self, folder, *words):
        done = vrank.run("build", folder, "-o", self.place / "bad.vgraph", check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse((self.place / "bad.vgraph").exists())

    def test_slices_that_do_not_fit_together(self):
        good = self.place / "good"
        trace(good, (2, 2, 2))
        slices = sorted(good.iterdir())

        missing = self.place / "missing"
        shutil.copytree(good, missing)
        for path in missing.iterdir():
            if int(path.stem.removeprefix("rank")) >= 4:
                path.unlink()
        self.expect_build_error(missing, "pp 1", "trace one of them")

        twice = self.place / "twice"
        shutil.copytree(good, twice)
        shutil.copy(slices[0], twice / "again.vtrace")
        self.expect_build_error(twice, "again.vtrace", slices[0].name)

        other = self.place / "other"
        shutil.copytree(good, other)
        last = int(slices[-1].stem.removeprefix("rank"))
        trace(self.place / "changed", (2, 2, 2), "--bucket-mb", "1", ranks=last)
        shutil.copy(self.place / "changed" / slices[-1].name, other)
        self.expect_build_error(other, slices[-1].name)
        # `vrank trace` leaves no such folder.
        for flags in ([], ["--overwrite"]):
            done = vrank.run("trace", "--quiet", "--world-size", 8, "--layout",
                             vrank.layout_flag(2, 2, 2), "--ranks", last, *flags, "-o", good,
                             "--", *vrank.trainer(2, 2, 2, "--bucket-mb", "1"), check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(slices[0].name if flags else slices[-1].name, done.stderr)
        self.assertIn("is of another job", done.stderr)
        self.assertIn("costs", done.stderr)

    def test_broken_files(self):
        good = self.place / "good"
        trace(good, (2, 2, 2))
        victim = sorted(good.iterdir())[0]
        whole = victim.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0x10
        for name, content in (("empty", b""), ("cut", whole[:len(whole) // 2]),
                              ("flipped", bytes(flipped)), ("text", b"no trace at all\n")):
            with self.subTest(name):
                victim.write_bytes(content)
                self.expect_build_error(good, victim.name)
        self.expect_build_error(self.place / "nowhere", "no such file or folder")

    def expect_error(self, *arguments, code=2):
        """The one line that says why vrank refuses."""
        done = vrank.run(*arguments, check=False, timeout=60)
        self.assertEqual(done.returncode, code, (done.stdout, done.stderr))
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def test_inputs_survive_whatever_the_command_line_says(self):
        slices, graph = self.place / "slices", self.place / "job.vgraph"
        trace(slices, (1, 1, 8))
        victim = sorted(slices.iterdir())[0]
        for code, *arguments in ((2, "build", slices, "-o", victim),
                                 (2, "build", slices, slices, "-o", graph),
                                 (2, "build", slices, "-o", graph, "--layout", "tp=8")):
            before = victim.read_bytes()
            error = self.expect_error(*arguments, code=code)
            self.assertEqual(victim.read_bytes(), before)
            self.assertFalse(graph.exists())
            self.assertRegex(error, "overwrite the input|named twice|--layout 'tp=8' contra")

        vrank.run("build", slices, "-o", graph)
        before = graph.read_bytes()
        link = self.place / "other name"
        link.symlink_to(graph)
        for output in (graph, link):
            self.assertIn("overwrite the input",
                          self.expect_error("replay", graph, "--perfetto", output))
            self.assertIn("overwrite the input",
                          self.expect_error("kernels", "list", graph, "--skeleton", output))
            self.assertEqual(graph.read_bytes(), before)

        self.assertIn("--iteration 99: there are iterations 0-1",
                      self.expect_error("replay", graph, "--iteration", 99))
        for command in ["replay", graph], ["compare", graph, graph]:
            self.assertIn("no NVTX range of the graph; there are: 'backward', 'forward'",
                          self.expect_error(*command, "--iteration-range", "epoch.*"))
        self.assertIn("rank 0 has a factor already",
                      self.expect_error("replay", graph, "--straggler", "0=2",
                                        "--straggler", "0=3"))
        pipe = self.place / "pipe.vgraph"
        os.mkfifo(pipe)
        self.assertIn("no regular file", self.expect_error("replay", pipe, code=1))
        os.mkfifo(slices / "pipe.vtrace")
        self.assertIn("no regular file",
                      self.expect_error("build", slices, "-o", self.place / "x.vgraph",
                                        code=1))


if __name__ == "__main__":
    unittest.main()
