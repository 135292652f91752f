// Kernels of PyTorch's tensor lists: what they copy (list_copy_kernel.h), and which
// list the others get (base/guest/tensor_list.h).

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "virtual_gpu/core/kernel_values.h"
#include "virtual_gpu/core/list_copy_kernel.h"
#include "virtual_gpu/core/named_effect.h"
#include "virtual_gpu/core/tensor_list_name.h"

namespace vrank::gpu {
namespace {

class ListEffect final : public NamedEffect {
 public:
  ListEffect(const TensorList& list, uint32_t copied_element_bytes)
      : list_(list), copied_element_bytes_(copied_element_bytes) {}

  bool Compute(const KernelLaunch& launch, Contents& contents) const override;
  bool ForListedWords(const KernelLaunch& launch, uint32_t parameter,
                      const unsigned char* structure, uint32_t bytes,
                      const std::function<void(uint32_t)>& visit) const override;

 private:
  const TensorList list_;
  const uint32_t copied_element_bytes_;  // 0: it computes
};

bool ListEffect::Compute(const KernelLaunch& launch, Contents& contents) const {
  const KernelSignature& signature = launch.kernel->signature;
  // The lists, a functor, the operation: both without members.
  const auto arguments =
      copied_element_bytes_ != 0 ? ArgumentsOf<3>(launch) : std::nullopt;
  if (!arguments)
    return false;
  const auto parts = ListCopyParts(copied_element_bytes_, (*arguments)[0],
                                   signature.parameters[0].size, launch.grid[0]);
  if (!parts)
    return false;
  for (const CopyPart& part : *parts)
    CopyOnDevice(part, contents);
  return true;
}

bool ListEffect::ForListedWords(const KernelLaunch& launch, uint32_t parameter,
                                const unsigned char* structure, uint32_t bytes,
                                const std::function<void(uint32_t)>& visit) const {
  const auto layout = parameter == 0 ? LayoutOf(list_, bytes) : std::nullopt;
  const auto used =
      layout ? TensorsInUse(*layout, structure, launch.grid[0]) : std::nullopt;
  if (!used)
    return false;
  const auto row = [&](uint64_t offset) {
    for (uint64_t i = 0; i < *used; ++i)
      visit(static_cast<uint32_t>(offset + i * sizeof(uint64_t)));
  };
  for (uint64_t depth = 0; depth < list_.depth; ++depth)
    row(layout->counts / list_.depth * depth);
  if (list_.kind == TensorList::Kind::kStepCounts)
    row(layout->extra);
  return true;
}

// The last step of torch._foreach_norm (lpnorm_cleanup, lpmax_cleanup of
// aten/src/ATen/native/cuda/ForeachReduceOp.cu, PyTorch 2.3 to 2.15): each block writes
// one number through its entry of a table of addresses.
class AddressTableEffect final : public NamedEffect {
 public:
  bool ForListedWords(const KernelLaunch& launch, uint32_t parameter,
                      const unsigned char* structure, uint32_t bytes,
                      const std::function<void(uint32_t)>& visit) const override;
};

bool AddressTableEffect::ForListedWords(
    const KernelLaunch& launch, uint32_t parameter, const unsigned char*,
    uint32_t bytes, const std::function<void(uint32_t)>& visit) const {
  constexpr uint32_t kTable = 1;
  if (parameter != kTable || launch.grid[0] > bytes / sizeof(uint64_t))
    return false;
  for (uint32_t block = 0; block < launch.grid[0]; ++block)
    visit(block * static_cast<uint32_t>(sizeof(uint64_t)));
  return true;
}

bool TakesAddressTable(std::string_view mangled) {
  return mangled.starts_with("_ZN2at6native") &&
         (mangled.find("14lpnorm_cleanupI") != std::string_view::npos ||
          mangled.find("13lpmax_cleanupI") != std::string_view::npos) &&
         mangled.find("19TensorListAddresses") != std::string_view::npos;
}

}  // namespace

std::unique_ptr<const NamedEffect> NewListEffect(std::string_view mangled) {
  if (TakesAddressTable(mangled))
    return std::make_unique<AddressTableEffect>();
  const TensorList list = ParseTensorList(mangled);
  if (list.kind == TensorList::Kind::kNone)
    return nullptr;
  return std::make_unique<ListEffect>(list, ParseListCopyKernel(mangled));
}

}  // namespace vrank::gpu
