#!/usr/bin/env python3
"""Makes the symbol lists of one CUDA major from an installed toolkit.

    make_symbols.py TOOLKIT FOLDER [--cudart 13.0.96] [--cublas 13.1.0.3]

TOOLKIT holds include/ (with nvml.h) and lib/ (with stubs/libcuda.so); FOLDER is, for
example, virtual_gpu/symbols/cuda_13. Names come from `nm -D --defined-only`; those of
libnvidia-ml, which no toolkit contains, from nvml.h. Return types come from the
preprocessed headers, and so do statuses that a function's comment promises (CUPTI's
removed interfaces). The two versions are only written into the lists' first lines.

Run by hand when a toolkit is added; the lists are checked in.
"""

import argparse
import os
import re
import subprocess

# Entries that compilers call and no header declares.
UNDECLARED = {
    "__cudaRegisterHostVar": "void",
    "__cudaRegisterUnifiedTable": "void",
    "InitializeInjectionNvtx": "int",  # NVTX's entry points for tools: 0 is failure
    "InitializeInjectionNvtx2": "int",
    "InitializeInjectionNvtxExtension": "int",
    "cuptiOpenMpInitialize": "int",  # OMPT's: 0 is failure
    "cuptiOpenMpInitialize_v2": "int",
}

# soname, library below lib/ (None: names from nvml.h), status type, value, meaning
LIBRARIES = [
    ("libcudart.so.{major}", "libcudart.so.{major}", "cudaError_t", 801,
     "cudaErrorNotSupported"),
    ("libcuda.so.1", "stubs/libcuda.so", "CUresult", 801, "CUDA_ERROR_NOT_SUPPORTED"),
    ("libcublas.so.{major}", "libcublas.so.{major}", "cublasStatus_t", 15,
     "CUBLAS_STATUS_NOT_SUPPORTED"),
    ("libcublasLt.so.{major}", "libcublasLt.so.{major}", "cublasStatus_t", 15,
     "CUBLAS_STATUS_NOT_SUPPORTED"),
    ("libnvidia-ml.so.1", None, "nvmlReturn_t", 3, "NVML_ERROR_NOT_SUPPORTED"),
    ("libcupti.so.{major}", "libcupti.so.{major}", "CUptiResult", 27,
     "CUPTI_ERROR_NOT_SUPPORTED"),
]

HEADERS = [
    ["cuda.h", "cuda_runtime_api.h", "cudaProfiler.h", "cuda_profiler_api.h",
     "cublas_v2.h", "cublasLt.h", "cupti.h"],
    ["cublas.h"],  # the same names as cublas_v2.h with other types: one or the other
]
# Headers for nvcc's own output, which do not compile alone.
RAW_HEADERS = ["crt/host_runtime.h", "crt/device_functions.h"]


# Headers whose comments say "always returns the error code X" of single functions.
PROMISING_HEADERS = ["cupti_activity.h", "cupti_events.h", "cupti_metrics.h"]
RESULT_HEADER = "cupti_result.h"


NOT_PART_OF_A_TYPE = ("extern", "static", "inline", "__inline__", "struct", "CUDARTAPI",
                      "__host__", "__device__")


def declared_types(include):
    """name -> return type, for every function that the headers declare."""
    types = dict(UNDECLARED)
    texts = []
    for group in HEADERS:
        source = "".join(f"#include <{header}>\n" for header in group)
        texts.append(subprocess.run(["g++", "-x", "c++", "-E", "-P", "-I", include, "-"],
                                    input=source, capture_output=True, text=True,
                                    check=True).stdout)
    for header in RAW_HEADERS:
        with open(os.path.join(include, header), encoding="utf-8") as lines:
            texts.append(lines.read())
    for text in texts:
        text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
        text = re.sub(r'extern\s+"C"', "", text)
        pattern = r"(?:^|[;{}])\s*((?:\w+[\s*]+)+?)((?:__)?cu\w+)\s*\("
        for match in re.finditer(pattern, text, re.MULTILINE):
            words = match[1].replace("*", " * ").split()
            words = [w for w in words if w not in NOT_PART_OF_A_TYPE]
            if "return" not in words:
                types.setdefault(match[2],
                                 " ".join(words).replace(" *", "*").replace("* *", "**"))
    return types


def promised_statuses(include):
    """name -> status, for the functions that are documented to return nothing else."""
    def read(name):
        with open(os.path.join(include, name), encoding="utf-8") as lines:
            return lines.read()
    values = dict(re.findall(r"(CUPTI_\w+)\s*=\s*(\d+)", read(RESULT_HEADER)))
    result = {}
    for header in PROMISING_HEADERS:
        comment = r"/\*\*((?:[^*]|\*(?!/))*)\*/"
        for match in re.finditer(comment + r"\s*CUptiResult CUPTIAPI\s+(\w+)", read(header)):
            if promise := re.search(r"always returns the error code (\w+)", match[1]):
                result[match[2]] = values[promise[1]]
    return result


def exported(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                            capture_output=True, text=True).stdout
    names, node = set(), ""
    for line in output.splitlines():
        _, kind, name = line.split()
        if kind == "A":
            node = name.split("@")[0]
        else:
            names.add(name.split("@")[0])
    return names, node


def declared_nvml(include):
    """What nvml.h declares, and the unversioned names that it maps to versions."""
    with open(os.path.join(include, "nvml.h"), encoding="utf-8") as header:
        text = header.read()
    names = set(re.findall(r"DECLDIR\s+(nvml\w+)\s*\(", text))
    for old, new in re.findall(r"#\s*define\s+(nvml\w+)\s+(nvml\w+)\s*$", text, re.M):
        if new in names:
            names.add(old)
    return names


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("toolkit")
    parser.add_argument("folder")
    parser.add_argument("--cudart", default="")
    parser.add_argument("--cublas", default="")
    options = parser.parse_args()
    include = os.path.join(options.toolkit, "include")
    with open(os.path.join(include, "cuda.h"), encoding="utf-8") as header:
        version = int(re.search(r"#define CUDA_VERSION (\d+)", header.read())[1])
    major, minor = version // 1000, version % 1000 // 10
    types = declared_types(include)
    types["nvmlErrorString"] = "const char*"
    statuses = promised_statuses(include)

    for soname, library, status, value, meaning in LIBRARIES:
        soname = soname.format(major=major)
        package = {"libcudart": options.cudart, "libcublas": options.cublas,
                   "libcublasLt": options.cublas}.get(soname.split(".")[0], "")
        if library is None:
            names, node = declared_nvml(include), ""
            origin = "the declarations of nvml.h"
        else:
            library = library.format(major=major)
            names, node = exported(os.path.join(options.toolkit, "lib", library))
            origin = f"`nm -D --defined-only {library}`"
        with open(os.path.join(options.folder, soname + ".symbols"), "w",
                  encoding="utf-8") as out:
            out.write(f"# Every function that NVIDIA's {soname} exports: {len(names)}.\n"
                      f"# CUDA {major}.{minor}{package and f' ({package})'}; made by "
                      "virtual_gpu/generate/make_symbols.py\n"
                      f"# from {origin}. A type after a name is what\n"
                      f"# the function returns where that is not {status}; @refuse is\n"
                      f"# {meaning}.\n"
                      f"@soname {soname}\n")
            if node:
                out.write(f"@node {node}\n")
            out.write(f"@refuse {value}\n@table docs/cuda_compat.md\n\n")
            for name in sorted(names):
                kind = types.get(name, status)
                if name in statuses:
                    out.write(f"{name} ={statuses[name]}\n")
                elif kind in (status, "cublasStatus"):
                    out.write(f"{name}\n")
                else:
                    out.write(f"{name} {kind}\n")


if __name__ == "__main__":
    main()
