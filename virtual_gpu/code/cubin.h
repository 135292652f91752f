// How the kernels of a cubin take their parameters, what their threads do, and which
// launches they can take.
//
// A cubin is an ELF file. For each kernel it has its code in a section `.text.NAME`,
// its static shared memory in `.nv.shared.NAME`, and in `.nv.info.NAME` its attributes:
// format u8, kind u8, then a u16 that is the value or, for format 4, the bytes that
// follow (cubin.cc lists the kinds). Those of `.nv.info` begin with the number of a
// symbol, which is the kernel's. NVIDIA does not document it; tests/virtual_gpu/code
// compares with what nvcc and ptxas say.
//
// Thread rule: an object belongs to one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_CODE_CUBIN_H_
#define VRANK_VIRTUAL_GPU_CODE_CUBIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/guest/kernel_resources.h"
#include "base/guest/kernel_signature.h"
#include "base/guest/thread_work.h"

namespace vrank::gpu {

struct ParameterPlace {
  uint32_t offset = 0;
  uint32_t size = 0;
};
using ParameterPlaces = std::vector<ParameterPlace>;  // by ordinal

struct CubinKernel {
  ParameterPlaces places;
  ThreadWork thread_work;
  KernelResources resources;
};
using CubinKernels = std::unordered_map<std::string, CubinKernel>;  // by name

// Whether a GPU of one architecture (90 is sm_90) runs machine code of another: CUDA
// C++ Programming Guide, "Binary Compatibility": "from one minor revision to the next
// one, but not from one minor revision to the previous one or across major revisions".
inline bool Runs(uint32_t gpu, uint32_t code) {
  return gpu / 10 == code / 10 && gpu % 10 >= code % 10;
}

// That of a cubin; 0 where it is damaged.
uint32_t ArchitectureOf(const unsigned char* elf, size_t bytes);

// Reads every kernel of a cubin. Returns nullptr, or what is wrong with it. Resources
// are known where a GPU of this architecture runs the code.
const char* ReadCubin(const unsigned char* elf, size_t bytes, uint32_t architecture,
                      CubinKernels* kernels);

// Puts the places into a signature, whose kinds come from the kernel's name: a
// parameter that the name does not tell is a structure, and so is one of another size
// than the name seems to tell (a substitution for a template parameter means another
// one inside the name of a local class). False where the name has more parameters, or
// they are too many; the signature then stays as it is.
bool Complete(const ParameterPlaces& places, KernelSignature* signature);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_CUBIN_H_
