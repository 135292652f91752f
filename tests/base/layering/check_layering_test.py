#!/usr/bin/env python3
"""scripts/check_layering.py accepts the repository and finds violations."""

import os
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import check_layering  # noqa: E402


def why(path, include):
    match = check_layering.INCLUDE.match("#include " + include)
    return check_layering.violation(path, check_layering.row_of(path), match[1], match[2])


class CheckLayeringTest(unittest.TestCase):
    def test_the_repository_is_clean(self):
        found = [s for path in check_layering.sources() for s in check_layering.check(path)]
        self.assertEqual(found, [])

    def test_guests_use_no_host_libraries(self):
        self.assertIsNotNone(why("virtual_nccl/core/x.cc", "<absl/status/status.h>"))
        self.assertIsNotNone(why("virtual_gpu/core/x.cc", "<cuda.h>"))
        self.assertIsNotNone(why("base/guest/x.h", "<fmt/format.h>"))
        self.assertIsNotNone(why("virtual_gpu/api/x.cc", '"virtual_nccl/core/group.h"'))
        self.assertIsNone(why("virtual_gpu/api/x.cc", "<cuda_runtime_api.h>"))
        self.assertIsNone(why("virtual_gpu/core/x.cc", '"base/guest/units.h"'))

    def test_hosts_use_no_guests(self):
        self.assertIsNotNone(why("emulator/x.cc", '"virtual_gpu/core/gpu.h"'))
        self.assertIsNotNone(why("graph/replay/x.cc", '"graph/models/roofline.h"'))
        self.assertIsNone(why("emulator/x.cc", '"base/guest/protocol.h"'))

    def test_nobody_includes_tools_and_tests(self):
        self.assertIsNotNone(why("emulator/x.cc", '"tools/main.h"'))
        self.assertIsNotNone(why("virtual_gpu/core/x.cc", '"tests/testing/x.h"'))


if __name__ == "__main__":
    unittest.main()
