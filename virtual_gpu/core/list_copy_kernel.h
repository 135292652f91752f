// Kernels of torch._foreach_copy_ between tensors of one type: which bytes they copy
// where.
//
// A virtual GPU runs no kernel, but what these write is known: all_gather of a list of
// tensors copies its result out with one of them, and programs decide by such lists
// (DistributedDataParallel compares its parameters' sizes). Of
// aten/src/ATen/native/cuda/MultiTensorApply.cuh and ForeachBinaryOpList.cu in PyTorch
// 2.11 to 2.15: multi_tensor_apply_kernel<TensorListMetadata<2>,
// UnaryOpFunctor<T, 2, 1, 1>, Copy<...>>. Its first parameter has the addresses of the
// sources, then of the targets, the tensors' element counts, and for each block which
// tensor, and which chunk of it, it copies.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_LIST_COPY_KERNEL_H_
#define VRANK_VIRTUAL_GPU_CORE_LIST_COPY_KERNEL_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "virtual_gpu/core/copy_part.h"

namespace vrank::gpu {

// Bytes of an element; 0: no kernel of this kind.
uint32_t ParseListCopyKernel(std::string_view mangled);

// One part per block. `metadata`: the first parameter, of `metadata_bytes`. Nothing
// where that is no size that a TensorListMetadata<2> has.
std::optional<std::vector<CopyPart>> ListCopyParts(uint32_t element_bytes,
                                                   const unsigned char* metadata,
                                                   uint64_t metadata_bytes,
                                                   uint32_t blocks);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LIST_COPY_KERNEL_H_
