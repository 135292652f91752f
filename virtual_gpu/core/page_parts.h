// A range of device memory as a kernel finds it, which knows pages and not allocations:
// memory is mapped in blocks.
//
// Thread rule: the GPU's lock guards the contents.

#ifndef VRANK_VIRTUAL_GPU_CORE_PAGE_PARTS_H_
#define VRANK_VIRTUAL_GPU_CORE_PAGE_PARTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "virtual_gpu/core/contents.h"

namespace vrank::gpu {

// A part of a range that a kernel goes through: of one allocation, or the room between
// two, which has memory but is no allocation's.
struct PagePart {
  uint64_t offset = 0;  // from the start of the range
  uint64_t bytes = 0;
  bool allocated = false;
};

// The parts of [address, address + bytes). Nothing where a kernel would get to an
// address without memory.
std::optional<std::vector<PagePart>> PartsOf(Contents& contents, uint64_t address,
                                             uint64_t bytes);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PAGE_PARTS_H_
