// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/concat_kernel.h"

#include <charconv>
#include <cstring>

#include "virtual_gpu/core/element_type.h"

namespace vrank::gpu {
namespace {

constexpr uint32_t kShapeDimensions = 4;  // CAT_ARRAY_MAX_INPUT_DIMS
constexpr uint64_t kPointerBytes = sizeof(uint64_t);

// A number and the E behind it.
bool SkipNumber(std::string_view* text, uint32_t* number) {
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, *number);
  if (error != std::errc())
    return false;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return Skip(text, "E");
}

uint64_t IndexAt(const ConcatKernel& kernel, const unsigned char* array, uint64_t i) {
  uint64_t wide = 0;
  std::memcpy(&wide, array + i * kernel.index_bytes, kernel.index_bytes);
  return wide;
}

bool IsContiguous(const ConcatKernel& kernel, const unsigned char* shape) {
  uint64_t expected = 1;
  for (uint32_t i = kernel.dimensions; i-- > 0;) {
    if (IndexAt(kernel, shape, kShapeDimensions + i) != expected)
      return false;
    expected *= IndexAt(kernel, shape, i);
  }
  return true;
}

}  // namespace

ConcatKernel ParseConcatKernel(std::string_view mangled) {
  constexpr std::string_view kName = "CatArrayBatchedCopy";
  const size_t at = mangled.find(kName);
  if (!mangled.starts_with("_ZN2at6native") || at == std::string_view::npos)
    return {};
  mangled.remove_prefix(at + kName.size());
  ConcatKernel kernel;
  kernel.may_have_strides = mangled.starts_with("I");
  const bool vectors = Skip(&mangled, "_vectorized");
  if (!kernel.may_have_strides && !vectors && !Skip(&mangled, "_contig") &&
      !Skip(&mangled, "_alignedK_contig"))
    return {};
  constexpr std::string_view kType = "OpaqueTypeILj";
  const size_t type = mangled.find(kType);
  if (type == std::string_view::npos)
    return {};
  mangled.remove_prefix(type + kType.size());
  // OpaqueType's own arguments end, then its name within namespaces.
  if (!SkipNumber(&mangled, &kernel.element_bytes) || !Skip(&mangled, "EE"))
    return {};
  if (Skip(&mangled, "j"))
    kernel.index_bytes = sizeof(uint32_t);
  else if (Skip(&mangled, "m") || Skip(&mangled, "l"))
    kernel.index_bytes = sizeof(uint64_t);
  else
    return {};
  if (!Skip(&mangled, "Li") || !SkipNumber(&mangled, &kernel.dimensions) ||
      !Skip(&mangled, "Li") || !SkipNumber(&mangled, &kernel.most_inputs) ||
      kernel.dimensions == 0 || kernel.dimensions > kShapeDimensions)
    return {};
  kernel.unit_bytes = kernel.element_bytes;
  uint32_t stride_size = 0;
  if (vectors && (!Skip(&mangled, "Li") || !SkipNumber(&mangled, &stride_size) ||
                  !Skip(&mangled, "Li") || !SkipNumber(&mangled, &kernel.unit_bytes)))
    return {};
  return kernel;
}

bool IsConcat(const ConcatKernel& kernel, const ConcatLaunch& launch) {
  const uint64_t n = kernel.most_inputs;
  return kernel.element_bytes != 0 && launch.input_count <= n &&
         launch.inputs_bytes >= n * (kPointerBytes + 3 * kernel.index_bytes + 1) &&
         launch.shape_bytes >= uint64_t{2} * kShapeDimensions * kernel.index_bytes;
}

uint64_t ConcatExtent(const ConcatKernel& kernel, const ConcatLaunch& launch) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < kernel.dimensions; ++i) {
    const uint64_t size = IndexAt(kernel, launch.shape, i);
    if (size == 0)
      return 0;
    last += (size - 1) * IndexAt(kernel, launch.shape, kShapeDimensions + i);
  }
  return (last + 1) * kernel.unit_bytes;
}

uint64_t ConcatInputBytes(const ConcatKernel& kernel, const ConcatLaunch& launch) {
  const uint64_t n = kernel.most_inputs;
  const unsigned char* const counts =
      launch.inputs + n * kPointerBytes + 2 * n * kernel.index_bytes;
  uint64_t elements = 0;
  for (uint32_t i = 0; i < launch.input_count; ++i)
    elements += IndexAt(kernel, counts, i);
  return elements * kernel.element_bytes;
}

std::optional<std::vector<CopyPart>> ConcatParts(const ConcatKernel& kernel,
                                                 const ConcatLaunch& launch) {
  const uint64_t n = kernel.most_inputs;
  const unsigned char* const pointers = launch.inputs;
  const unsigned char* const offsets = pointers + n * kPointerBytes;
  const unsigned char* const counts = offsets + 2 * n * kernel.index_bytes;
  const unsigned char* const flags = counts + n * kernel.index_bytes;
  if (launch.dimension != 0 || !IsContiguous(kernel, launch.shape))
    return std::nullopt;
  std::vector<CopyPart> parts;
  for (uint32_t i = 0; i < launch.input_count; ++i) {
    if (kernel.may_have_strides && flags[i] == 0)
      return std::nullopt;
    uint64_t from;
    std::memcpy(&from, pointers + i * kPointerBytes, sizeof from);
    parts.push_back({launch.output + IndexAt(kernel, offsets, i) * launch.stride *
                                         kernel.element_bytes,
                     from, IndexAt(kernel, counts, i) * kernel.element_bytes});
  }
  return parts;
}

}  // namespace vrank::gpu
