#!/usr/bin/env python3
"""Names without a model return their library's error and say so once.

    refusal_test.py LIBRARY LIST

Calls every refused name of LIBRARY twice, each in the same child process.
"""

import ctypes
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "virtual_gpu", "generate"))
import symbol_list  # noqa: E402

TYPES = {"": ctypes.c_int, "void": None, "void**": ctypes.c_void_p,
         "const char*": ctypes.c_char_p, "char": ctypes.c_char, "int": ctypes.c_int,
         "unsigned": ctypes.c_uint, "size_t": ctypes.c_size_t, "float": ctypes.c_float,
         "double": ctypes.c_double, "long": ctypes.c_long, "ssize_t": ctypes.c_ssize_t,
         "void*": ctypes.c_void_p, "CUfileError_t": ctypes.c_uint64}


def refused_names(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                            capture_output=True, text=True).stdout
    fields = (line.split() for line in output.splitlines())
    return sorted(name.split("@")[0] for _, kind, name in fields if kind == "W")


def call_all(library, symbols):
    """In the child: prints 'name result' for each call."""
    loaded = ctypes.CDLL(library)
    for name in refused_names(library):
        kind = symbols.types[name]
        if kind not in TYPES:
            continue  # a struct by value
        function = getattr(loaded, name)
        function.restype = TYPES[kind]
        for _ in range(2):
            print(name, function())


def main(library, path):
    symbols = symbol_list.read(path)
    if os.environ.get("REFUSAL_TEST_CHILD"):
        return call_all(library, symbols)
    names = refused_names(library)
    child = subprocess.run([sys.executable, *sys.argv], capture_output=True, text=True,
                           check=True, env={"REFUSAL_TEST_CHILD": "1"})
    callable_names = [name for name in names if symbols.types[name] in TYPES]
    results = [line.split(maxsplit=1) for line in child.stdout.splitlines()]
    assert [name for name, _ in results[::2]] == callable_names, "a call is missing"
    for name, result in results:
        kind = symbols.types[name]
        want = {"": symbols.statuses.get(name, symbols.refuse), "void": "None", "void**": "None", "void*": "None",
                "const char*": repr(b"a call that vrank refuses"), "ssize_t": "-1", "CUfileError_t": "5002", "char": "b'\\x00'", "float": "0.0",
                "double": "0.0"}.get(kind, "0")
        assert result == want, f"{name} returned {result}, not {want}"
    said = child.stderr.splitlines()
    expected = [f"vrank {symbols.soname}: {name} is not modelled ({symbols.table})"
                for name in callable_names]
    assert said == expected, f"said {said[:3]} ..., expected {expected[:3]} ..."
    return None


if __name__ == "__main__":
    main(*sys.argv[1:3])
