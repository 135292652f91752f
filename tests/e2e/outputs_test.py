"""Where outputs cannot be written: told in one line, before anything runs where that can
be known."""

import os
import unittest

from surroundings_test import NOBODY, namespace, start
import vrank_runner as vrank


class OutputsTest(unittest.TestCase):

    def test_a_full_disk(self):
        """What cannot be written is named with its file before anything runs."""
        inside = namespace(self)
        with vrank.scratch() as folder:
            slices, graph = f"{folder}/slices", f"{folder}/job.vgraph"
            guest = ["--", vrank.WATCHED_GUEST]
            world = ["--world-size", "2", "--gpu", "h100"]
            vrank.run("trace", *world, "--ranks", "0,1", "-o", slices, *guest)
            vrank.run("build", slices, "-o", graph)
            full = f"{folder}/full"
            os.mkdir(full)
            for command in (["emulate", *world, "--real", "0,1", "--log-dir", full, *guest],
                            ["emulate", *world, "--real", "0,1", "--log-dir",
                             f"{full}/new/logs", *guest],
                            ["emulate", *world, "--real", "0,1", "--record-payloads",
                             f"{full}/values", *guest],
                            ["trace", *world, "--ranks", "0,1", "-o", full, *guest],
                            ["build", slices, "-o", f"{full}/job.vgraph"],
                            ["replay", graph, "--perfetto", f"{full}/job.perfetto"]):
                with self.subTest(command=command[0]):
                    done = start([*inside, "sh", "-c",
                                  'mount -t tmpfs -o size=64k none "$0" && '
                                  '! head -c 1000000 /dev/zero >"$0/zero" 2>/dev/null && '
                                  '{ "$@"; code=$?; ls -A "$0"; exit $code; }',
                                  full, vrank.VRANK, *command])
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertEqual(done.stdout, "zero\n")
                    self.assertEqual(len(done.stderr.splitlines()), 1)  # nothing ran
                    self.assertIn("No space left on device", done.stderr)
                    self.assertIn(full, done.stderr)

    def test_a_disk_that_fills_up(self):
        inside = namespace(self)
        with vrank.scratch() as folder:
            done = start([*inside, "sh", "-c",
                          'mount -t tmpfs -o size=64k none "$0" && '
                          'head -c 30000 /dev/zero >"$0/zero" && '
                          '{ "$@"; code=$?; ls "$0"/*.vtrace; exit $code; }',
                          folder, vrank.VRANK, "trace", "--quiet", "--world-size", "2",
                          "--layout", "dp=2", "-o", folder, "--", *vrank.trainer(1, 1, 2)])
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)  # no slice
        self.assertIn(f"{folder}: its disk is full", done.stderr)

    def test_a_limit_of_file_sizes(self):
        with vrank.scratch() as folder:
            slices, graph = f"{folder}/slices", f"{folder}/job.vgraph"
            vrank.run("trace", "--world-size", "2", "--gpu", "h100", "--ranks", "0,1",
                      "-o", slices, "--", vrank.WATCHED_GUEST)
            done = start(["sh", "-c", 'ulimit -f 1 && "$@"', "sh", vrank.VRANK, "build", slices,
                          "-o", graph])
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn("File too large", done.stderr)
            self.assertEqual(os.listdir(folder), ["slices"])

    def test_a_folder_of_somebody_else(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        with vrank.scratch() as folder:
            os.chmod(folder, 0o755)
            for flags in (["trace", "--world-size", "2", "-o", folder, "--", "true"],
                          ["trace", "--world-size", "2", "-o", f"{folder}/a/b", "--", "true"],
                          ["emulate", "--world-size", "2", "--real", "0", "--log-dir",
                           f"{folder}/logs", "--", "true"],
                          ["build", "/", "-o", f"{folder}/graph"],
                          ["replay", "x", "--perfetto", f"{folder}/trace"],
                          ["replay", "x", "--perfetto", f"{folder}/a/trace"]):
                try:
                    done = start([vrank.VRANK, *flags], user=NOBODY, group=NOBODY,
                                 extra_groups=[], cwd="/")
                except PermissionError:
                    self.skipTest("the build tree cannot be reached by others, as in /root")
                with self.subTest(flags=flags):
                    self.assertEqual(done.returncode, 1)
                    [line] = done.stderr.splitlines()
                    self.assertRegex(line, "Permission denied|there is no folder")
                    self.assertIn(folder, line)


if __name__ == "__main__":
    unittest.main()
