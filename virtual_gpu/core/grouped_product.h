// Products of groups (torch._grouped_mm): how many rows all groups have.
//
// The kernel that prepares one gets M, N and K, of which the one that groups divide is
// -1: where each group ends stands in device memory, as do the sizes that the product
// itself reads. What a launch's record says in its place is the number of all rows, so
// that a cost file can price the product (data/kernels/pytorch.textproto).
//
// Thread rule: the GPU's lock guards the contents.

#ifndef VRANK_VIRTUAL_GPU_CORE_GROUPED_PRODUCT_H_
#define VRANK_VIRTUAL_GPU_CORE_GROUPED_PRODUCT_H_

#include <cstdint>
#include <string_view>

#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {

// at::cuda::detail::prepare_grouped_gemm_data, in half precision.
bool PreparesGroupedProduct(std::string_view mangled);

// `arguments`: those of such a launch as they are recorded, `bytes` of them. The end of
// the last group counts where it is known; else as many rows as the memory behind the
// matrix that has them holds, to the end of its block. Where each group has a matrix of
// its own, M counts for all of them.
void CompleteGroupedProduct(const KernelLaunch& launch, Contents& contents,
                            unsigned char* arguments, uint32_t bytes);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GROUPED_PRODUCT_H_
