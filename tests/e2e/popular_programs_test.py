"""Popular training stacks, as their users write them: iterations are found, and the job ends.

All of them are in docs/popular_programs.md; a test of a package that is not there is skipped.
"""

import importlib.machinery
import importlib.util
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank


def load_script():
    path = str(vrank.ROOT / "scripts" / "popular_programs")
    loader = importlib.machinery.SourceFileLoader("popular_programs", path)
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    return script


SCRIPT = load_script()


def program(name, steps, package, install):
    """A test that runs one of the script's programs and expects so many iterations."""
    @pytorch.needs_package(package, install)
    def test(self):
        with vrank.scratch() as folder:
            report, errors = SCRIPT.emulate(vrank.VRANK, pytorch.PYTHON, SCRIPT.PROGRAMS[name],
                                            folder)
        self.assertIsNotNone(report, errors)
        self.assertIsNone(report["failure"])
        self.assertEqual(len(report["iteration_time_ns"]), steps)
        self.assertEqual(report["iteration_source"]["evidence"], "optimizer")
    return test


class PopularProgramsTest(unittest.TestCase):

    test_nanogpt = program("nanoGPT's loop, DDP", 12, "torch", "torch==2.11.0")

    def test_a_failure_is_one_line(self):
        errors = "[rank 0] a line of the program\nvrank emulate: it broke at /some/place/file.py\n"
        self.assertEqual(SCRIPT.failure_text(None, errors), "vrank emulate: it broke at file.py")
        self.assertEqual(SCRIPT.failure_text({"failure": "one\n  | two"}, ""), "one / two")

    def test_other_rows_stay(self):
        first, second = list(SCRIPT.PROGRAMS)[:2]
        page = f"# Page\n{SCRIPT.BEGIN}\n{SCRIPT.END}\nthe end\n"
        page = SCRIPT.with_row(page, second, f"| {second} | its row |")
        page = SCRIPT.with_row(page, first, f"| {first} | its row |")
        page = SCRIPT.with_row(page, second, f"| {second} | another |")
        self.assertEqual(page, "\n".join(
            ["# Page", SCRIPT.BEGIN, *SCRIPT.HEAD, f"| {first} | its row |",
             f"| {second} | another |", SCRIPT.END, "the end\n"]))


if __name__ == "__main__":
    unittest.main()
