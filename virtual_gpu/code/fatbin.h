// Finds the machine code in a device image, as far as it is needed to read how kernels
// take their parameters.
//
// An image is what nvcc's static constructors register (a wrapper), what a program
// hands to cuModuleLoadData (a fat binary), or a plain cubin. A fat binary is a header
// of 16 bytes (magic, version, header size, bytes that follow), then entries: kind u16
// (1 PTX, 2 ELF), header size u32 at +4, payload bytes u64 at +8, bytes after
// compression u32 at +16, architecture u32 at +28 (90 is sm_90), flags u64 at +40
// (0x2000 lz4, 0x8000 zstd), unpacked bytes u64 at +56. NVIDIA does not document it;
// tests/virtual_gpu/code compares with what nvcc writes.
//
// Only the entry that is asked for is unpacked.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CODE_FATBIN_H_
#define VRANK_VIRTUAL_GPU_CODE_FATBIN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vrank::gpu {

// The bytes of a cubin: in the image itself, or unpacked into `unpacked`.
struct Elf {
  const unsigned char* data = nullptr;
  size_t bytes = 0;
  std::vector<unsigned char> unpacked;
  // A driver finds machine code for the GPU, or PTX to compile it from. True where that
  // is not known.
  bool runnable = true;
};

// The cubin that a GPU of `architecture` (90 is sm_90) runs: of those for its major
// revision the newest. Without such, the first one: how parameters lie does not depend
// on the architecture. Returns nullptr, or why there is none.
const char* FindElf(const void* image, uint32_t architecture, Elf* elf);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_FATBIN_H_
