#!/usr/bin/env python3
"""Holds libnccl.so.2 against its list, and the list against NVIDIA's library.

    exports_test.py LIBRARY [NVIDIA_LIBRARY]

- LIBRARY exports exactly nccl.symbols: weak names with strong twins, unversioned, under
  its SONAME, and needs nothing but libc, libm and the loader;
- up to 2.28.9 the list is what NVIDIA_LIBRARY exports, names and linkage alike. Exit
  status 77 (skipped) where that library is not there.
"""

import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).resolve().parents[2] / "virtual_nccl" / "nccl.symbols"
ALLOWED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
NO_TWIN = {"ncclResetDebugInitInternal"}
SKIPPED = 77


def listed(newest):
    """name -> linkage letter of nm, for the names that existed in version `newest`."""
    linkage = {}
    for line in LIST.read_text().splitlines():
        match = re.match(r"(nccl\w+).*# ([\d.]+)", line)
        if match is None or tuple(map(int, match[2].split("."))) > newest:
            continue
        if match[1] in NO_TWIN:
            linkage[match[1]] = "T"
        else:
            linkage[match[1]] = "W"
            linkage["p" + match[1]] = "T"
    return linkage


def exported(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                            capture_output=True, text=True).stdout
    rows = [line.split()[-2:] for line in output.splitlines()]
    return {name: letter for letter, name in rows}


def compare(what, expected, found):
    problems = [f"{what}: {name} is missing" for name in expected if name not in found]
    problems += [f"{what}: {name} is not in {LIST.name}" for name in found
                 if name not in expected]
    problems += [f"{what}: {name} has linkage {found[name]}, not {expected[name]}"
                 for name in expected if name in found and found[name] != expected[name]]
    return problems


def check_dynamic_section(library):
    output = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                            text=True).stdout
    needed = set(re.findall(r"NEEDED\).*\[(.*)\]", output))
    soname = re.findall(r"SONAME\).*\[(.*)\]", output)
    problems = [f"needs {name}" for name in sorted(needed - ALLOWED)]
    if soname != ["libnccl.so.2"]:
        problems.append(f"SONAME is {soname}")
    return problems


def main(arguments):
    if len(arguments) not in (1, 2):
        raise SystemExit(__doc__)
    problems = compare("vrank's libnccl", listed((99,)), exported(arguments[0]))
    problems += check_dynamic_section(arguments[0])
    reference = arguments[1] if len(arguments) == 2 else ""
    has_reference = pathlib.Path(reference).is_file()
    if has_reference:
        problems += compare("NVIDIA's libnccl", listed((2, 28, 9)), exported(reference))
    for problem in problems:
        print(problem)
    if problems:
        return 1
    if not has_reference:
        print(f"not compared with NVIDIA's library: '{reference}' is not there")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
