#!/usr/bin/env python3
"""Writes, from a symbol list, the refusing definitions and the version script.

    refusals.py LIST OUT.cc OUT.map

OUT.cc has one weak definition for each function (base/guest/refuse.h); the models are
strong definitions of the same names. Variables are all zero. OUT.map exports exactly the listed names, under the
library's version node where it has one.
"""

import sys

import symbol_list

# Return type in the list -> (spelling in C++, value). Structs have the size and the
# register class of NVIDIA's, which is all that a caller can see of an empty one.
RESULTS = {
    "void": ("void", ""),
    "void**": ("void**", "nullptr"),
    # What a status means; programs make a string of it.
    "const char*": ("const char*", '"a call that vrank refuses"'),
    "char": ("char", "0"),
    "int": ("int", "0"),
    "unsigned": ("unsigned", "0"),
    "size_t": ("unsigned long", "0"),
    "long": ("long", "0"),
    "ssize_t": ("long", "-1"),
    "void*": ("void*", "nullptr"),
    # A pair of two int; CU_FILE_PLATFORM_NOT_SUPPORTED and no CUDA error.
    "CUfileError_t": ("unsigned long", "5002"),
    "float": ("float", "0"),
    "double": ("double", "0"),
    "cuComplex": ("TwoFloats", "{}"),
    "cuDoubleComplex": ("TwoDoubles", "{}"),
    "cudaChannelFormatDesc": ("FiveInts", "{}"),
}

OBJECT_ALIGNMENT = 16  # of the x86-64 ABI, for arrays and structs of any type

HEAD = """\
// Made by virtual_gpu/generate/refusals.py from {list}.
// What each name means: base/guest/refuse.h.

#include "base/guest/refuse.h"

struct TwoFloats {{ float x, y; }};
struct TwoDoubles {{ double x, y; }};
struct FiveInts {{ int v[5]; }};

"""


def definition(symbols, name, kind):
    if kind and kind not in RESULTS:
        raise SystemExit(
            f"{symbols.soname}: {name} returns '{kind}'; add that type to RESULTS in "
            "virtual_gpu/generate/refusals.py")
    spelling, value = RESULTS[kind] if kind else (
        "int", symbols.statuses.get(name, symbols.refuse))
    return (f'VRANK_REFUSE("{symbols.soname}", "{symbols.table}", {spelling}, {name}, '
            f"{value})\n")


def version_script(symbols):
    names = "".join(f"    {name};\n" for name in sorted(symbols.names))
    node = f"{symbols.node} " if symbols.node else ""
    return f"{node}{{\n  global:\n{names}  local:\n    *;\n}};\n"


def main(arguments):
    if len(arguments) != 3:
        raise SystemExit(__doc__)
    path, source, script = arguments
    symbols = symbol_list.read(path)
    short = "/".join(path.split("/")[-4:])
    with open(source, "w", encoding="utf-8") as out:
        out.write(HEAD.format(list=short))
        for name, kind in sorted(symbols.types.items()):
            out.write(definition(symbols, name, kind))
        for name, size in sorted(symbols.objects.items()):
            out.write(f'extern "C" VRANK_EXPORT alignas({OBJECT_ALIGNMENT}) char {name}[{size}];\n'
                      f"char {name}[{size}];\n")
    with open(script, "w", encoding="utf-8") as out:
        out.write(version_script(symbols))


if __name__ == "__main__":
    main(sys.argv[1:])
