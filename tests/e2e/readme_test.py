"""The README's commands exist, and the transcript's command runs."""

import re
import unittest

import vrank_runner as vrank


class ReadmeTest(unittest.TestCase):

    def test_commands_in_the_readme_are_known(self):
        text = (vrank.ROOT / "README.md").read_text()
        names = set(re.findall(r"(?m)^ {4}\$ vrank ([a-z]+)", text))
        self.assertIn("demo", names)
        for name in names:
            self.assertEqual(vrank.run(name, "--help").returncode, 0)

    def test_the_main_job_runs(self):
        report = vrank.run_json("demo", "--json", timeout=900)
        self.assertEqual(report["world_size"], 1024)
        self.assertEqual(len(report["iteration_time_ns"]), 3)


if __name__ == "__main__":
    unittest.main()
