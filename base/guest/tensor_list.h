// The lists of tensors that kernels of torch._foreach_ operators and fused optimizers
// get by value: where their parts lie, and which entries a launch uses.
//
// They are structures on the caller's stack, of which a launch fills in as many entries
// as it has tensors; the rest holds what was there before, old addresses among it. Of
// aten/src/ATen/native/cuda/MultiTensorApply.cuh in PyTorch 2.11 to 2.15: rows of
// addresses, element counts, then scalars or the addresses of step counts, then for
// each block its tensor and its chunk.
//
// Thread rule: pure functions.

#ifndef VRANK_BASE_GUEST_TENSOR_LIST_H_
#define VRANK_BASE_GUEST_TENSOR_LIST_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace vrank {

struct TensorList {
  static constexpr uint32_t kMostDepth = 5;
  enum class Kind : uint8_t { kNone, kPlain, kScalars, kStepCounts };
  Kind kind = Kind::kNone;
  uint32_t depth = 0;         // rows of addresses, kMostDepth at most
  uint32_t scalar_bytes = 0;  // kScalars
};

// How many entries a list has room for, by depth: depth_to_max_tensors, and
// depth_to_max_tensors_scalarlist, which is also the length of the row of step counts.
struct TensorListLimits {
  uint64_t tensors[TensorList::kMostDepth], beside[TensorList::kMostDepth];
  uint64_t blocks, index_bytes;
};
// Kernels take 4 KiB of parameters: CUDA 12, and PyTorch 2.11 for CUDA 13.
inline constexpr TensorListLimits kShortTensorLists = {
    {110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1};
// ... 32 KiB: later ones for CUDA 13. Seven times as many of all; with them the sizes
// of the parameters of all such kernels in the wheel of PyTorch 2.15 come out.
inline constexpr TensorListLimits kLongTensorLists = {
    {770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240, 2};

// Offsets in bytes.
struct TensorListLayout {
  uint64_t most_tensors = 0, most_blocks = 0, index_bytes = 0;
  uint64_t counts = 0;   // elements of each tensor, behind the rows of addresses
  uint64_t extra = 0;    // scalars or step counts
  uint64_t tensors = 0;  // of the blocks
  uint64_t chunks = 0;   // of the blocks
  uint64_t size = 0;

  uint64_t TensorOf(const unsigned char* list, uint64_t block) const {
    uint16_t tensor = 0;
    std::memcpy(&tensor, list + tensors + block * index_bytes, index_bytes);
    return tensor;
  }
  int32_t ChunkOf(const unsigned char* list, uint64_t block) const {
    int32_t chunk;
    std::memcpy(&chunk, list + chunks + block * sizeof chunk, sizeof chunk);
    return chunk;
  }
  // REQUIRES: tensor < most_tensors.
  int64_t CountOf(const unsigned char* list, uint64_t tensor) const {
    int64_t count;
    std::memcpy(&count, list + counts + tensor * sizeof count, sizeof count);
    return count;
  }
};

// REQUIRES: a kind, and a depth of 1 to kMostDepth.
inline TensorListLayout LayOut(const TensorList& list, const TensorListLimits& limits) {
  using Kind = TensorList::Kind;
  constexpr uint64_t kAddress = sizeof(uint64_t);
  const auto round_up = [](uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
  };
  const uint64_t row = list.kind == Kind::kScalars ? limits.beside[list.depth - 1]
                                                   : limits.tensors[list.depth - 1];
  const uint64_t beside = list.kind == Kind::kPlain ? 0 : limits.beside[list.depth - 1];
  TensorListLayout layout;
  layout.most_tensors = row;
  layout.most_blocks = limits.blocks;
  layout.index_bytes = limits.index_bytes;
  layout.counts = list.depth * row * kAddress;
  layout.extra = layout.counts + row * sizeof(int64_t);
  const uint64_t each = list.kind == Kind::kScalars ? list.scalar_bytes : kAddress;
  layout.tensors = layout.extra + beside * each;
  layout.chunks =
      round_up(layout.tensors + limits.blocks * limits.index_bytes, sizeof(int32_t));
  uint64_t end = layout.chunks + limits.blocks * sizeof(int32_t);
  if (list.kind != Kind::kScalars)
    end += sizeof(int32_t);  // start_tensor_this_launch
  layout.size = round_up(end, kAddress);
  return layout;
}

// That of this size; nullopt: none that is known.
inline std::optional<TensorListLayout> LayoutOf(const TensorList& list,
                                                uint64_t bytes) {
  if (list.kind == TensorList::Kind::kNone)
    return std::nullopt;
  for (const TensorListLimits* limits : {&kShortTensorLists, &kLongTensorLists})
    if (const TensorListLayout layout = LayOut(list, *limits); layout.size == bytes)
      return layout;
  return std::nullopt;
}

// How many tensors, from the first on, a launch of so many blocks uses. nullopt: the
// list is none of this layout.
inline std::optional<uint64_t> TensorsInUse(const TensorListLayout& layout,
                                            const unsigned char* list,
                                            uint32_t blocks) {
  if (blocks > layout.most_blocks)
    return std::nullopt;
  uint64_t used = 0;
  for (uint32_t block = 0; block < blocks; ++block)
    used = std::max(used, layout.TensorOf(list, block) + 1);
  return used <= layout.most_tensors ? std::optional(used) : std::nullopt;
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_TENSOR_LIST_H_
