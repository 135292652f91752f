#include "virtual_gpu/core/grouped_product.h"

#include <algorithm>
#include <cstring>

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

}  // namespace

bool PreparesGroupedProduct(std::string_view mangled) {
  constexpr std::string_view kHalf = "N7cutlass6half_tE",
                             kBfloat16 = "N7cutlass10bfloat16_tE";
  constexpr std::string_view kName = "_ZN2at4cuda6detail25prepare_grouped_gemm_dataI";
  if (!mangled.starts_with(kName))
    return false;
  mangled.remove_prefix(kName.size());
  return mangled.starts_with(kHalf) || mangled.starts_with(kBfloat16);
}

void CompleteGroupedProduct(const KernelLaunch& launch, Contents& contents,
                            unsigned char* arguments, uint32_t bytes) {
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

}  // namespace vrank::gpu
