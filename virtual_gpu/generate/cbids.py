#!/usr/bin/env python3
"""Writes CUPTI's numbers of CUDA's functions (cbids) as a table.

    cbids.py INCLUDE OUT.cc

INCLUDE holds cupti_runtime_cbid.h and cupti_driver_cbid.h, whose enumerators are the only
list. A runtime function whose parameters changed has one enumerator per CUDA version
(cudaGetDeviceProperties_v3020, _v12000); the name that the library exports stands for the
newest. The table is virtual_gpu/api/cupti/cbids.h.
"""

import os
import re
import sys

HEAD = """\
// Made by virtual_gpu/generate/cbids.py from {header}.

#include "virtual_gpu/api/cupti/cbids.h"

namespace vrank::cupti {{

"""


def enumerators(include, api):
    """[(name in the enumerator, number)] without the first (INVALID) and last (SIZE)."""
    path = os.path.join(include, f"cupti_{api}_cbid.h")
    with open(path, encoding="utf-8") as header:
        text = header.read()
    rows = re.findall(rf"CUPTI_{api.upper()}_TRACE_CBID_(\w+)\s*=\s*(\d+)", text)
    rows = [(name, int(number)) for name, number in rows
            if name not in ("INVALID", "SIZE", "FORCE_INT")]
    if len(rows) < 100:
        raise SystemExit(f"{path}: only {len(rows)} cbids; has its form changed?")
    return rows


def table(name, rows, short):
    """One row per number: function as exported, name of the cbid, newest of its name."""
    newest = {}
    for full, number in rows:
        newest[short(full)] = max(number, newest.get(short(full), 0))
    by_number = {number: full for full, number in rows}
    out = f"const CbidRow k{name}Cbids[] = {{\n"
    for number in range(max(by_number) + 1):
        full = by_number.get(number)
        if full is None:
            out += '    {nullptr, nullptr, false},\n'
        else:
            current = "true" if newest[short(full)] == number else "false"
            out += f'    {{"{short(full)}", "{full}", {current}}},\n'
    return out + f"}};\nconst unsigned k{name}CbidCount = {max(by_number) + 1};\n\n"


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    include, path = arguments
    with open(path, "w", encoding="utf-8") as out:
        out.write(HEAD.format(header="cupti_*_cbid.h"))
        out.write(table("Runtime", enumerators(include, "runtime"),
                        lambda name: re.sub(r"_v\d+$", "", name)))
        out.write(table("Driver", enumerators(include, "driver"), lambda name: name))
        out.write("}  // namespace vrank::cupti\n")


if __name__ == "__main__":
    main(sys.argv[1:])
