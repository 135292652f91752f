"""A wrong command line ends in exit code 2 and one line, in every command; what the pages
of the commands document is there; and names of files are held against each other."""

import pathlib
import re
import subprocess
import unittest

import vrank_runner as vrank


def commands():
    block = vrank.run("--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in block.splitlines()]


def documented_flags(command):
    """(flag, whether it takes a value) of the rows of its page."""
    rows = re.findall(r"(?m)^ +(?:(-\w), )?(--[a-z-]+)(?: ([A-Z]\S*))? {2,}\S",
                      vrank.run(command, "--help").stdout)
    return [(flag, bool(value)) for _, flag, value in rows if flag != "--help"]


class UsageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = vrank.scratch()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.place = pathlib.Path(cls.scratch.name)
        cls.slices, cls.graph = cls.place / "slices", cls.place / "job.vgraph"
        cls.trainer = vrank.trainer(1, 1, 2)
        vrank.run("trace", "--quiet", "--world-size", 2, "--layout", "dp=2", "-o", cls.slices,
                  "--", *cls.trainer)
        vrank.run("build", cls.slices, "-o", cls.graph)

    def assert_usage_error(self, command, *arguments):
        done = vrank.run(command, *arguments, check=False, timeout=60)
        self.assertEqual(done.returncode, 2, (done.stdout, done.stderr))
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(f"vrank {command}: "), done.stderr)
        self.assertIn(f"`vrank {command} --help`", done.stderr)
        return done.stderr

    def test_every_command(self):
        """What is wrong whatever the command is."""
        takes_program = {"emulate", "trace", "validate"}
        for command in commands():
            with self.subTest(command):
                self.assert_usage_error(command, "--no-such-flag")
                self.assert_usage_error(command, *"abcdefgh", *(["--x"] * 9))
                if command not in takes_program:
                    needed = {"build": [self.slices, "-o", "x"], "plan": ["--layout", "dp=2"],
                              "compare": [self.graph, self.graph], "completion": ["bash"],
                              "kernels": ["list", self.graph], "replay": [self.graph],
                              "import": ["kineto", "x", "-o", "y"],
                              "scale": [self.graph, "--layout", "dp=4", "-o", "x"]}
                    self.assertIn("--", self.assert_usage_error(
                        command, *needed.get(command, []), "--", "program"))

    def test_every_documented_flag_is_there(self):
        for command in commands():
            for flag, has_value in documented_flags(command):
                with self.subTest(command=command, flag=flag):
                    done = vrank.run(command, flag, *["1"] * has_value, "--no-such-flag",
                                     *["x"] * 9, check=False, timeout=60)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertNotRegex(done.stderr, rf"not expected:.*{flag}\b")
                    if has_value:  # and it takes one that is not empty
                        self.assert_usage_error(command, *self.least(command), flag, "")

    def least(self, command):
        """What a command cannot do without."""
        return {"build": [self.slices], "compare": [self.graph, self.graph],
                "emulate": ["--real", "0"], "import": ["kineto", "x", "-o", "y"],
                "kernels": ["list", self.graph], "plan": ["--layout", "dp=2"],
                "replay": [self.graph], "completion": ["bash"],
                "scale": [self.graph, "--layout", "dp=4", "-o", "x"],
                "trace": ["--world-size", "2", "-o", "x"],
                "validate": ["--ranks", "2", "--real", "0"]}.get(command, [])

    def test_values_that_cannot_be(self):
        graph, slices, x = self.graph, self.slices, self.place / "x"
        program = ["--", *self.trainer]
        job = ["--world-size", 2, "--real", 0]
        for arguments in (
                ["replay", graph, "--iteration", 99], ["replay", graph, "--iteration", "x"],
                ["replay", graph, "--perfetto-run"],
                ["replay", graph, "--perfetto", x, "--perfetto-ranks", 99],
                ["replay", graph, "--straggler", "99=2"], ["replay", graph, "--jitter", "x"],
                ["replay", graph, "--jitter", "2%", "--perfetto", x],
                ["replay", graph, "--jitter", "2%", "--seed", "-1"],
                ["replay", graph, "--jitter", "2%", "--seed", str(2**64)],
                ["replay", graph, "--contention", "--goal", x],
                ["replay", graph, "--iteration-range", "("],
                ["replay", graph, "--cluster", "x"], ["replay", graph, "--against-recording"],
                ["replay", graph, graph], ["replay", graph, "--seed", "-1"],
                ["emulate", "--graph", graph, "--real", 99, *program],
                ["emulate", "--graph", graph, "--real", 0, "--world-size", 3, *program],
                ["emulate", "--graph", graph, "--real", 0, "--layout", "tp=2", *program],
                ["emulate", "--graph", graph, "--real", 0, "--gpu", "b200", *program],
                ["emulate", "--graph", graph, "--real", 0, "--assume-absent", *program],
                ["emulate", *job], ["emulate", "--world-size", 2, *program],
                ["emulate", *job, "--payload", "x", *program],
                ["emulate", *job, "--gpu", "x", *program],
                ["build", slices], ["build", slices, "--list", "-o", x],
                ["build", slices, "-o", x, "--layout", "x"],
                ["build", slices, "-o", x, "--layout", "tp=2"],
                ["build", slices, "-o", x, "--group", "x"],
                ["build", slices, slices, "-o", x], ["build", slices, "-o", slices],
                ["plan", "--layout", "x"], ["plan", "--layout", "dp=2", "--world-size", 3],
                ["scale", graph, "--layout", "x", "-o", x],
                ["compare", graph, graph, "--fail-if", "x"],
                ["kernels", "list", graph, graph], ["kernels", "show", graph, "-o", x],
                ["kernels", "merge", graph, graph, "-o", x], ["kernels", "x", graph],
                ["import", "x", graph, "-o", x], ["completion", "x"],
                ["trace", "--world-size", 2, "-o", x, "--ranks", 9, *program],
                ["trace", "--world-size", 128, "-o", x, *program],
                ["trace", "--world-size", 2, "-o", x],
                ["validate", "--ranks", 2, "--real", 9, *program],
                ["validate", "--ranks", 2, "--real", 0, "--trace-ranks", 0, *program],
                ["validate", "--ranks", 2, "--real", 0, "--layout", "pp=2", "--via-graph",
                 "--trace-ranks", 1, *program]):
            with self.subTest(arguments=list(map(str, arguments))):
                self.assert_usage_error(*arguments)
                self.assertFalse(x.exists())

    def test_no_file_is_named_twice(self):
        graph, x = self.graph, self.place / "twice"
        other_name = self.place / "." / "folder" / ".." / "twice"
        (self.place / "folder").mkdir()
        before = graph.read_bytes()
        program = ["--", *self.trainer]
        slice_file = next(self.slices.iterdir())
        for arguments in (
                ["replay", graph, "--perfetto", x, "--goal", other_name],
                ["replay", graph, "--perfetto", graph],
                ["compare", graph, graph, "--markdown", x, "--junit", other_name],
                ["compare", graph, graph, "--junit", graph],
                ["scale", graph, "--layout", "dp=4", "-o", graph],
                ["kernels", "list", graph, "--skeleton", graph],
                ["kernels", "merge", graph, x, "-o", x],
                ["import", "kineto", graph, "-o", graph],
                ["build", self.slices, "-o", slice_file],
                ["emulate", "--graph", graph, "--real", 0, "--record-payloads", graph,
                 *program],
                ["emulate", "--world-size", 2, "--real", 0, "--record-payloads", x,
                 "--log-dir", other_name, *program],
                ["trace", "--world-size", 2, "-o", x, "--record-payloads", other_name,
                 *program]):
            with self.subTest(arguments=list(map(str, arguments))):
                self.assertIn("name another file", self.assert_usage_error(*arguments))
                self.assertEqual(graph.read_bytes(), before)
                self.assertFalse(x.exists())
        # Where the shell sends stdout is an output, too.
        with x.open("w") as out:
            done = subprocess.run([vrank.VRANK, "replay", graph, "--json", "--perfetto", x],
                                  stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard output goes there, too", done.stderr)
        self.assertEqual(x.read_bytes(), b"")
        vrank.run("replay", graph, "--perfetto", "/dev/null", "--goal", "/dev/null")

    def test_stdout_that_takes_nothing(self):
        """A file that was asked for is complete; what was to be printed is lost."""
        graph, place = self.graph, self.place
        for command, file, code in (
                (["build", self.slices, "-o"], "b.vgraph", 0),
                (["build", self.slices, "--json", "-o"], "bj.vgraph", 1),
                (["scale", graph, "--layout", "dp=4", "-o"], "s.vgraph", 0),
                (["replay", graph, "--perfetto"], "p.perfetto", 1),
                (["compare", graph, graph, "--markdown"], "c.md", 1),
                (["kernels", "list", graph, "--skeleton"], "k.textproto", 1)):
            whole = place / file
            vrank.run(*command, whole)
            expected = whole.read_bytes()
            for closing in (">&-", ">/dev/full"):
                with self.subTest(command=command[0], closing=closing):
                    whole.unlink()
                    done = subprocess.run(
                        ["sh", "-c", f'exec "$@" {closing}', "sh", vrank.VRANK,
                         *map(str, command), whole], capture_output=True, text=True)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertRegex(done.stderr, r"stdout: .* is lost; .* is complete\n$")
                    self.assertIn(file, done.stderr)
                    self.assertEqual(whole.read_bytes(), expected)
        for command in (["plan", "--layout", "dp=2"], ["doctor"], ["replay", graph],
                        ["build", "--list", self.slices], ["completion", "bash"]):
            done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", vrank.VRANK,
                                   *map(str, command)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, command)
            self.assertRegex(done.stderr, "stdout: .*; the result is lost")


class FilesTest(unittest.TestCase):
    """docs/files.md says what is in the files."""

    def test_where_versions_are(self):
        rows = {}
        for line in (vrank.ROOT / "docs" / "files.md").read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 5:
                rows[cells[0]] = cells
        with vrank.scratch() as folder:
            place = pathlib.Path(folder)
            program = ["--", *vrank.trainer(1, 1, 2)]
            values = place / "values"
            vrank.run("trace", "--quiet", "--world-size", 2, "--layout", "dp=2", "-o",
                      place / "slices", *program)
            vrank.run("build", place / "slices", "-o", place / "job.vgraph")
            vrank.run("emulate", "--quiet", "--world-size", 2, "--real", "0,1",
                      "--record-payloads", values, *program)
            trace = next((place / "slices").iterdir()).read_bytes()
            graph, payloads = (place / "job.vgraph").read_bytes(), values.read_bytes()
        for row, content, magic in (("`.vtrace`, `.vtrace.raw`", trace, b"vtrC"),
                                    ("`.vgraph`", graph, b"VRGRAPH\n")):
            first, last, now = map(int, re.match(r"bytes (\d+)-(\d+)\b.*now (\d+)",
                                                 rows[row][3]).groups())
            self.assertIn(f"`{magic.decode().strip()}`", rows[row][2])
            self.assertEqual(content[:len(magic)], magic)
            self.assertEqual(int.from_bytes(content[first:last + 1], "little"), now)
        now = int(re.match(r"protobuf field 1, now (\d+)", rows["recorded payloads"][3])[1])
        self.assertEqual(payloads[:2], bytes([1 << 3, now]))


if __name__ == "__main__":
    unittest.main()
