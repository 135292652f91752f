"""Predictions of published runs stay as they were committed.

A changed model or constant changes them: then predict again (scripts/published/predict),
and say in docs/validation.md what changed, why, and the errors before and after."""

import importlib.machinery
import importlib.util
import json
import sys
import unittest

import vrank_runner as vrank

PUBLISHED = vrank.ROOT / "scripts" / "published"
sys.path.insert(0, str(PUBLISHED))
import runs  # noqa: E402


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(PUBLISHED / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


# Few stages and micro-batches, on each GPU, with each kind of attention.
CHEAP = ("korthikanti2022_table5_a100/22B/full",
         "korthikanti2022_table5_a100/22B/selective",
         "narayanan2021_table1_a100/39.1/full",
         "megatron_core_h100_weak_scaling/7.1B/plain 1F1B",
         "megatron_core_h100_weak_scaling/70B/a layer per chunk")


class PublishedTest(unittest.TestCase):

    def setUp(self):
        self.committed = json.loads((PUBLISHED / "predictions.json").read_text())
        self.runs = {run.name: run for run in runs.all_runs()}

    def test_every_configuration_is_predicted(self):
        self.assertEqual(set(self.committed), set(self.runs))
        for name, run in self.runs.items():
            self.assertEqual(self.committed[name]["arguments"], " ".join(run.arguments()))
            self.assertEqual(self.committed[name]["gpus"], run.gpus)

    def test_predictions_are_what_the_models_say(self):
        predict = load("predict").predict
        for name in CHEAP:
            with self.subTest(name):
                self.assertEqual(predict(vrank.BUILD, self.runs[name]), self.committed[name],
                                 "a prediction changed; see the head of this file")

    def test_causes_are_changes_of_the_same_prediction(self):
        causes = load("causes")
        run = self.runs["korthikanti2022_table5_a100/22B/full"]
        with vrank.scratch() as folder:
            times = {name: causes.seconds(vrank.BUILD, run, change, folder)
                     for name, change in {"": causes.Change(), **causes.changes(run)}.items()}
        unchanged = times.pop("")
        self.assertLess(unchanged, self.committed[run.name]["iteration_s"])
        self.assertEqual(set(times), {"host", "dropout", "rows"})
        # The links of a cluster, the one change that no run of this GPU has.
        run = self.runs["megatron_core_h100_weak_scaling/7.1B/plain 1F1B"]
        with vrank.scratch() as folder:
            free = causes.seconds(vrank.BUILD, run, causes.changes(run)["links"], folder)
        self.assertLess(free, self.committed[run.name]["iteration_s"])
        self.assertGreater(times["dropout"], unchanged * 1.02)
        self.assertGreater(times["rows"], unchanged * 1.02)


if __name__ == "__main__":
    unittest.main()
