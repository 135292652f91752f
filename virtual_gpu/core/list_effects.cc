// Kernels of PyTorch's tensor lists: what they copy (list_copy_kernel.h), and which
// list the others get (base/guest/tensor_list.h).

#include <memory>

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
  const TensorList* List() const override { return &list_; }

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

}  // namespace

std::unique_ptr<const NamedEffect> NewListEffect(std::string_view mangled) {
  const TensorList list = ParseTensorList(mangled);
  if (list.kind == TensorList::Kind::kNone)
    return nullptr;
  return std::make_unique<ListEffect>(list, ParseListCopyKernel(mangled));
}

}  // namespace vrank::gpu
