#!/usr/bin/env python3
"""Checks which folder includes what; prints a sentence for each violation and the number of
sources read.

    check_layering.py [FILE ...]        default: every source file of the repository

The rows are those of docs/architecture.md. A folder without a row may include nothing
until it has one.
"""

import os
import re
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

CUDA = ("cuda", "cublas", "nvml.h", "nccl.h", "driver_types.h", "driver_functions.h",
        "vector_types.h", "library_types.h", "device_types.h", "builtin_types.h",
        "fatbinary_section.h", "nvtx3/", "cuComplex.h", "cupti", "generated_cuda")
HOST = ("absl/", "fmt/", "google/", "CLI/", "nlohmann/", "muParser", "zstd.h",
        "rapidjson/", "re2/", "zlib.h")
TESTING = ("gtest/", "gmock/", "benchmark/")
ANY = ("",)

# What a job is and how it is played, from the bottom to the top.
JOB = ("base", "graph/schema", "graph/program", "graph/replay", "graph/fold")

# The rooms of the program vrank below its commands, each above those before it; slices and
# replay lie side by side.
TOOLS = ("tools/terminal", "tools/machine", "tools/job", "tools/slices", "tools/replay",
         "tools/compare", "tools/report")

# The rooms of the library in the training process, each above those before it.
HOST_ROOMS = ("virtual_host/system", "virtual_host/turns", "virtual_host/channel",
              "virtual_host/wait", "virtual_host/process", "virtual_host/quirks")

# folder: (folders of ours, beginnings of outside headers besides C, C++ and POSIX). The
# longest row that matches a file counts; every folder may include itself.
ROWS = {
    "base/guest": ((), ()),
    "base": (("base/guest",), HOST),
    "schedule": (("base/guest",), ()),
    "graph/schema": (("base",), HOST),
    "graph/program": (JOB[:2], HOST),
    "graph/replay": (JOB[:3], HOST),
    "graph/fold": (JOB[:4], HOST),
    "graph/iterations": (JOB[:2], HOST),
    "graph/sweep": (JOB, HOST),
    "graph/models": (JOB, HOST),
    "graph/flow": ((*JOB, "graph/models"), HOST),
    "graph/membership": (JOB, HOST),
    "graph/trace": (("base", "graph/schema"), HOST),
    "graph/file": ((*JOB, "graph/models"), HOST),
    "graph/build": ((*JOB, "graph/membership", "graph/trace", "graph/file"), HOST),
    "graph/scale": ((*JOB, "graph/membership", "graph/build"), HOST),
    "graph/import": (JOB, HOST),
    "graph/calibration": (("base", "graph/models", "graph/replay"), HOST),
    "graph/what_if": ((*JOB, "graph/iterations", "graph/models"), HOST),
    "graph/analysis": ((*JOB, "graph/iterations", "graph/membership", "graph/file"), HOST),
    "graph/export": ((*JOB, "graph/analysis", "graph/file"), HOST),
    "tracer": (("base/guest",), CUDA + ("cupti", "generated_")),
    "virtual_host/system": ((), ()),
    "virtual_host/turns": (("base/guest", "schedule", *HOST_ROOMS[:1]), ()),
    "virtual_host/channel": (("base/guest", "schedule", *HOST_ROOMS[:2]), ()),
    "virtual_host/wait": (("base/guest", "schedule", *HOST_ROOMS[:3]), ()),
    "virtual_host/process": (("base/guest", *HOST_ROOMS[:4]), ()),
    "virtual_host/quirks": (("base/guest", "virtual_host/channel", "virtual_host/process"), ()),
    "virtual_host/interpose": (("base/guest", "schedule", *HOST_ROOMS), ("nvtx3/",)),
    "virtual_gpu/core": (("base/guest", "virtual_gpu/code"), ()),
    "virtual_gpu/code": (("base/guest",), ("zstd.h",)),
    "virtual_gpu/api": (("base/guest", "virtual_gpu/core", "virtual_gpu/code"), CUDA),
    "virtual_gpu/smi": ((), ("nvml.h",)),
    "gpu_hold": (("base/guest",), CUDA),
    "virtual_nccl/core": (("base/guest",), CUDA),
    "virtual_nccl/api": (("base/guest", "virtual_nccl", "gpu_hold"), CUDA),
    "emulator/connect": (("base", "schedule"), HOST),
    "emulator/host_time": (("base",), HOST),
    "emulator/launch": (("base",), HOST),
    "emulator/payload": (("base", "graph/schema"), HOST),
    "emulator/store": (("base", "emulator/connect"), HOST),
    "emulator/watch": (("schedule", "emulator/connect"), HOST),
    "emulator/decode": (("base", "graph/schema", "graph/program", "graph/models"), HOST),
    "emulator/world": (("base", *JOB[1:4], "graph/iterations", "graph/membership",
                        "emulator/connect", "emulator/decode", "emulator/host_time",
                        "emulator/launch", "emulator/payload", "emulator/watch",
                        "schedule"), HOST),
    "emulator/session": (("base", "schedule", "graph/membership", "emulator/connect", "emulator/launch",
                          "emulator/store", "emulator/watch", "emulator/world"), HOST),
    "tools": (("base",), HOST),
    "tools/terminal": ((), HOST),
    "tools/machine": (("base", "emulator/launch", "tools/terminal"), HOST),
    "tools/job": (("base", "graph/schema", "graph/program", "graph/models", "graph/membership",
                   "graph/file", "graph/build", "emulator/launch", "emulator/host_time",
                   "emulator/decode", "emulator/world",
                   "emulator/session", *TOOLS[:2]), HOST),
    "tools/slices": (("base", "graph/program", "graph/membership", "graph/trace", "graph/file",
                      "graph/build", "emulator/world", *TOOLS[:3]), HOST),
    "tools/replay": (("base", *JOB[2:], "graph/sweep", "graph/models", "graph/flow",
                      "graph/membership", "graph/file", "graph/build", "graph/what_if",
                      "graph/analysis", "emulator/world", *TOOLS[:3]), HOST),
    "tools/compare": (("base", "emulator/host_time", "tools/terminal", "tools/job",
                       "tools/replay"), HOST),
    "tools/report": (("base", "graph/program", "graph/replay", "graph/models", "graph/analysis",
                      "graph/export", "emulator/launch", "emulator/world",
                      "emulator/session", *TOOLS[:3],
                      "tools/replay", "tools/compare"), HOST),
    "tools/commands": (("base", "graph", "emulator", *TOOLS), HOST),
    "examples": ((), CUDA + ("zlib.h",)),
    "tests": (ANY, ANY),
    "bench": (ANY, ANY),
}

# What nobody but the folder itself includes.
PRIVATE = ("tools", "tests", "bench", "examples")

# Beginnings that are not C, C++ or POSIX: naming them needs a row.
OUTSIDE = HOST + CUDA + TESTING

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def row_of(path):
    rows = [folder for folder in ROWS if path.startswith(folder + "/")]
    return max(rows, key=len) if rows else None


def below(path, folders):
    return any(folder == "" or path.startswith(folder + "/") for folder in folders)


def outside_header(name):
    return any(name.startswith(beginning) for beginning in OUTSIDE)


def violation(path, row, quote, name):
    """Why `path` may not include `name`; None if it may."""
    ours, others = ROWS[row]
    # Includes of ours are written from the root; a bare name in quotes lies beside it.
    beside = os.path.join(os.path.dirname(path), name)
    mine = name if "/" in name else beside
    if quote == '"' and (os.path.exists(os.path.join(ROOT, mine)) or row_of(mine)):
        if below(mine, (row,)):
            return None
        top = mine.split("/")[0]
        if top in PRIVATE and not path.startswith(top + "/") and row not in PRIVATE:
            return f"nobody includes {top}/"
        if below(mine, ours):
            return None
        allowed = ", ".join(f + "/" for f in (row,) + ours if f)
        return f"{row}/ may include of ours only {allowed}"
    if others == ANY or not outside_header(name):
        return None
    if any(name.startswith(beginning) for beginning in others):
        return None
    return f"{row}/ may not use that library"


def check(path):
    row = row_of(path)
    with open(os.path.join(ROOT, path), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            if row is None:
                yield f"{path}: its folder has no row in scripts/check_layering.py; add one"
                return
            why = violation(path, row, match[1], match[2])
            if why:
                yield f"{path}:{number}: may not include {match[2]}: {why}"


def sources():
    for folder, names, files in os.walk(ROOT):
        # Only the build folder of the root has built files: graph/build has sources.
        skipped = ("build",) if folder == ROOT else ()
        names[:] = sorted(n for n in names if n not in skipped and not n.startswith("."))
        for name in sorted(files):
            if name.endswith((".h", ".cc", ".cu", ".cuh", ".c", ".def")):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def main(arguments):
    paths = [os.path.relpath(a, ROOT) for a in arguments] or list(sources())
    found = [sentence for path in paths for sentence in check(path)]
    for sentence in found:
        print(sentence, file=sys.stderr)
    print(f"{len(paths)} sources read, {len(found)} violations")
    return 0 if paths and not found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
