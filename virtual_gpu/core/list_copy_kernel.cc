// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/list_copy_kernel.h"

#include <algorithm>
#include <cstring>

#include "virtual_gpu/core/element_type.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kChunkElements = 65536;  // kChunkSize

// depth_to_max_tensors[1], depth_to_max_blocks[1] and the type of block_to_tensor.
struct Limits {
  uint64_t tensors, blocks, index_bytes;
};
constexpr Limits kLimits[] = {
    {64, 320, 1},    // parameters of 4 KiB: CUDA 12
    {448, 2240, 2},  // of 32 KiB: CUDA 13
};

// The offsets of TensorListMetadata<2>'s members.
struct Members {
  explicit Members(const Limits& limits)
      : targets(limits.tensors * sizeof(uint64_t)),
        counts(2 * targets),
        block_tensors(counts + targets),
        block_chunks((block_tensors + limits.blocks * limits.index_bytes + 3) / 4 * 4),
        // Behind the chunks: start_tensor_this_launch.
        size((block_chunks + (limits.blocks + 1) * sizeof(int32_t) + 7) / 8 * 8) {}

  uint64_t targets, counts, block_tensors, block_chunks, size;
};

template <typename T>
T At(const unsigned char* from, uint64_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof value, sizeof value);
  return value;
}

uint32_t SkipType(std::string_view* text) {
  constexpr struct {
    std::string_view name;
    uint32_t bytes;
  } kClasses[] = {{"N3c108BFloat16E", 2},
                  {"N3c104HalfE", 2},
                  {"N3c107complexIfEE", 8},
                  {"N3c107complexIdEE", 16}};
  for (const auto& [name, bytes] : kClasses)
    if (Skip(text, name))
      return bytes;
  const uint32_t bytes = text->empty() ? 0 : BytesOf(text->front());
  if (bytes != 0)
    text->remove_prefix(1);
  return bytes;
}

}  // namespace

uint32_t ParseListCopyKernel(std::string_view mangled) {
  constexpr std::string_view kName =
      "25multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEE"
      "NS1_14UnaryOpFunctorI";
  const size_t at = mangled.find(kName);
  if (!mangled.starts_with("_ZN2at6native") || at == std::string_view::npos)
    return 0;
  mangled.remove_prefix(at + kName.size());
  const uint32_t bytes = SkipType(&mangled);
  return mangled.starts_with("Li2ELi1ELi1EEEJNS0_4CopyI") ? bytes : 0;
}

std::optional<std::vector<CopyPart>> ListCopyParts(uint32_t element_bytes,
                                                   const unsigned char* metadata,
                                                   uint64_t metadata_bytes,
                                                   uint32_t blocks) {
  const auto limits = std::find_if(
      std::begin(kLimits), std::end(kLimits),
      [&](const Limits& each) { return Members(each).size == metadata_bytes; });
  if (limits == std::end(kLimits) || blocks > limits->blocks)
    return std::nullopt;
  const Members members(*limits);
  std::vector<CopyPart> parts;
  for (uint32_t block = 0; block < blocks; ++block) {
    const uint64_t tensor = limits->index_bytes == 1
                                ? At<uint8_t>(metadata + members.block_tensors, block)
                                : At<uint16_t>(metadata + members.block_tensors, block);
    const auto chunk =
        static_cast<uint64_t>(At<int32_t>(metadata + members.block_chunks, block));
    if (tensor >= limits->tensors)
      return std::nullopt;
    const auto count = At<uint64_t>(metadata + members.counts, tensor);
    const uint64_t first = chunk * kChunkElements;
    if (first >= count)
      return std::nullopt;
    parts.push_back(
        {At<uint64_t>(metadata + members.targets, tensor) + first * element_bytes,
         At<uint64_t>(metadata, tensor) + first * element_bytes,
         std::min(count - first, kChunkElements) * element_bytes});
  }
  return parts;
}

}  // namespace vrank::gpu
