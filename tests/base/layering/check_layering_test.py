#!/usr/bin/env python3
"""scripts/check_layering.py accepts the repository and finds violations."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import check_layering  # noqa: E402


def why(path, include):
    match = check_layering.INCLUDE.match("#include " + include)
    return check_layering.violation(path, check_layering.row_of(path), match[1], match[2])


def check_tree(**files):
    """Exit status and output of the check in a repository of these files alone."""
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as root, mock.patch.object(check_layering, "ROOT", root), \
            contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layering.main([]), output.getvalue()


# Folders whose rows are one each of their own rooms.
IN_ROOMS = ("emulator/", "tools/", "virtual_host/")


class CheckLayeringTest(unittest.TestCase):
    def test_the_repository_is_clean(self):
        found = [s for path in check_layering.sources() for s in check_layering.check(path)]
        self.assertEqual(found, [])

    def test_every_source_of_the_repository_is_read(self):
        suffixes = ("*.h", "*.cc", "*.cu", "*.cuh", "*.c", "*.def")
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", *suffixes], capture_output=True,
                                text=True)
        if listed.returncode != 0:
            self.skipTest("this is no git repository")
        tracked = {name for name in listed.stdout.splitlines() if os.path.exists(f"{ROOT}/{name}")}
        self.assertEqual(tracked - set(check_layering.sources()), set())

    def test_a_folder_named_build_is_read_below_the_root_alone(self):
        forbidden = '#include "emulator/world/world.h"\n'
        status, output = check_tree(**{"graph/build/planted.cc": forbidden,
                                       "base/fine.cc": "",
                                       "build/release/generated.cc": forbidden})
        self.assertEqual(status, 1)
        self.assertIn("graph/build/planted.cc:1: may not include emulator/world/world.h", output)
        self.assertIn("2 sources read, 1 violations", output)

    def test_no_source_at_all_is_an_error(self):
        self.assertEqual(check_tree(), (1, "0 sources read, 0 violations\n"))
        self.assertEqual(check_tree(**{"base/fine.cc": ""}), (0, "1 sources read, 0 violations\n"))

    def test_guests_use_no_host_libraries(self):
        self.assertIsNotNone(why("virtual_nccl/core/x.cc", "<absl/status/status.h>"))
        self.assertIsNotNone(why("virtual_gpu/core/x.cc", "<cuda.h>"))
        self.assertIsNotNone(why("base/guest/x.h", "<fmt/format.h>"))
        self.assertIsNotNone(why("virtual_gpu/api/x.cc", '"virtual_nccl/core/group.h"'))
        self.assertIsNone(why("virtual_gpu/api/x.cc", "<cuda_runtime_api.h>"))
        self.assertIsNone(why("virtual_gpu/core/x.cc", '"base/guest/units.h"'))

    def test_hosts_use_no_guests(self):
        self.assertIsNotNone(why("emulator/session/x.cc", '"virtual_gpu/core/gpu.h"'))
        self.assertIsNotNone(why("graph/replay/x.cc", '"graph/models/roofline.h"'))
        self.assertIsNone(why("emulator/session/x.cc", '"base/guest/protocol.h"'))

    def test_rooms_of_tools_are_layers(self):
        self.assertIsNotNone(why("tools/report/x.cc", '"tools/commands/commands.h"'))
        self.assertIsNotNone(why("tools/slices/x.cc", '"tools/replay/graph_replay.h"'))
        self.assertIsNotNone(why("tools/terminal/x.cc", '"base/pattern.h"'))
        self.assertIsNone(why("tools/commands/x.cc", '"tools/report/report_json.h"'))

    def test_rooms_are_layers(self):
        rooms = {row: ours for row, (ours, _) in check_layering.ROWS.items()
                 if row.startswith(IN_ROOMS)}

        def all_below(room):
            return {room}.union(*(all_below(r) for r in rooms[room] if r in rooms))

        for room, ours in rooms.items():
            for other in ours:
                if other in rooms:
                    self.assertNotIn(room, all_below(other), f"{room} and {other} form a circle")

    def test_rows_of_rooms_permit_only_what_is_included(self):
        for room, (ours, _) in check_layering.ROWS.items():
            if not room.startswith(IN_ROOMS):
                continue
            text = "".join(pathlib.Path(ROOT, path).read_text(encoding="utf-8")
                           for path in check_layering.sources()
                           if check_layering.row_of(path) == room)
            for folder in ours:
                self.assertTrue(f'#include "{folder}/' in text,
                                f"{room} never includes {folder}/")

    def test_nobody_includes_tools_and_tests(self):
        self.assertIsNotNone(why("emulator/session/x.cc", '"tools/main.h"'))
        self.assertIsNotNone(why("virtual_gpu/core/x.cc", '"tests/testing/x.h"'))


if __name__ == "__main__":
    unittest.main()
