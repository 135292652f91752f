#include "virtual_gpu/core/number_read.h"

#include <algorithm>
#include <iterator>

namespace vrank::gpu {
namespace {

// PyTorch's integers are int64 unless a program says otherwise, and so are counts and
// indices; its losses are in types of two or four bytes.
constexpr uint64_t kInteger = 8, kTruth = 1;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// cub::DeviceReduce (the count of nonzero), DeviceSelect, DeviceRunLengthEncode,
// DevicePartition and thrust's unique.
bool CountsElements(std::string_view writer) {
  if (!Contains(writer, "3cub") && !Contains(writer, "6thrust"))
    return false;
  constexpr std::string_view kKernels[] = {
      "DeviceReduceSingleTileKernel", "DeviceReduceKernel", "DeviceSelectSweepKernel",
      "DeviceRleSweepKernel",         "DeviceReduceByKey",  "DevicePartition",
      "DeviceUniqueByKeySweepKernel"};
  return std::any_of(std::begin(kKernels), std::end(kKernels),
                     [&](std::string_view name) { return Contains(writer, name); });
}

// A comparison for equality of floating-point numbers: isnan and isinf, by which
// training loops guard what they log.
bool TestsForInfinity(std::string_view writer) {
  return Contains(writer, "CompareEqFunctorI") &&
         !Contains(writer, "CompareEqFunctorIl") &&
         !Contains(writer, "CompareEqFunctorIi") &&
         !Contains(writer, "CompareEqFunctorIb");
}

// Its first type argument is double.
bool IsDouble(std::string_view writer) {
  return Contains(writer, "ReduceOpId") || Contains(writer, "FunctorId");
}

}  // namespace

NumberRead ClassifyRead(std::string_view writer, uint64_t bytes) {
  if (bytes <= kInteger && bytes >= sizeof(int32_t) && CountsElements(writer))
    return NumberRead::kSize;
  if (bytes == kInteger)
    return IsDouble(writer) ? NumberRead::kOther : NumberRead::kDecision;
  if (bytes == kTruth)
    return TestsForInfinity(writer) ? NumberRead::kOther : NumberRead::kDecision;
  return NumberRead::kOther;
}

}  // namespace vrank::gpu
