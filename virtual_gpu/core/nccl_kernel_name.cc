#include "virtual_gpu/core/nccl_kernel_name.h"

#include <mutex>
#include <string>
#include <unordered_set>

namespace vrank::gpu {
namespace {

using protocol::CollectiveKind;
using protocol::ElementType;
using protocol::Reduction;

const char* TypeName(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
      return "u8";
    case ElementType::kInt32:
    case ElementType::kUint32:
      return "u32";
    case ElementType::kInt64:
    case ElementType::kUint64:
      return "u64";
    case ElementType::kFloat16:
      return "f16";
    case ElementType::kFloat64:
      return "f64";
    case ElementType::kBfloat16:
      return "bf16";
    case ElementType::kFloat8E4M3:
      return "f8e4m3";
    case ElementType::kFloat8E5M2:
      return "f8e5m2";
    case ElementType::kFloat32:
    case ElementType::kTfloat32:
      break;
  }
  return "f32";
}

bool IsInteger(ElementType type) {
  return type <= ElementType::kUint64;
}

const char* ReductionName(Reduction reduction, ElementType type) {
  switch (reduction) {
    case Reduction::kSum:
      break;
    case Reduction::kProd:
      return "Prod";
    case Reduction::kMax:
    case Reduction::kMin:
      return "MinMax";
    case Reduction::kAvg:
      return IsInteger(type) ? "SumPostDiv" : "PreMulSum";
    case Reduction::kPreMulSum:
      return "PreMulSum";
  }
  return "Sum";
}

const char* Keep(const std::string& operation) {
  static auto* const kept = new std::unordered_set<std::string>;
  static std::mutex mutex;
  const std::string name = "ncclDevKernel_" + operation;
  std::lock_guard lock(mutex);
  return kept
      ->insert("_Z" + std::to_string(name.size()) + name +
               "24ncclDevKernelArgsStorageILm4096EE")
      .first->c_str();
}

}  // namespace

const char* NcclKernelName(const protocol::Collective& call) {
  const std::string reduces = std::string("_") +
                              ReductionName(call.reduction, call.type) + "_" +
                              TypeName(call.type) + "_RING_LL";
  switch (call.operation) {
    case CollectiveKind::kAllReduce:
      return Keep("AllReduce" + reduces);
    case CollectiveKind::kReduceScatter:
      return Keep("ReduceScatter" + reduces);
    case CollectiveKind::kReduce:
      return Keep("Reduce" + reduces);
    case CollectiveKind::kAllGather:
      return Keep("AllGather_RING_LL");
    case CollectiveKind::kBroadcast:
      return Keep("Broadcast_RING_LL");
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      break;
  }
  return NcclTransferKernelName();
}

const char* NcclTransferKernelName() {
  static const char* const name = Keep("SendRecv");
  return name;
}

}  // namespace vrank::gpu
