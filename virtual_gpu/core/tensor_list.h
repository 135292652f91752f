// The lists of tensors that kernels of torch._foreach_ operators and fused optimizers
// get by value: which of their addresses a launch uses.
//
// They are structures on the caller's stack, of which a launch fills in as many entries
// as it has tensors; the rest holds what was there before, old addresses among it. Of
// aten/src/ATen/native/cuda/MultiTensorApply.cuh in PyTorch 2.11 to 2.15: rows of
// addresses, element counts, then scalars or the addresses of step counts, then for
// each block its tensor and its chunk.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_TENSOR_LIST_H_
#define VRANK_VIRTUAL_GPU_CORE_TENSOR_LIST_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace vrank::gpu {

// What a kernel's name tells of its first parameter.
struct TensorList {
  enum class Kind : uint8_t { kNone, kPlain, kScalars, kStepCounts };
  Kind kind = Kind::kNone;
  uint32_t depth = 0;         // rows of addresses
  uint32_t scalar_bytes = 0;  // kScalars
};
// Kind::kNone: no multi_tensor_apply_kernel, or one of another list.
TensorList ParseTensorList(std::string_view mangled);

// Offsets in bytes.
struct TensorListLayout {
  uint64_t most_tensors = 0, most_blocks = 0, index_bytes = 0;
  uint64_t counts = 0;   // behind the rows of addresses
  uint64_t extra = 0;    // scalars or step counts
  uint64_t tensors = 0;  // of the blocks
  uint64_t chunks = 0;   // of the blocks
  uint64_t size = 0;

  uint64_t TensorOf(const unsigned char* list, uint64_t block) const;
  int32_t ChunkOf(const unsigned char* list, uint64_t block) const;
};
// That of this size; nullopt: none that is known.
std::optional<TensorListLayout> LayoutOf(const TensorList& list, uint64_t bytes);

// How many tensors, from the first on, a launch of so many blocks uses. nullopt: the
// list is none of this layout.
std::optional<uint64_t> TensorsInUse(const TensorListLayout& layout,
                                     const unsigned char* list, uint32_t blocks);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_TENSOR_LIST_H_
