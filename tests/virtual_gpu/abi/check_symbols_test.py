#!/usr/bin/env python3
"""scripts/check_symbols.py finds each kind of difference in libraries made for it."""

import argparse
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
CHECK = os.path.join(ROOT, "scripts", "check_symbols.py")
LIST = "@soname libx.so.1\n@node libx.so.1\n@refuse 1\n@table none\none\ntwo const char*\n"
COMPILER = "g++"


class CheckSymbolsTest(unittest.TestCase):
    def check(self, source, script, *flags, symbols="x.list"):
        """Builds a library; returns what the checker says about it and LIST."""
        with tempfile.TemporaryDirectory() as folder:
            path = lambda name: os.path.join(folder, name)
            for name, text in (("x.cc", source), ("x.map", script), ("x.list", LIST)):
                with open(path(name), "w", encoding="utf-8") as out:
                    out.write(text)
            subprocess.run([COMPILER, "-shared", "-fPIC", "-o", path("libx.so.1"),
                            path("x.cc"), "-Wl,-soname,libx.so.1",
                            "-Wl,--version-script=" + path("x.map"), *flags], check=True)
            result = subprocess.run(
                [sys.executable, CHECK, "--library", path("libx.so.1"), "--symbols",
                 path(symbols)], capture_output=True, text=True, check=False)
            return result.returncode, result.stderr

    SOURCE = 'extern "C" int one() { return 1; } extern "C" int two() { return 2; }\n'
    SCRIPT = "libx.so.1 { global: one; two; local: *; };\n"
    PLAIN = ["-nostdlib"]

    def test_accepts_the_list(self):
        self.assertEqual(self.check(self.SOURCE, self.SCRIPT, *self.PLAIN), (0, ""))

    def test_finds_a_hidden_function(self):
        status, said = self.check(self.SOURCE, self.SCRIPT, "-fvisibility=hidden",
                                  *self.PLAIN)
        self.assertEqual(status, 1)
        self.assertIn("does not export one, two", said)

    def test_finds_an_extra_function(self):
        status, said = self.check(self.SOURCE + 'extern "C" int three() { return 3; }',
                                  "libx.so.1 { global: *; };\n", *self.PLAIN)
        self.assertEqual(status, 1)
        self.assertIn("exports three", said)

    def test_finds_a_wrong_version_node(self):
        status, said = self.check(self.SOURCE, "{ global: one; two; local: *; };\n",
                                  *self.PLAIN)
        self.assertEqual(status, 1)
        self.assertIn("outside version node", said)

    def test_finds_a_needed_library(self):
        status, said = self.check(self.SOURCE, self.SCRIPT, "-Wl,--no-as-needed")
        self.assertEqual(status, 1)
        self.assertIn("libstdc++.so.6", said)

    def test_reads_a_version_script(self):
        script = "{ global:\n  one; two;\n local: *; };\n"
        self.assertEqual(self.check(self.SOURCE, script, *self.PLAIN, symbols="x.map"),
                         (0, ""))
        status, said = self.check(self.SOURCE, "{ global: one; two; three; local: *; };\n",
                                  *self.PLAIN, symbols="x.map")
        self.assertEqual(status, 1)
        self.assertIn("does not export three", said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default=COMPILER)
    options, rest = parser.parse_known_args()
    COMPILER = options.compiler
    unittest.main(argv=[sys.argv[0], *rest])
