#!/usr/bin/env python3
"""Every name that libnccl.so.2 exports has a contract that a test checks.

    contracts_test.py LIBRARY

A modelled function has cases of the conformance suite, or stands in MODELLED_HERE; a
refused one is called here: it returns what docs/nccl_compat.md says, names itself once on
standard error, and is the last error. A name and its profiling twin are one function.
"""

import ctypes
import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# NCCL's documentation has no sentence on them that says when.
MODELLED_HERE = {"ncclResetDebugInit", "ncclResetDebugInitInternal"}
# Newer than NCCL 2.28.9, which the suite is held against: tests/virtual_nccl/newer_calls_test.cc.
MODELLED_HERE |= {"ncclCommGetUniqueId", "ncclCommGrow", "ncclCommMemStats", "ncclCommResume",
                  "ncclCommSuspend", "ncclWinGetUserPtr"}
INVALID_USAGE = 5


class Team(ctypes.Structure):
    _fields_ = [("ranks", ctypes.c_int), ("rank", ctypes.c_int), ("stride", ctypes.c_int)]


def compat_table():
    spec = importlib.util.spec_from_file_location(
        "compat_table", ROOT / "virtual_nccl" / "compat_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ContractsTest(unittest.TestCase):
    path = None  # of libnccl

    def setUp(self):
        self.nccl = ctypes.CDLL(self.path)
        self.nccl.ncclGetLastError.restype = ctypes.c_char_p
        self.table = compat_table()
        self.entries = self.table.read_entries()
        self.refused = self.table.refused_names()

    def written(self, descriptor, body):
        """What `body` writes to a file descriptor of the process."""
        kept = os.dup(descriptor)
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), descriptor)
            try:
                body()
            finally:
                os.dup2(kept, descriptor)
                os.close(kept)
            file.seek(0)
            return file.read().decode()

    def test_every_modelled_function_is_checked(self):
        checked = {name for functions in self.table.cases() for name in functions}
        for entry in self.entries:
            if entry.name not in self.refused | MODELLED_HERE:
                self.assertIn(entry.name, checked)

    def test_every_twin_is_the_function(self):
        twins = 0
        for entry in self.entries:
            if "no twin" in entry.remark:
                continue
            name, twin = (ctypes.cast(getattr(self.nccl, prefix + entry.name),
                                      ctypes.c_void_p).value for prefix in ("", "p"))
            self.assertEqual(name, twin, entry.name)
            twins += 1
        self.assertGreaterEqual(twins, 52)  # of NCCL 2.28.9

    def test_refused_functions_refuse_by_name(self):
        returns = {"0": (ctypes.c_int, 0), "-1": (ctypes.c_int, -1),
                   "prints nothing": (None, None), "": (ctypes.c_int, INVALID_USAGE)}
        self.assertGreater(len(self.refused), 12)
        for entry in self.entries:
            if entry.name not in self.refused:
                continue
            with self.subTest(entry.name):
                function = getattr(self.nccl, entry.name)
                if entry.remark == "all zero":
                    function.restype = Team
                    expected = (0, 0, 0)
                else:
                    function.restype, expected = returns[entry.remark]
                found = []
                on_output = self.written(1, lambda: found.append(self.written(
                    2, lambda: found.extend([function(), function()]))))
                first, second, said = found
                if entry.remark == "all zero":
                    first, second = ((team.ranks, team.rank, team.stride)
                                     for team in (first, second))
                self.assertEqual((first, second), (expected, expected))
                self.assertEqual(on_output, "")
                self.assertEqual(len(re.findall(rf"\b{entry.name}\b", said)), 1, said)
                self.assertIn(entry.name, self.nccl.ncclGetLastError(None).decode())

    def test_debugging_variables_are_read_again(self):
        libc = ctypes.CDLL(None)
        with tempfile.TemporaryDirectory() as folder:
            libc.setenv(b"NCCL_DEBUG", b"WARN", 1)
            for reset in ("ncclResetDebugInit", "ncclResetDebugInitInternal",
                          "pncclResetDebugInit"):
                path = pathlib.Path(folder, reset)
                libc.setenv(b"NCCL_DEBUG_FILE", os.fsencode(path), 1)
                getattr(self.nccl, reset)()
                self.assertNotEqual(self.nccl.ncclCommCount(None, None), 0)
                self.assertIn("NCCL WARN", path.read_text())


if __name__ == "__main__":
    ContractsTest.path = sys.argv.pop(1)
    unittest.main()
