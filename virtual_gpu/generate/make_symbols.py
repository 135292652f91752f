#!/usr/bin/env python3
"""Adds the names of a toolkit's libraries to the symbol lists of its CUDA major.

    make_symbols.py TOOLKIT FOLDER [--version libcudart=13.0.96 ...]

TOOLKIT holds include/ (with nvml.h) and lib/; FOLDER is, for example,
virtual_gpu/symbols/cuda_13. Names come from `nm -D --defined-only`; those of libcuda and
libnvidia-ml, which are the driver's, from cuda.h and nvml.h. Return types come from the
preprocessed headers, and so do statuses that a function's comment promises (CUPTI's
removed interfaces). A version is only written into the list's first lines.

What a list has stays: one stand-in serves every release of the major, as the loader
serves a program that was linked with any of them. Libraries that TOOLKIT lacks keep
their lists: cuDNN, cuSPARSELt and NVSHMEM come apart from the toolkit.

Run by hand when a toolkit is added; the lists are checked in.
"""

import argparse
import os
import re
import subprocess

import symbol_list

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

# Exported by accident of how a library was linked, and nobody's interface: names of
# C++ with their types in them, and what the linker adds.
NO_INTERFACE = re.compile(r"_Z|_(init|fini)$")

# soname, library below lib/ (None: names from a header), status type, value, meaning
LIBRARIES = [
    ("libcudart.so.{major}", "libcudart.so.{major}", "cudaError_t", 801,
     "cudaErrorNotSupported"),
    ("libcuda.so.1", None, "CUresult", 801, "CUDA_ERROR_NOT_SUPPORTED"),
    ("libcublas.so.{major}", "libcublas.so.{major}", "cublasStatus_t", 15,
     "CUBLAS_STATUS_NOT_SUPPORTED"),
    ("libcublasLt.so.{major}", "libcublasLt.so.{major}", "cublasStatus_t", 15,
     "CUBLAS_STATUS_NOT_SUPPORTED"),
    ("libnvidia-ml.so.1", None, "nvmlReturn_t", 3, "NVML_ERROR_NOT_SUPPORTED"),
    ("libcupti.so.{major}", "libcupti.so.{major}", "CUptiResult", 27,
     "CUPTI_ERROR_NOT_SUPPORTED"),
    ("libcudnn.so.9", "libcudnn.so.9", "cudnnStatus_t", 3000,
     "CUDNN_STATUS_NOT_SUPPORTED"),
    ("libcufft.so.12", "libcufft.so.12", "cufftResult", 16, "CUFFT_NOT_SUPPORTED"),
    ("libcurand.so.10", "libcurand.so.10", "curandStatus_t", 204,
     "CURAND_STATUS_ARCH_MISMATCH, the nearest that cuRAND has"),
    ("libcusolver.so.12", "libcusolver.so.12", "cusolverStatus_t", 9,
     "CUSOLVER_STATUS_NOT_SUPPORTED"),
    ("libcusparse.so.12", "libcusparse.so.12", "cusparseStatus_t", 10,
     "CUSPARSE_STATUS_NOT_SUPPORTED"),
    ("libcusparseLt.so.0", "libcusparseLt.so.0", "cusparseStatus_t", 10,
     "CUSPARSE_STATUS_NOT_SUPPORTED"),
    ("libcufile.so.0", "libcufile.so.0", "int", 5002, "CU_FILE_PLATFORM_NOT_SUPPORTED"),
    ("libnvshmem_host.so.3", "libnvshmem_host.so.3", "int", 3,
     "NVSHMEMX_ERROR_NOT_SUPPORTED"),
]

HEADERS = [
    ["cuda.h", "cuda_runtime_api.h", "cudaProfiler.h", "cuda_profiler_api.h",
     "cublas_v2.h", "cublasLt.h", "cupti.h"],
    ["cudnn.h", "cufftXt.h", "curand.h", "cusolverDn.h", "cusolverMg.h", "cusolverRf.h",
     "cusolverSp.h", "cusparse.h", "cusparseLt.h", "cufile.h"],
    ["nvshmem.h", "nvshmemx.h"],
    ["cublas.h"],  # the same names as cublas_v2.h with other types: one or the other
]
# Headers for nvcc's own output, which do not compile alone.
RAW_HEADERS = ["crt/host_runtime.h", "crt/device_functions.h"]


# Headers whose comments say "always returns the error code X" of single functions.
PROMISING_HEADERS = ["cupti_activity.h", "cupti_events.h", "cupti_metrics.h"]
RESULT_HEADER = "cupti_result.h"


NOT_PART_OF_A_TYPE = ("extern", "static", "inline", "__inline__", "struct", "CUDARTAPI",
                      "CUDNNWINAPI", "CUFFTAPI", "CURANDAPI", "CUSPARSEAPI", "CUSOLVERAPI",
                      "__host__", "__device__")


def declared_types(include):
    """name -> return type, for every function that the headers declare."""
    types = dict(UNDECLARED)
    texts = []
    for group in HEADERS:
        source = "".join(f"#include <{header}>\n" for header in group
                         if os.path.exists(os.path.join(include, header)))
        texts.append(subprocess.run(["g++", "-x", "c++", "-E", "-P", "-I", include,
                                     "-I", os.path.join(include, "cccl"), "-"],
                                    input=source, capture_output=True, text=True,
                                    check=True).stdout)
    for header in RAW_HEADERS:
        with open(os.path.join(include, header), encoding="utf-8") as lines:
            texts.append(lines.read())
    for text in texts:
        text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
        text = re.sub(r'extern\s+"C"', "", text)
        pattern = r"(?:^|[;{}])\s*((?:\w+[\s*]+)+?)((?:__)?(?:cu|nvshmem)\w+)\s*\("
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
    """Functions, variables with their sizes, and the version node."""
    output = subprocess.run(["nm", "-D", "-S", "--defined-only", library], check=True,
                            capture_output=True, text=True).stdout
    functions, objects, node = set(), {}, ""
    for line in output.splitlines():
        *numbers, kind, name = line.split()
        name = name.split("@")[0]
        if kind == "A":
            node = name
        elif NO_INTERFACE.match(name):
            continue
        elif kind in "TW":
            functions.add(name)
        elif kind in "BDRV" and len(numbers) == 2:
            objects[name] = int(numbers[1], 16)
    return functions, objects, node


def declared_driver(include):
    """What cuda.h declares for programs of any age and any default stream."""
    names = set()
    for flags in ([], ["-D__CUDA_API_VERSION_INTERNAL"],
                  ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]):
        text = subprocess.run(
            ["g++", "-x", "c++", "-E", "-P", "-I", include, *flags, "-"],
            input="#include <cuda.h>\n#include <cudaProfiler.h>\n", capture_output=True,
            text=True, check=True).stdout
        names |= set(re.findall(r"\bCUresult\s+(?:CUDAAPI\s+)?(cu[A-Z]\w+)\s*\(", text))
    return names


def declared_nvml(include):
    """What nvml.h declares, and the unversioned names that it maps to versions."""
    with open(os.path.join(include, "nvml.h"), encoding="utf-8") as header:
        text = header.read()
    names = set(re.findall(r"DECLDIR\s+(nvml\w+)\s*\(", text))
    for old, new in re.findall(r"#\s*define\s+(nvml\w+)\s+(nvml\w+)\s*$", text, re.M):
        if new in names:
            names.add(old)
    return names


def is_number(soname, kind):
    """Enumerators, and NVSHMEM's functions for single elements of every type of C: a
    status where a number is expected."""
    if soname.startswith("libcusparse"):
        return kind.startswith("cusparse")
    return soname.startswith("libnvshmem") and "*" not in kind and kind not in (
        "void", "float", "double")


def known(path):
    """The releases and the rows that a list has already."""
    if not os.path.exists(path):
        return [], {}
    with open(path, encoding="utf-8") as lines:
        text = lines.read()
    releases = re.findall(r"CUDA \d+\.\d+(?: \([^)]*\))?", text.split("@soname")[0])
    names = symbol_list.read(path).names
    rows = (line.split("#")[0].strip() for line in text.splitlines())
    return releases, {line.split()[0]: line for line in rows
                      if line and line.split()[0] in names}


def row(name, kind, soname, status, statuses):
    """A function's line of the list."""
    if name in statuses:
        return f"{name} ={statuses[name]}"
    if kind in (status, "cublasStatus") or is_number(soname, kind):
        return name
    return f"{name} {kind}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("toolkit")
    parser.add_argument("folder")
    parser.add_argument("--version", action="append", default=[])
    options = parser.parse_args()
    versions = dict(version.split("=") for version in options.version)
    include = os.path.join(options.toolkit, "include")
    with open(os.path.join(include, "cuda.h"), encoding="utf-8") as header:
        version = int(re.search(r"#define CUDA_VERSION (\d+)", header.read())[1])
    major, minor = version // 1000, version % 1000 // 10
    types = declared_types(include)
    types["nvmlErrorString"] = "const char*"
    statuses = promised_statuses(include)

    for soname, library, status, value, meaning in LIBRARIES:
        soname = soname.format(major=major)
        package = versions.get(soname.split(".")[0], "")
        objects, node = {}, ""
        if library is None:
            header, read = (("cuda.h", declared_driver) if soname.startswith("libcuda.")
                            else ("nvml.h", declared_nvml))
            if not os.path.exists(os.path.join(include, header)):
                print(f"{soname}: no {header} in {options.toolkit}; its list stays")
                continue
            names, origin = read(include), f"the declarations of {header}"
        else:
            library = library.format(major=major)
            if not os.path.exists(os.path.join(options.toolkit, "lib", library)):
                print(f"{library}: not in {options.toolkit}; its list stays")
                continue
            names, objects, node = exported(os.path.join(options.toolkit, "lib", library))
            origin = f"`nm -D --defined-only {library}`"
        path = os.path.join(options.folder, soname + ".symbols")
        release = f"CUDA {major}.{minor}{package and f' ({package})'}"
        releases, old = known(path)
        rows = {name: row(name, types.get(name, status), soname, status, statuses)
                for name in names}
        rows.update({name: f"{name} object {size}" for name, size in objects.items()})
        rows.update(old)
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"# Every name that NVIDIA's {soname} exports: {len(rows)}.\n"
                      f"# {', '.join(dict.fromkeys([*releases, release]))}; made by\n"
                      "# virtual_gpu/generate/make_symbols.py\n"
                      f"# from {origin}. A type after a name is what\n"
                      f"# the function returns where that is not {status}; @refuse is\n"
                      f"# {meaning}.\n"
                      f"@soname {soname}\n")
            if node:
                out.write(f"@node {node}\n")
            out.write(f"@refuse {value}\n@table docs/cuda_compat.md\n\n")
            out.writelines(f"{rows[name]}\n" for name in sorted(rows))


if __name__ == "__main__":
    main()
