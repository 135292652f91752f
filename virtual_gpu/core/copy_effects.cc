// Kernels that copy: torch.cat's and those of tensor lists (concat_kernel.h,
// list_copy_kernel.h).

#include <cstring>
#include <optional>
#include <vector>

#include "virtual_gpu/core/kernel_values.h"
#include "virtual_gpu/core/named_effects.h"

namespace vrank::gpu {
namespace {

void CopyOnDevice(const CopyPart& part, Contents& contents) {
  if (part.bytes != 0 && contents.IsValid(part.to, part.bytes) &&
      contents.IsValid(part.from, part.bytes))
    contents.CopyWithin(part.to, part.from, part.bytes);
}

std::optional<ConcatLaunch> ReadConcat(const KernelLaunch& launch) {
  const KernelSignature& signature = launch.kernel->signature;
  if (launch.kernel->concat.element_bytes == 0)
    return std::nullopt;
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
  return IsConcat(launch.kernel->concat, concat) ? std::optional(concat) : std::nullopt;
}

}  // namespace

bool CopyConcat(const KernelLaunch& launch, Contents& contents) {
  const std::optional<ConcatLaunch> concat = ReadConcat(launch);
  if (!concat)
    return false;
  const auto parts = ConcatParts(launch.kernel->concat, *concat);
  if (!parts)
    return false;
  WriteConcat(launch, contents);
  for (const CopyPart& part : *parts)
    CopyOnDevice(part, contents);
  return true;
}

std::optional<uint64_t> ConcatBytes(const KernelLaunch& launch) {
  const std::optional<ConcatLaunch> concat = ReadConcat(launch);
  if (!concat)
    return std::nullopt;
  return ConcatExtent(launch.kernel->concat, *concat) +
         ConcatInputBytes(launch.kernel->concat, *concat);
}

bool WriteConcat(const KernelLaunch& launch, Contents& contents) {
  const std::optional<ConcatLaunch> concat = ReadConcat(launch);
  if (!concat)
    return false;
  const uint64_t extent = ConcatExtent(launch.kernel->concat, *concat);
  if (extent != 0 && contents.IsValid(concat->output, extent))
    contents.Write(concat->output, extent,
                   Origin::Computed(launch.kernel->name.c_str()));
  return true;
}

bool CopyList(const KernelLaunch& launch, Contents& contents) {
  const KernelSignature& signature = launch.kernel->signature;
  // The lists, a functor, the operation: both without members.
  const auto arguments =
      launch.kernel->list_copy_bytes != 0 ? ArgumentsOf<3>(launch) : std::nullopt;
  if (!arguments)
    return false;
  const auto parts = ListCopyParts(launch.kernel->list_copy_bytes, (*arguments)[0],
                                   signature.parameters[0].size, launch.grid[0]);
  if (!parts)
    return false;
  for (const CopyPart& part : *parts)
    CopyOnDevice(part, contents);
  return true;
}

}  // namespace vrank::gpu
