// How the kernels of a cubin take their parameters, and what their threads do.
//
// A cubin is an ELF file. For each kernel it has its code in a section `.text.NAME`,
// and in `.nv.info.NAME` its attributes: format u8, kind u8, then a u16 that is the
// value or, for format 4, the bytes that follow. Kinds 0x17 and 0x45 describe a
// parameter: index u32, ordinal u16, offset u16, then a u32 whose upper 14 bits (0x17)
// or all (0x45) are the size in bytes. NVIDIA does not document it;
// tests/virtual_gpu/code compares with nvcc's.
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
};
using CubinKernels = std::unordered_map<std::string, CubinKernel>;  // by name

// Reads every kernel of a cubin. Returns nullptr, or what is wrong with it.
const char* ReadCubin(const unsigned char* elf, size_t bytes, CubinKernels* kernels);

// Puts the places into a signature, whose kinds come from the kernel's name: a
// parameter that the name does not tell is a structure, and so is one of another size
// than the name seems to tell (a substitution for a template parameter means another
// one inside the name of a local class). False where the name has more parameters, or
// they are too many; the signature then stays as it is.
bool Complete(const ParameterPlaces& places, KernelSignature* signature);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_CUBIN_H_
