"""The README's commands exist, and its transcript and picture are what the demo prints."""

import html
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

    def test_the_demo_prints_what_the_readme_shows(self):
        printed = set(vrank.run("demo", timeout=900).stdout.splitlines())
        text = (vrank.ROOT / "README.md").read_text()
        shown = text.split("    $ vrank demo\n", 1)[1].split("`fidelity` splits", 1)[0]
        lines = [line[4:] for line in shown.splitlines() if line and "..." not in line]
        picture = (vrank.ROOT / "docs" / "images" / "demo.svg").read_text()
        drawn = [html.unescape(line) for line in re.findall(r"<text[^>]*>(.*)</text>", picture)]
        self.assertGreater(len(lines), 10)
        self.assertGreater(len(drawn), 50)
        for line in lines + drawn[1:]:
            self.assertIn(line, printed)


if __name__ == "__main__":
    unittest.main()
