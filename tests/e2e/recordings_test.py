"""Recordings that are no profile become schedules, and their replay is near what was
recorded."""

import gzip
import importlib.machinery
import importlib.util
import json
import pathlib
import statistics
import sys
import unittest

import vrank_runner as vrank

SCRIPTS = vrank.ROOT / "scripts"
TRACES = vrank.ROOT.parent / "shared" / "traces"
sys.path.insert(0, str(SCRIPTS / "recordings"))
import readers  # noqa: E402


def load_script(path):
    loader = importlib.machinery.SourceFileLoader(path.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.name, loader))
    loader.exec_module(module)
    return module


validate = load_script(SCRIPTS / "validate_schedules")


class RecordingsTest(unittest.TestCase):

    def replay(self, kind, path):
        with vrank.scratch() as folder:
            return validate.replay(vrank.VRANK, kind, path, folder)

    def recorded(self, name):
        path = TRACES / name
        if not path.exists():
            self.skipTest(f"{path} is not there; recordings are no part of the repository")
        return path

    def test_passes_of_two_stages(self):
        """Forward 10 ms, backward 20 ms, two micro-batches: the second stage starts 10 ms
        later and keeps busy for 60; the first stage's last backward pass comes after."""
        first = {"fwd_start": [0, 10], "fwd_end": [10, 20],
                 "bwd_start": [40, 70], "bwd_end": [60, 90], "total": 90, "memory": 1}
        second = {"fwd_start": [10, 40], "fwd_end": [20, 50],
                  "bwd_start": [20, 50], "bwd_end": [40, 70], "total": 70, "memory": 1}
        with vrank.scratch() as folder:
            for stage, one in enumerate((first, second)):
                with gzip.open(f"{folder}/pp_rank_{stage}.json.gz", "wt") as out:
                    json.dump({"1": one, "2": one, "3": one}, out)
            result = self.replay("primus", folder)
        self.assertEqual(result["ranks"], 2)
        self.assertEqual(result["seconds"], [0.09, 0.09])
        self.assertEqual(result["errors"], [0, 0])
        self.assertEqual(result["gaps"], 0)

    def test_a_job_of_two_stages_and_two_replicas(self):
        """A replica's late pass holds up all that meet: sums, clipping, the last stage."""
        events = []
        for pid in (0, 1):
            for stage in (0, 1):
                tid = 10 * stage + 5 * pid
                events.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid,
                               "args": {"name": f"PP rank {stage}, TP rank 0, compute"}})
                late = 7 * pid
                times = {"params-all-gather": (0, 5), "gc": (65 + late, 0),
                         "layernorm-grads-all-reduce": (72, 1),
                         "embedding-grads-all-reduce": (73, 4),
                         "grads-reduce-scatter": (77, 9),
                         "optimizer-clip-main-grad": (86, 2), "optimizer": (88, 3)}
                if stage == 0:
                    times.update({"forward-compute": (5, 10), "forward-send": (15, 1),
                                  "backward-recv": (46 + late, 1),
                                  "backward-compute": (47 + late, 18)})
                else:
                    times.update({"forward-recv": (15, 1), "forward-compute": (16, 10 + late),
                                  "backward-compute": (26 + late, 20),
                                  "backward-send": (46 + late, 1), "gc": (46 + late, 0),
                                  "layernorm-grads-all-reduce": (53, 1),
                                  "embedding-grads-all-reduce": (54, 23)})
                for name, (begin, length) in times.items():
                    events.append({"name": name, "cat": name, "ph": "X", "pid": pid,
                                   "tid": tid, "ts": begin * 1e3, "dur": length * 1e3,
                                   "args": {"step": 1, "seq_id": 0,
                                            "mb_id": 0 if "compute" in name else -1}})
        with vrank.scratch() as folder:
            path = pathlib.Path(folder) / "timeline.json.gz"
            with gzip.open(path, "wt") as out:
                json.dump(events, out)
            result = self.replay("bytedance", path)
        self.assertEqual(result["ranks"], 4)
        self.assertEqual(result["seconds"], [0.091])
        self.assertEqual(result["errors"], [0])

    def test_files_of_other_forms(self):
        """Plain JSON is read; forms whose dependencies are not known are refused."""
        passes = {"fwd_start": [0], "fwd_end": [10], "bwd_start": [10], "bwd_end": [30],
                  "total": 30, "memory": 1}
        with vrank.scratch() as folder:
            folder = pathlib.Path(folder)
            with self.assertRaisesRegex(readers.Refused, "found of none"):
                readers.primus(str(folder))
            for stage in (0, 1):
                (folder / f"pp_rank_{stage}.json").write_text(
                    json.dumps({"1": passes, "2": passes}))
            self.assertEqual([len(steps) for steps in readers.primus(str(folder)).ranks],
                             [1, 1])
            for sizes, words in (({"pp_size": 2, "vp_size": 2}, "vp_size is 2"),
                                 ({"pp_size": 4}, "pp_size is 4"),
                                 ({"pp_size": 2, "num_mbs": 2}, "2 micro-batches")):
                (folder / "config.json").write_text(json.dumps(sizes))
                with self.assertRaisesRegex(readers.Refused, words):
                    readers.primus(str(folder))
            (folder / "pp_rank_1.json").write_text("no JSON")
            with self.assertRaisesRegex(readers.Refused, "no JSON, plain or gzip"):
                readers.primus(str(folder))

    def test_pipelines_beside_each_other(self):
        """Two stages of two replicas: a stage's peer is as many ranks further."""
        one = {"iter_time": [9, 9], "time_breakdown": {
            "load": [[0], [0]], "forward": [[1], [1]], "backward": [[2], [2]]}}
        with vrank.scratch() as folder:
            path = pathlib.Path(folder) / "A100" / "model+dp2+pp2+tp1+mbs1" / "0.prof.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps([{"rank": rank, **one} for rank in range(4)]))
            run = readers.perseus(str(path))
            self.assertEqual(run.gpu, "NVIDIA A100")
            self.assertEqual([[task.send_to for task in steps[0].tasks if task.send_to >= 0]
                              for steps in run.ranks], [[2], [3], [0], [1]])
            path.write_text(json.dumps([{"rank": rank, **one} for rank in range(3)]))
            with self.assertRaisesRegex(readers.Refused, "3 ranks"):
                readers.perseus(str(path))

    def test_primus(self):
        result = self.replay("primus", self.recorded("primus_pp8") / "pp8")
        self.assertEqual((result["ranks"], len(result["errors"])), (8, 19))
        self.assertAlmostEqual(statistics.median(result["errors"]), 0, delta=0.03)

    def test_perseus(self):
        folder = self.recorded("perseus_merak")
        path = next(folder.glob("A100/gpt3-xl*/0.prof.json.gz"))
        result = self.replay("perseus", path)
        self.assertEqual((result["ranks"], len(result["errors"])), (4, 3))
        self.assertAlmostEqual(statistics.median(result["errors"]), 0, delta=0.05)

    def test_bytedance(self):
        result = self.replay("bytedance",
                             self.recorded("bytedance_jobs") / "timeline-ST.json.gz")
        self.assertEqual((result["ranks"], len(result["errors"])), (8, 32))
        self.assertAlmostEqual(statistics.median(result["errors"]), 0, delta=0.005)

    def test_a_row_that_is_made_again_leaves_the_others_their_dates(self):
        script = load_script(SCRIPTS / "validate_pytorch")
        rows = ["| DDP | dp=8 | 0 | 1 s | 2020-01-01 |", "| FSDP2 | dp=8 | 0 | 2 s | 2020-02-02 |"]
        page = "\n".join(["before", script.BEGIN, *script.HEAD, *rows, script.END, "after"])
        made = "| FSDP2 | dp=8 | 0 | 3 s | 2021-03-03 |"
        self.assertEqual(script.with_row(page, "FSDP2", made), page.replace(rows[1], made))
        self.assertTrue(script.HEAD[0].endswith("| made |"))


if __name__ == "__main__":
    unittest.main()
