#!/usr/bin/env python3
"""Finds constants of real time outside of schedule/policy.def, in the folders that decide
which thread runs next; prints one line for each, and the number of sources read.

    check_policy.py [FILE ...]        default: all sources of those folders
"""

import os
import re
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

FOLDERS = ("schedule", "virtual_host", "emulator/session", "emulator/watch",
           "emulator/world")

# A unit with a number other than 0, or a number with a unit.
CONSTANT = re.compile(
    r"\b(?:Duration::\w*[Ss]econds|(?:nano|micro|milli)?seconds(?:\s+\w+)?)\s*"
    r"[({]\s*(?!0\s*[)}])[0-9]"
    r"|\b[0-9][0-9']*(?:ns|us|ms|s|min|h)\b"
    r"|\b(?:usleep|sleep|alarm)\(\s*[1-9]")


def sources():
    for folder in FOLDERS:
        for path, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith((".h", ".cc")):
                    yield os.path.join(path, name)


def code_of(line):
    """Without strings and the comment at its end."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', line).split("//")[0]


def main(argv):
    if argv and argv[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    paths = [os.path.abspath(path) for path in argv] or list(sources())
    found = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if CONSTANT.search(code_of(line)):
                    found += 1
                    print(f"{os.path.relpath(path, ROOT)}:{number}: a constant of real time: "
                          f"give it a row in schedule/policy.def: {line.strip()}")
    print(f"check_policy: {len(paths)} sources, {found} constants outside of "
          "schedule/policy.def", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
