#!/usr/bin/env python3
"""schedule/policy.def holds all constants of real time, each used; scripts/check_policy.py
finds others."""

import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import check_policy  # noqa: E402

ROW = re.compile(r'^POLICY\((\w+), (.+?),\s+"(.*?)",\s*"(\w*)"\)$', re.M | re.S)


def table():
    text = pathlib.Path(ROOT, "schedule", "policy.def").read_text(encoding="utf-8")
    rows = ROW.findall(text)
    assert len(rows) == text.count("\nPOLICY("), "a row that the test cannot read"
    return rows


class PolicyTest(unittest.TestCase):
    def found_in(self, line):
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as file, \
                contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            file.write(line + "\n")
            file.flush()
            return check_policy.main([file.name]) == 1

    def test_the_repository_is_clean(self):
        self.assertGreater(len(list(check_policy.sources())), 100)
        with contextlib.redirect_stdout(io.StringIO()) as output, \
                contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(check_policy.main([]), 0, output.getvalue())

    def test_constants_are_found_however_they_are_written(self):
        for line in ("constexpr Duration kNap = Duration::Milliseconds(20);",
                     "constexpr std::chrono::milliseconds kNap{20};",
                     "constexpr milliseconds kNap{10'000};",
                     "std::this_thread::sleep_for(std::chrono::seconds(1));",
                     "cv.wait_for(lock, 250ms);", "usleep(1000);",
                     "FutexWait(&word, 2, Duration::Seconds(1), false);"):
            self.assertTrue(self.found_in(line), line)

    def test_what_is_none_is_not_found(self):
        for line in ("return milliseconds(0);", "Duration::Nanoseconds(ns)",
                     "// after 20 ms, or 20ms", 'Note("after 20ms");',
                     "schedule::Milliseconds(schedule::kIdle)",
                     "const milliseconds used(used_ms - began_ms);"):
            self.assertFalse(self.found_in(line), line)

    def test_every_constant_is_used_and_says_what_it_is_for(self):
        sources = "".join(pathlib.Path(path).read_text(encoding="utf-8")
                          for path in check_policy.sources())
        rows = table()
        self.assertGreater(len(rows), 50)
        for name, _, meaning, _ in rows:
            self.assertTrue(re.search(rf"\bschedule::{name}\b", sources), f"{name} is not used")
            self.assertGreater(len(meaning), 8, name)

    def test_losses_that_count_them_exist(self):
        known = pathlib.Path(ROOT, "base", "guest").rglob("*")
        losses = "".join(path.read_text(encoding="utf-8") for path in known
                         if path.suffix in (".h", ".def"))
        for name, _, _, counted_as in table():
            if counted_as:
                self.assertIn(f'"{counted_as}"', losses, name)


if __name__ == "__main__":
    unittest.main()
