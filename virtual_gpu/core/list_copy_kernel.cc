// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/list_copy_kernel.h"

#include <algorithm>
#include <cstring>

#include "virtual_gpu/core/element_type.h"
#include "virtual_gpu/core/tensor_list_name.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kChunkElements = 65536;  // kChunkSize
constexpr uint32_t kDepth = 2;              // sources and targets

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
  const auto layout = LayoutOf({TensorList::Kind::kPlain, kDepth, 0}, metadata_bytes);
  if (!layout || !TensorsInUse(*layout, metadata, blocks))
    return std::nullopt;
  const auto number = [metadata](uint64_t offset, uint64_t index) {
    uint64_t value;
    std::memcpy(&value, metadata + offset + index * sizeof value, sizeof value);
    return value;
  };
  std::vector<CopyPart> parts;
  for (uint32_t block = 0; block < blocks; ++block) {
    const uint64_t tensor = layout->TensorOf(metadata, block);
    const uint64_t count = number(layout->counts, tensor);
    const uint64_t first =
        static_cast<uint64_t>(layout->ChunkOf(metadata, block)) * kChunkElements;
    if (first >= count)
      return std::nullopt;
    const uint64_t targets = layout->counts / kDepth;  // the second of two rows
    parts.push_back({number(targets, tensor) + first * element_bytes,
                     number(0, tensor) + first * element_bytes,
                     std::min(count - first, kChunkElements) * element_bytes});
  }
  return parts;
}

}  // namespace vrank::gpu
