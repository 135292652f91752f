// Parts of sorts that are cheap to compute here and expensive by their machine code.
//
// Sorting places of experts takes a hundred million instructions a layer if all of its
// kernels are interpreted, nearly all of them in three: the sort of a router's choices,
// which a top-k has left in order, and of a radix sort the count of digits and the
// passes. These follow exactly from their input here. The rest is interpreted.
//
// Thread rule: a pure function.

#ifndef VRANK_VIRTUAL_GPU_CORE_SORT_KERNEL_H_
#define VRANK_VIRTUAL_GPU_CORE_SORT_KERNEL_H_

#include <cstdint>
#include <string_view>

namespace vrank::gpu {

struct SortKernel {
  enum class Kind : uint8_t {
    kNone,
    kSlices,     // at::native's bitonicSortKVInPlace and warpMergeSortKVInPlace
    kHistogram,  // cub's DeviceRadixSortHistogramKernel, for integers
    kOnesweep,   // cub's DeviceRadixSortOnesweepKernel, for integers
  };
  Kind kind = Kind::kNone;
  char key = 0;  // its type, element_type.h
  bool descending = false;
  uint32_t value_bytes = 0;  // of what goes with a key; kOnesweep
};
SortKernel ParseSortKernel(std::string_view mangled);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_SORT_KERNEL_H_
