// Products of groups (torch._grouped_mm): how many rows all groups have.
//
// The kernel that prepares one gets M, N and K, of which the one that groups divide is
// -1: where each group ends stands in device memory, as do the sizes that the product
// itself reads. What a launch's record says in its place is the number of all rows, so
// that a cost file can price the product (data/kernels/pytorch.textproto).

#include <algorithm>
#include <cstring>
#include <memory>

#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/named_effect.h"
#include "virtual_gpu/core/tensor_info.h"

namespace vrank::gpu {
namespace {

// Parameters in aten/src/ATen/native/cuda/GroupMMCommon.cuh of PyTorch 2.11 to 2.15.
enum : uint32_t { kA = 0, kResult = 2, kEnds = 14, kM = 15, kN = 16, kK = 17 };
constexpr uint64_t kElementBytes = 2;

// The last of the groups' ends; negative: not known.
int32_t LastEnd(uint64_t ends, uint32_t groups, Contents& contents) {
  const uint64_t last = ends + (uint64_t{groups} - 1) * sizeof(int32_t);
  int32_t end;
  const bool known =
      ends != 0 && groups != 0 &&
      contents.ReadKnown(last, sizeof end, reinterpret_cast<unsigned char*>(&end));
  return known ? end : -1;
}

// Rows of so many elements from the address to the end of its block.
int32_t RowsBehind(uint64_t address, int32_t columns, Contents& contents) {
  const uint64_t end = contents.ReachEnd(address);
  if (end == 0 || columns <= 0)
    return 0;
  constexpr uint64_t kMost = 1 << 30;
  return static_cast<int32_t>(std::min(
      kMost, (end - address) / (static_cast<uint64_t>(columns) * kElementBytes)));
}

// at::cuda::detail::prepare_grouped_gemm_data, in half precision.
bool PreparesGroupedProduct(std::string_view mangled) {
  constexpr std::string_view kHalf = "N7cutlass6half_tE",
                             kBfloat16 = "N7cutlass10bfloat16_tE";
  constexpr std::string_view kName = "_ZN2at4cuda6detail25prepare_grouped_gemm_dataI";
  if (!mangled.starts_with(kName))
    return false;
  mangled.remove_prefix(kName.size());
  return mangled.starts_with(kHalf) || mangled.starts_with(kBfloat16);
}

// The end of the last group counts where it is known; else as many rows as the memory
// behind the matrix that has them holds, to the end of its block. Where each group has
// a matrix of its own, M counts for all of them.
class GroupedProductEffect final : public NamedEffect {
 public:
  void CompleteArguments(const KernelLaunch& launch, Contents& contents,
                         unsigned char* arguments, uint32_t bytes) const override;
};

void GroupedProductEffect::CompleteArguments(const KernelLaunch& launch,
                                             Contents& contents,
                                             unsigned char* arguments,
                                             uint32_t bytes) const {
  const KernelSignature& signature = launch.kernel->signature;
  uint64_t a, result, ends;
  int32_t m, n, k;
  if (!ReadParameter(launch, kA, &a) || !ReadParameter(launch, kResult, &result) ||
      !ReadParameter(launch, kEnds, &ends) || !ReadParameter(launch, kM, &m) ||
      !ReadParameter(launch, kN, &n) || !ReadParameter(launch, kK, &k))
    return;
  const uint32_t groups = launch.block[0] * launch.grid[0];
  const auto put = [&](uint32_t parameter, int32_t value) {
    const uint32_t at = signature.parameters[parameter].offset;
    if (at + sizeof value <= bytes)
      std::memcpy(arguments + at, &value, sizeof value);
  };
  const int32_t last = LastEnd(ends, groups, contents);
  if (m < 0)
    put(kM, last >= 0 ? last : RowsBehind(result, n, contents));
  else if (n < 0)
    put(kN, last >= 0 ? last : RowsBehind(result, m, contents));
  else if (k < 0)
    put(kK, last >= 0 ? last : RowsBehind(a, m, contents));
  else
    put(kM, m * static_cast<int32_t>(groups));
}

}  // namespace

std::unique_ptr<const NamedEffect> NewGroupedProductEffect(std::string_view mangled) {
  if (!PreparesGroupedProduct(mangled))
    return nullptr;
  return std::make_unique<GroupedProductEffect>();
}

}  // namespace vrank::gpu
