#!/usr/bin/env python3
"""Instructions of cubins as nvdisasm prints them: one per operation, modifiers and form.

    sample_instructions.py NVDISASM CUBIN... > instructions.txt

A line: the architecture, the lower and the upper word, the text. decoder_test.cc compares
the decoder with them.
"""

import re
import subprocess
import sys

LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?) ?;?\s+(?:\(\*.*?\*\)\s*)?/\* (0x[0-9a-f]{16}) \*/")
UPPER = re.compile(r"^\s*/\* (0x[0-9a-f]{16}) \*/")


def main():
    seen = set()
    for cubin in sys.argv[2:]:
        architecture = re.search(r"(\d+)\.cubin$", cubin).group(1)
        text = subprocess.run([sys.argv[1], "-c", "-hex", cubin], check=True,
                              capture_output=True, text=True).stdout.splitlines()
        for first, second in zip(text, text[1:]):
            line, upper = LINE.search(first), UPPER.match(second)
            if not line or not upper or "`(" in line.group(1):
                continue
            instruction = line.group(1)
            operation = re.sub(r"^@!?U?P\d+ ", "", instruction)
            form = int(line.group(2), 16) & 0xfff
            # Signs of registers count; numbers and predicates do not.
            shape = re.sub(r"!?U?P[T\d]", "P", operation)
            shape = re.sub(r"(?<=R)\d+", "", shape)
            shape = re.sub(r"[-+]?(0x[0-9a-f]+|\d[\d.]*(e[-+]?\d+)?|INF|QNAN|SNAN)", "n", shape)
            key = (architecture, form, shape.replace(".reuse", ""))
            if key in seen:
                continue
            seen.add(key)
            print(architecture, line.group(2), upper.group(1), instruction)


if __name__ == "__main__":
    main()
