#!/usr/bin/env python3
"""Checks that guest libraries export exactly their lists and need next to nothing.

    check_symbols.py --library build/lib/vrank/libcudart.so.13
                     --symbols virtual_gpu/symbols/cuda_13/libcudart.so.13.symbols
                     [--real /usr/local/cuda/lib64/libcudart.so.13]

--symbols is a list in the form of virtual_gpu/generate/symbol_list.py, a version script
whose names are written out, or plain names.
With --real the list must also have all names of NVIDIA's library, where that file exists.
It may have more: one list serves all releases of a CUDA major.
Prints one sentence per difference; exit status 1 if there is one.
"""

import argparse
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..",
                                "virtual_gpu", "generate"))
import symbol_list  # noqa: E402

ALLOWED_NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2",
                  "ld-linux-aarch64.so.1"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exports(library):
    """(name, version node) of every defined dynamic symbol, without the nodes' own."""
    found = set()
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        _, kind, name = line.split()
        if kind != "A":
            name, _, node = name.partition("@")
            found.add((name, node.lstrip("@")))
    return found


def dynamic(library, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", run("readelf", "-d", library))


def few(names):
    names = sorted(names)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def expected(path):
    with open(path, encoding="utf-8") as lines:
        text = lines.read()
    if re.search(r"^@", text, re.M):
        symbols = symbol_list.read(path)
        return symbols.names, symbols.node, symbols.soname
    if script := re.search(r"global:(.*?)local:", text, re.S):
        names = (name.strip() for name in script[1].split(";"))
        return {name for name in names if name}, "", ""
    names = (line.split("#")[0].strip() for line in text.splitlines())
    return {name for name in names if name}, "", ""


def differences(library, symbols, real):
    names, node, soname = expected(symbols)
    found = exports(library)
    if missing := names - {name for name, _ in found}:
        yield (f"{library} does not export {few(missing)}; define them with VRANK_EXPORT "
               f"or leave them out of {symbols}")
    if extra := {name for name, _ in found} - names:
        yield (f"{library} exports {few(extra)}, which are not in {symbols}; add them "
               "there if NVIDIA's library exports them")
    if wrong := {name for name, version in found if version != node}:
        yield (f"{library} has {few(wrong)} outside version node '{node}'; fix @node in "
               f"{symbols} or the version script")
    if soname and dynamic(library, "SONAME") != [soname]:
        yield f"{library} has SONAME {dynamic(library, 'SONAME')}, not {soname}"
    if needed := set(dynamic(library, "NEEDED")) - ALLOWED_NEEDED:
        yield (f"{library} needs {few(needed)}; guest libraries may need libc, libm and "
               "the loader only: link the rest statically or look it up with dlsym")
    if real and os.path.exists(real):
        theirs = exports(real)
        ours = {(name, node) for name in names}
        if missing := {name for name, _ in theirs - ours}:
            yield (f"{real} exports {few(missing)} with a node that {symbols} does not "
                   "have; make the list again (virtual_gpu/generate/make_symbols.py)")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--library", dest="path", required=True)
    parser.add_argument("--symbols", required=True)
    parser.add_argument("--real", default="")
    options = parser.parse_args()
    found = list(differences(options.path, options.symbols, options.real))
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
