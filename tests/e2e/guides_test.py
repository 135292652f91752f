"""The walk-throughs of docs/guides: every command works, and prints what the page shows."""

import pathlib
import shutil
import unittest

import guide_runner
import vrank_runner as vrank

PAGES = sorted((vrank.ROOT / "docs" / "guides").glob("*.md"))


class GuidesTest(unittest.TestCase):

    def test_there_is_one_page_per_user(self):
        self.assertEqual([page.stem for page in PAGES],
                         ["find_a_hang", "find_a_peak", "gate_a_change", "host_time",
                          "reproduce_an_iteration"])

    def test_every_page_does_what_it_shows(self):
        for page in PAGES:
            text = page.read_text()
            if "gdb" in text and shutil.which("gdb") is None:
                print(f"{page.stem}: its gdb step is left out, gdb is not installed")
                text = text.split("## 5.")[0]
            with self.subTest(page.stem), vrank.scratch() as folder:
                place = pathlib.Path(folder)
                for step, code, printed, errors in guide_runner.run(
                        text, place, vrank.BUILD / "bin"):
                    self.assertEqual(code, step.exit_code, f"{step.command}\n{errors}")
                    if not guide_runner.matches(step.shown, printed):
                        self.fail(f"{step.command}\n"
                                  f"{guide_runner.difference(step, printed)}")


if __name__ == "__main__":
    unittest.main()
