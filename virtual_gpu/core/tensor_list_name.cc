// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/tensor_list_name.h"

#include "virtual_gpu/core/element_type.h"

namespace vrank::gpu {
namespace {

// "Li4E": a depth.
uint32_t SkipDepth(std::string_view* text) {
  if (!Skip(text, "Li") || text->empty())
    return 0;
  const char digit = text->front();
  text->remove_prefix(1);
  const bool fits =
      digit >= '1' && digit < '1' + static_cast<char>(TensorList::kMostDepth);
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

}  // namespace vrank::gpu
