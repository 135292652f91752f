// Names are compared as text: they are what one compiler makes of one source.

#include "virtual_gpu/core/sort_kernel.h"

#include <optional>

#include "virtual_gpu/core/element_type.h"

namespace vrank::gpu {
namespace {

// "Li-1E" as names have it: "Lin1E".
bool SkipNumber(std::string_view* text) {
  if (!Skip(text, "Li"))
    return false;
  const size_t end = text->find('E');
  if (end == std::string_view::npos || end > 8)
    return false;
  text->remove_prefix(end + 1);
  return true;
}

SortKernel ParseSlices(std::string_view name) {
  for (int i = 0; i < 4; ++i)
    if (!SkipNumber(&name))
      return {};
  char key = SkipFloatType(&name);
  if (key == 0 && !name.empty() && IsInteger(name[0])) {
    key = name[0];
    name.remove_prefix(1);
  }
  if (key == 0 || !Skip(&name, "l"))
    return {};
  SortKernel made{SortKernel::Kind::kSlices, key, false};
  made.descending = Skip(&name, "NS0_4GTOpI");
  if (!made.descending && !Skip(&name, "NS0_4LTOpI"))
    return {};
  const size_t end = name.find('E');
  // Indices of 32 bits follow the comparison, which ends with two E.
  const bool short_indices =
      end != std::string_view::npos && name.substr(end).starts_with("EEEj");
  return short_indices ? made : SortKernel();
}

// What follows the key in "policy_hub<key, value, ...>". nullopt: another type.
std::optional<uint32_t> ValueBytes(std::string_view name) {
  constexpr std::string_view kHub = "10policy_hubI";
  const size_t at = name.find(kHub);
  if (at == std::string_view::npos || name.size() < at + kHub.size() + 2)
    return std::nullopt;
  name.remove_prefix(at + kHub.size() + 1);
  if (Skip(&name, "NS0_8NullTypeE"))
    return 0;
  if (Skip(&name, "N2at4cuda3cub6detail10OpaqueTypeILi") && name.size() > 1 &&
      name[0] >= '1' && name[0] <= '8' && name[1] == 'E')
    return static_cast<uint32_t>(name[0] - '0');
  const uint32_t bytes = BytesOf(name[0]);
  return bytes != 0 ? std::optional(bytes) : std::nullopt;
}

// "...SortOrderE0Ely": of the template's parameters behind the policy.
SortKernel ParseRadix(std::string_view name, SortKernel::Kind kind) {
  constexpr std::string_view kOrder = "9SortOrderE";
  const std::optional<uint32_t> value_bytes = ValueBytes(name);
  const size_t at = name.find(kOrder);
  if (at == std::string_view::npos)
    return {};
  name.remove_prefix(at + kOrder.size());
  if (name.size() < 4 || name[1] != 'E' || !IsInteger(name[2]) || !value_bytes)
    return {};
  // Counts have 8 bytes.
  if (kind == SortKernel::Kind::kHistogram && name[3] != 'y')
    return {};
  return {kind, name[2], name[0] == '1', *value_bytes};
}

}  // namespace

SortKernel ParseSortKernel(std::string_view mangled) {
  if (Skip(&mangled, "_ZN2at6native")) {
    return Skip(&mangled, "20bitonicSortKVInPlaceI") ||
                   Skip(&mangled, "22warpMergeSortKVInPlaceI")
               ? ParseSlices(mangled)
               : SortKernel();
  }
  using Kind = SortKernel::Kind;
  if (mangled.find("30DeviceRadixSortHistogramKernelI") != std::string_view::npos)
    return ParseRadix(mangled, Kind::kHistogram);
  return mangled.find("29DeviceRadixSortOnesweepKernelI") != std::string_view::npos
             ? ParseRadix(mangled, Kind::kOnesweep)
             : SortKernel();
}

}  // namespace vrank::gpu
