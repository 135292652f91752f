#!/usr/bin/env python3
"""Writes docs/cuda_compat.md from the built libraries.

    make_compat.py --libraries build/release/lib/vrank [--check]

A strong export is a model; a weak one refuses its call by name (base/guest/refuse.h).
With --check nothing is written: the exit status is 1 if the page is not up to date.
"""

import argparse
import os
import subprocess
import sys
import textwrap

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PAGE = os.path.join(ROOT, "docs", "cuda_compat.md")

LIBRARIES = ["libcudart.so.13", "libcuda.so.1", "libcublas.so.13", "libcublasLt.so.13",
             "libnvidia-ml.so.1", "libcupti.so.13", "libcudnn.so.9", "libcufft.so.12",
             "libcufile.so.0", "libcurand.so.10", "libcusolver.so.12", "libcusparse.so.12",
             "libcusparseLt.so.0", "libnvshmem_host.so.3"]

# Where a model is narrower than the function. Names that end in * stand for several.
LIMITS = {
    "cudaGraphAddNode": "conditional and semaphore nodes, programmatic edges and child graphs that are moved are refused",
    "cuGraphAddNode*": "as `cudaGraphAddNode`; batch-memory-operation nodes are refused",
    "cudaGraphClone": "graphs with allocation nodes are refused, as child graphs, too",
    "cudaGraphInstantiate*": "no launches from the device; priorities of nodes have no effect",
    "cudaGraphKernelNode*Attribute*": "kept, without effect on times",
    "cudaGraphLaunch*": "branches run in parallel without limit; a captured launch becomes a child graph",
    "cudaGraphDebugDotPrint": "kinds of nodes, kernels' names and edges, whatever the flags",
    "cublas*gemm*": "real types only: half, bfloat16, float, double, int8 to int32 or float, "
                    "in the combinations that cuBLAS documents for `cublasGemmEx`",
    "cublas*emmBatched*": "the array of pointers to C must have been copied from the host",
    "cublasLtMatmul": "column- and row-major matrices, real types, fp8 without block scales; "
                      "emulated compute types are refused",
    "cublasLtMatmulAlgo*": "one algorithm, accepted for every supported problem",
    "cuModuleLoad*": "machine code (cubins and fat binaries); PTX is refused, and so are variables of modules",
    "cublas*dot_v2*": "results on the device, positive increments",
    "cublas*gemv_v2*": "positive increments",
    "cublasDotEx": "as `cublasSdot_v2`",
    "cudnnBackend*": "scaled dot-product attention in half precision, as cuDNN's frontend writes it (masked, with bias or "
                     "dropout, heads that share keys); convolutions of one to three dimensions in half, bfloat16, float "
                     "and double, forward, back to the data and to the filter, with pointwise operations behind a forward "
                     "one; one engine on tensor cores, and one without for float and double; for every other graph there "
                     "is no engine; the error names the way out",
    "cudnnBatchNormalization*": "without an activation; results are blended with nothing (beta is 0)",
    "cudnnCreate*Descriptor": "those of tensors, dropout and recurrent networks work; the others fail, and name what avoids them",
    "cudnnSetRNNDescriptor_v8": "without projections of hidden states, with matrices for the inputs",
    "cuptiActivityEnable*": "kinds MEMCPY, MEMCPY2 (without the two devices), MEMSET, KERNEL and CONCURRENT_KERNEL (the "
                            "same: nothing is serialised), RUNTIME, DRIVER, SYNCHRONIZATION (waits, not queries), "
                            "CUDA_EVENT, MEMORY2 (without pools; `source` names libnccl.so.2 or nothing), OVERHEAD "
                            "(COMMAND_BUFFER_FULL), MARKER (ranges; a name in a domain reads `domain::name`), "
                            "EXTERNAL_CORRELATION, DEVICE, CONTEXT, STREAM; values that a virtual GPU does not know, such as "
                            "registers, is 0 or CUPTI's word for unknown",
    "cuptiActivityFlushAll": "a forced flush waits for the work issued so far; no record is incomplete",
    "cuptiActivityRegisterTimestampCallback": "the clock is read once, when it is registered; from there on it runs in "
                                              "virtual time. The processor's time stamp counter cannot: where "
                                              "the clock is that counter, records keep the time since 1970",
    "cuptiActivitySetAttribute": "sizes of device buffers are kept and have no effect; buffers per thread are refused",
    "cuptiEnable*": "domains DRIVER_API, RUNTIME_API, RESOURCE (contexts, streams, cuInit, nodes and edges of graphs, "
                    "executable graphs), SYNCHRONIZE (contexts), STATE; `symbolName` is null, and so is "
                    "`functionParams` but for launches of graphs",
    "cuptiGetGraph*Id": "ids reported by a callback of the RESOURCE domain",
    "cuptiGetStreamId*": "default streams, and those known since something was first enabled",
    "nvmlDeviceGetMemoryInfo*": "counts the memory of all real ranks that use the GPU; of processes, only the caller is listed",
    "nvmlDeviceGetNvLink*": "every link ends at a switch",
}

HEAD = """\
# Which CUDA functions are modelled

Made by `scripts/make_compat.py` from the built libraries; do not edit. Every library exports all names of NVIDIA's
library of the same SONAME (CUDA 13.0 to 13.2, and cuDNN, cuSPARSELt and NVSHMEM as PyTorch 2.11 to 2.15 require), so programs load. A function that is not modelled refuses: it names itself once on stderr,
is counted in the report (`refused_calls`), and returns the library's "not supported" error.

| library | modelled | refused |
|---|---|---|
"""


def run_nm(library):
    """name -> is it modelled"""
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                            capture_output=True, text=True).stdout
    names = {}
    for line in output.splitlines():
        _, kind, name = line.split()
        if kind in "TW":
            names[name.split("@")[0]] = kind == "T"
    return names


def paragraph(names):
    text = ", ".join(f"`{name}`" for name in sorted(names)) or "None."
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def page(folder):
    tables, sections = "", ""
    for library in LIBRARIES:
        names = run_nm(os.path.join(folder, library))
        modelled = [name for name, is_model in names.items() if is_model]
        refused = [name for name, is_model in names.items() if not is_model]
        if not modelled:
            tables += f"| {library} | none | all {len(refused)} |\n"
            continue
        tables += f"| [{library}](#{library.replace('.', '').lower()}) " \
                  f"| {len(modelled)} | {len(refused)} |\n"
        sections += f"\n## {library}\n\n### Modelled\n\n{paragraph(modelled)}\n" \
                    f"\n### Refused\n\n{paragraph(refused)}\n"
    limits = "".join(f"| `{name}` | {text} |\n" for name, text in LIMITS.items())
    return (HEAD + tables + "\n## Limits of models\n\n| function | limit |\n|---|---|\n"
            + limits + sections)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--libraries", required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = page(options.libraries)
    if not options.check:
        with open(PAGE, "w", encoding="utf-8") as out:
            out.write(text)
        return 0
    current = ""
    if os.path.exists(PAGE):
        with open(PAGE, encoding="utf-8") as lines:
            current = lines.read()
    if current != text:
        print("docs/cuda_compat.md does not agree with the libraries; run "
              f"scripts/make_compat.py --libraries {options.libraries}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
