"""A trace says, node by node, what the emulator received from the same run."""

import os
import pathlib
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


if __name__ == "__main__":
    unittest.main()
