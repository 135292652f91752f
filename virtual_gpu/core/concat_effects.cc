// Kernels of torch.cat (concat_kernel.h): the output has what the inputs have.

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "virtual_gpu/core/concat_kernel.h"
#include "virtual_gpu/core/kernel_values.h"
#include "virtual_gpu/core/named_effect.h"

namespace vrank::gpu {
namespace {

class ConcatEffect final : public NamedEffect {
 public:
  explicit ConcatEffect(const ConcatKernel& kernel) : kernel_(kernel) {}

  bool Compute(const KernelLaunch& launch, Contents& contents) const override;
  // Of parts that are not known, the output is not, either.
  bool Write(const KernelLaunch& launch, Contents& contents) const override;
  // Among the parameters are pointers that nothing has set, so that what they reach
  // tells nothing.
  std::optional<uint64_t> DataBytes(const KernelLaunch& launch) const override;

 private:
  std::optional<ConcatLaunch> Read(const KernelLaunch& launch) const;

  const ConcatKernel kernel_;
};

std::optional<ConcatLaunch> ConcatEffect::Read(const KernelLaunch& launch) const {
  const KernelSignature& signature = launch.kernel->signature;
  // Output, inputs, shape of the output, dimension, the output's stride there.
  const auto arguments = ArgumentsOf<5>(launch);
  if (!arguments)
    return std::nullopt;
  const auto& at = *arguments;
  ConcatLaunch concat{.output = PointerAt(at[0], 0),
                      .inputs = at[1],
                      .inputs_bytes = signature.parameters[1].size,
                      .shape = at[2],
                      .shape_bytes = signature.parameters[2].size,
                      .input_count = launch.grid[1]};
  std::memcpy(&concat.dimension, at[3], sizeof concat.dimension);
  if (signature.parameters[4].size > sizeof concat.stride)
    return std::nullopt;
  std::memcpy(&concat.stride, at[4], signature.parameters[4].size);
  return IsConcat(kernel_, concat) ? std::optional(concat) : std::nullopt;
}

bool ConcatEffect::Compute(const KernelLaunch& launch, Contents& contents) const {
  const std::optional<ConcatLaunch> concat = Read(launch);
  if (!concat)
    return false;
  const auto parts = ConcatParts(kernel_, *concat);
  if (!parts)
    return false;
  Write(launch, contents);
  for (const CopyPart& part : *parts)
    CopyOnDevice(part, contents);
  return true;
}

std::optional<uint64_t> ConcatEffect::DataBytes(const KernelLaunch& launch) const {
  const std::optional<ConcatLaunch> concat = Read(launch);
  if (!concat)
    return std::nullopt;
  return ConcatExtent(kernel_, *concat) + ConcatInputBytes(kernel_, *concat);
}

bool ConcatEffect::Write(const KernelLaunch& launch, Contents& contents) const {
  const std::optional<ConcatLaunch> concat = Read(launch);
  if (!concat)
    return false;
  const uint64_t extent = ConcatExtent(kernel_, *concat);
  if (extent != 0 && contents.IsValid(concat->output, extent))
    contents.Write(concat->output, extent, Origin::Computed(launch.kernel->writer()));
  return true;
}

}  // namespace

std::unique_ptr<const NamedEffect> NewConcatEffect(std::string_view mangled) {
  const ConcatKernel kernel = ParseConcatKernel(mangled);
  if (kernel.element_bytes == 0)
    return nullptr;
  return std::make_unique<ConcatEffect>(kernel);
}

}  // namespace vrank::gpu
