// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/tensor_list.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "virtual_gpu/core/element_type.h"

namespace vrank::gpu {
namespace {

constexpr uint32_t kMostDepth = 5;
constexpr uint64_t kAddress = sizeof(uint64_t);

// By depth: depth_to_max_tensors, and depth_to_max_tensors_scalarlist, which is also
// the length of the row of step counts. 0: not known.
struct Limits {
  uint64_t tensors[kMostDepth], beside[kMostDepth];
  uint64_t blocks, index_bytes;
};
constexpr Limits kLimits[] = {
    // Parameters of 4 KiB: CUDA 12, and PyTorch 2.11 for CUDA 13.
    {{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1},
    // ... of 32 KiB: later ones for CUDA 13, lists of depth 2.
    {{0, 448, 0, 0, 0}, {0, 0, 0, 0, 0}, 2240, 2},
};

uint64_t RoundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

std::optional<TensorListLayout> Lay(const TensorList& list, const Limits& limits) {
  using Kind = TensorList::Kind;
  const uint64_t row = list.kind == Kind::kScalars ? limits.beside[list.depth - 1]
                                                   : limits.tensors[list.depth - 1];
  const uint64_t beside = list.kind == Kind::kPlain ? 0 : limits.beside[list.depth - 1];
  if (row == 0 || (list.kind != Kind::kPlain && beside == 0))
    return std::nullopt;
  TensorListLayout layout;
  layout.most_tensors = row;
  layout.most_blocks = limits.blocks;
  layout.index_bytes = limits.index_bytes;
  layout.counts = list.depth * row * kAddress;
  layout.extra = layout.counts + row * sizeof(int64_t);
  const uint64_t each = list.kind == Kind::kScalars ? list.scalar_bytes : kAddress;
  layout.tensors = layout.extra + beside * each;
  layout.chunks =
      RoundUp(layout.tensors + limits.blocks * limits.index_bytes, sizeof(int32_t));
  uint64_t end = layout.chunks + limits.blocks * sizeof(int32_t);
  if (list.kind != Kind::kScalars)
    end += sizeof(int32_t);  // start_tensor_this_launch
  layout.size = RoundUp(end, kAddress);
  return layout;
}

// "Li4E": a depth.
uint32_t SkipDepth(std::string_view* text) {
  if (!Skip(text, "Li") || text->empty())
    return 0;
  const char digit = text->front();
  text->remove_prefix(1);
  const bool fits = digit >= '1' && digit < '1' + static_cast<char>(kMostDepth);
  return fits && Skip(text, "E") ? static_cast<uint32_t>(digit - '0') : 0;
}

}  // namespace

TensorList ParseTensorList(std::string_view mangled) {
  using Kind = TensorList::Kind;
  constexpr std::string_view kName = "25multi_tensor_apply_kernelINS1_";
  const size_t at = mangled.find(kName);
  if (!mangled.starts_with("_ZN2at6native") || at == std::string_view::npos)
    return {};
  mangled.remove_prefix(at + kName.size());
  TensorList list;
  if (Skip(&mangled, "18TensorListMetadataI")) {
    list.kind = Kind::kPlain;
  } else if (Skip(&mangled, "32FusedOptimizerTensorListMetadataI")) {
    list.kind = Kind::kStepCounts;
  } else if (Skip(&mangled, "28TensorListScalarListMetadataI")) {
    list.kind = Kind::kScalars;
    list.scalar_bytes = mangled.empty() ? 0 : BytesOf(mangled.front());
    // Complex scalars have names of classes and other rows.
    if (list.scalar_bytes == 0)
      return {};
    mangled.remove_prefix(1);
  }
  list.depth = SkipDepth(&mangled);
  return list.depth == 0 ? TensorList() : list;
}

uint64_t TensorListLayout::TensorOf(const unsigned char* list, uint64_t block) const {
  uint16_t tensor = 0;
  std::memcpy(&tensor, list + tensors + block * index_bytes, index_bytes);
  return tensor;
}

int32_t TensorListLayout::ChunkOf(const unsigned char* list, uint64_t block) const {
  int32_t chunk;
  std::memcpy(&chunk, list + chunks + block * sizeof chunk, sizeof chunk);
  return chunk;
}

std::optional<TensorListLayout> LayoutOf(const TensorList& list, uint64_t bytes) {
  if (list.kind == TensorList::Kind::kNone)
    return std::nullopt;
  for (const Limits& limits : kLimits)
    if (const auto layout = Lay(list, limits); layout && layout->size == bytes)
      return layout;
  return std::nullopt;
}

std::optional<uint64_t> TensorsInUse(const TensorListLayout& layout,
                                     const unsigned char* list, uint32_t blocks) {
  if (blocks > layout.most_blocks)
    return std::nullopt;
  uint64_t used = 0;
  for (uint32_t block = 0; block < blocks; ++block)
    used = std::max(used, layout.TensorOf(list, block) + 1);
  return used <= layout.most_tensors ? std::optional(used) : std::nullopt;
}

}  // namespace vrank::gpu
