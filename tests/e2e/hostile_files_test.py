"""Input files that are none, outputs that somebody else writes, too, and signals while
vrank itself is busy: one error line, no hang, nothing of the user's lost."""

import os
import pathlib
import signal
import socket
import subprocess
import unittest

import vrank_runner as vrank


def schedule(ranks, steps):
    """What `vrank import schedule` reads: work, and an all-reduce of all ranks, per step."""
    text = [f'world_size: {ranks} gpu: "h100" group {{ name: "dp" rank: {list(range(ranks))} }}']
    for rank in range(ranks):
        text.append(f"rank {{ rank: {rank}")
        for step in range(steps):
            begin = 1000 * step
            text.append(
                f'step {{ name: "step {step}" begin_ns: {begin} end_ns: {begin + 900} '
                f'task {{ name: "f" lane: "a" ns: {100 + rank % 7} }} '
                'task { name: "r" lane: "a" after: 0 ns: 300 group: "dp" '
                'operation: "all_reduce" } }')
        text.append("}")
    return "\n".join(text)


class HostileFilesTest(unittest.TestCase):

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.place = pathlib.Path(scratch.name)

    def graph(self, ranks=2, steps=2):
        text, graph = self.place / "run.textproto", self.place / "run.vgraph"
        text.write_text(schedule(ranks, steps))
        vrank.run("import", "schedule", text, "-o", graph)
        return graph

    def odd_files(self, suffix):
        pipe, listener = self.place / f"pipe{suffix}", self.place / f"socket{suffix}"
        os.mkfifo(pipe)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(listener))
        empty, cut = self.place / f"empty{suffix}", self.place / f"cut{suffix}"
        empty.touch()
        cut.write_text('{"schema": ')
        zero, maps = self.place / f"zero{suffix}", self.place / f"maps{suffix}"
        zero.symlink_to("/dev/zero")
        maps.symlink_to("/proc/self/maps")
        folder = self.place / f"folder{suffix}"
        folder.mkdir()
        return [pipe, listener, empty, cut, zero, maps, folder,
                self.place / f"missing{suffix}"]

    def expect_error(self, *command):
        done = vrank.run(*command, check=False, timeout=60)
        with self.subTest(command=command):
            self.assertIn(done.returncode, (1, 2), done.stderr)
            self.assertEqual(done.stdout, "")
            [line] = done.stderr.splitlines()
            self.assertTrue(line.startswith(f"vrank {command[0]}: "), line)
        return done.stderr

    def test_inputs_that_are_no_files(self):
        graph = self.graph()
        out = self.place / "out"
        job = ["emulate", "--world-size", "2", "--real", "0"]
        commands = {
            ".vgraph": [["replay", "FILE"], ["scale", "FILE", "--layout", "dp=4", "-o", out],
                        ["compare", "FILE", graph], ["kernels", "list", "FILE"],
                        [*job, "--graph", "FILE", "--", "true"]],
            ".json": [["compare", "FILE", "FILE"], ["import", "kineto", "FILE", "-o", out]],
            ".textproto": [["import", "schedule", "FILE", "-o", out],
                           ["replay", graph, "--cluster", "FILE"],
                           *([*job, flag, "FILE", "--", "true"] for flag in
                             ("--cluster", "--gpu", "--kernels", "--values"))],
            ".vkernels": [["kernels", "show", "FILE"],
                          ["kernels", "merge", "FILE", "FILE", "-o", out],
                          [*job, "--gpu", "h100", "--kernel-times", "FILE", "--", "true"]],
            ".payloads": [[*job, "--gpu", "h100", "--recorded-payloads", "FILE", "--",
                           "true"]],
        }
        for suffix, lines in commands.items():
            for file in self.odd_files(suffix):
                for line in lines:
                    # An empty description has no costs, no values, no steps.
                    if file.name.startswith("empty") and \
                            ("--kernels" in line or "--values" in line):
                        continue
                    self.expect_error(*(file if part == "FILE" else part for part in line))
        self.assertFalse(out.exists())

    def test_the_users_own_files_stay(self):
        text = self.place / "run.textproto"
        text.write_text(schedule(2, 2))
        out = self.place / "run.vgraph"
        own = self.place / "run.vgraph.partial"
        own.write_text("the user's own")
        vrank.run("import", "schedule", text, "-o", out)
        vrank.run("replay", out, "--perfetto", self.place / "trace")
        self.assertEqual(own.read_text(), "the user's own")
        self.assertEqual(sorted(path.name for path in self.place.iterdir()),
                         ["run.textproto", "run.vgraph", "run.vgraph.partial", "trace"])

    def test_an_output_in_shared_memory(self):
        text = self.place / "run.textproto"
        text.write_text(schedule(2, 2))
        out = pathlib.Path(f"/dev/shm/vrank_hostile_files_{os.getpid()}")
        self.addCleanup(lambda: out.unlink(missing_ok=True))
        vrank.run("import", "schedule", text, "-o", out)
        vrank.run("replay", out)

    def test_many_writers_leave_one_whole_file(self):
        graph = self.graph()
        command = [vrank.VRANK, "replay", graph, "--perfetto", self.place / "trace"]
        vrank.run(*command[1:])
        wanted = (self.place / "trace").read_bytes()
        writers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(20)]
        self.assertEqual([writer.wait(timeout=120) for writer in writers], [0] * 20)
        self.assertEqual((self.place / "trace").read_bytes(), wanted)
        self.assertEqual(len(list(self.place.iterdir())), 3)

    def test_outputs_without_a_place(self):
        graph = self.graph()
        before = sorted(self.place.iterdir())
        for out in (self.place, self.place / "missing" / "trace", "/proc/trace"):
            self.expect_error("replay", graph, "--perfetto", out)
            self.expect_error("scale", graph, "--layout", "dp=4", "-o", out)
        self.assertEqual(sorted(self.place.iterdir()), before)

    def test_a_busy_vrank_takes_signals(self):
        graph = self.graph(ranks=64, steps=200)
        text = self.place / "run.textproto"
        out = self.place / "out"
        for command in (["import", "schedule", text, "-o", out],
                        ["replay", graph, "--perfetto", out],
                        ["replay", graph, "--jitter", "1%", "--executor", "worklist",
                         "--rank-table", out],
                        ["replay", graph, "--goal", out],
                        ["scale", graph, "--layout", "dp=512", "-o", out],
                        ["compare", graph, graph, "--markdown", out]):
            for number in (signal.SIGTERM, signal.SIGINT):
                out.write_text("old")
                process = subprocess.Popen([vrank.VRANK, *map(str, command)],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                mask = 1 << (number - 1)
                status = pathlib.Path(f"/proc/{process.pid}/status")
                while process.poll() is None and not \
                        int(status.read_text().split("SigCgt:")[1].split()[0], 16) & mask:
                    pass
                process.send_signal(number)
                _, error = process.communicate(timeout=60)
                with self.subTest(command=command[0], signal=number):
                    if process.returncode in (0, 1):
                        continue  # it was over before
                    self.assertEqual(process.returncode, -number)
                    self.assertIn(b"interrupted by", error)
                    self.assertEqual(out.read_text(), "old")
                    self.assertEqual(len(list(self.place.iterdir())), 3)


if __name__ == "__main__":
    unittest.main()
