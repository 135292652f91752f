// Which kernels are NCCL's, by name: where nothing else tells (recordings without the
// call, launches of graphs), a kernel of these names communicates.
//
// Names as NVIDIA/nccl has them: `ncclKernel_...` up to 2.18 (src/collectives/device),
// `ncclDevKernel_...` since (src/device/generate.py), and for buffers of symmetric
// windows `ncclSymDevKernel_...` in 2.27, `ncclSymkDevKernel_...` from 2.28 on
// (src/device/symmetric/generate.py). Others of its kernels (oneRankReduce) compute on
// one rank alone.
//
// Thread rule: pure function.

#ifndef VRANK_BASE_NCCL_KERNEL_H_
#define VRANK_BASE_NCCL_KERNEL_H_

#include <string_view>

namespace vrank {

// `name`: mangled ("_Z39ncclDevKernel_...") or not ("ncclDevKernel_...(...)").
inline bool IsNcclKernel(std::string_view name) {
  if (name.starts_with("_Z")) {  // the length, then the name: NCCL's have no scope
    const size_t begin = name.find_first_not_of("0123456789", 2);
    name.remove_prefix(begin == std::string_view::npos ? name.size() : begin);
  }
  for (const std::string_view beginning :
       {"ncclKernel", "ncclDevKernel", "ncclSymDevKernel", "ncclSymkDevKernel"})
    if (name.starts_with(beginning))
      return true;
  return false;
}

}  // namespace vrank

#endif  // VRANK_BASE_NCCL_KERNEL_H_
