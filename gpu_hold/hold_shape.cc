#include "gpu_hold/hold_shape.h"

#include <algorithm>
#include <iterator>

#include "base/guest/element_bytes.h"
#include "gpu_hold/hold_memory.h"

namespace vrank::hold {
namespace {

constexpr const char* kNames[] = {
    "ncclDevKernel_AllReduce_virtual",     "ncclDevKernel_AllGather_virtual",
    "ncclDevKernel_ReduceScatter_virtual", "ncclDevKernel_Broadcast_virtual",
    "ncclDevKernel_Reduce_virtual",        "ncclDevKernel_AlltoAll_virtual",
    "ncclDevKernel_Gather_virtual",        "ncclDevKernel_Scatter_virtual",
    "ncclDevKernel_SendRecv_virtual",
};
static_assert(std::size(kNames) == static_cast<size_t>(HoldOperation::kCount));

constexpr uint32_t kWarp = 32;
constexpr uint32_t kFewestThreads = 3 * kWarp;

uint32_t MostThreads(HoldProtocol protocol) {
  return protocol == HoldProtocol::kLl128 ? 640 : 512;
}

// Bytes per thread below which a channel is given up.
uint64_t Threshold(const ShapeInput& input) {
  switch (input.protocol) {
    case HoldProtocol::kLl:
      return uint64_t{8} * input.ranks;
    case HoldProtocol::kLl128:
      return 8;
    case HoldProtocol::kSimple:
      return 64;
  }
  return 64;
}

}  // namespace

HoldOperation OperationOf(protocol::CollectiveKind kind) {
  using protocol::CollectiveKind;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return HoldOperation::kAllReduce;
    case CollectiveKind::kAllGather:
      return HoldOperation::kAllGather;
    case CollectiveKind::kReduceScatter:
      return HoldOperation::kReduceScatter;
    case CollectiveKind::kBroadcast:
      return HoldOperation::kBroadcast;
    case CollectiveKind::kReduce:
      return HoldOperation::kReduce;
    case CollectiveKind::kAllToAll:
      return HoldOperation::kAllToAll;
    case CollectiveKind::kGather:
      return HoldOperation::kGather;
    case CollectiveKind::kScatter:
      return HoldOperation::kScatter;
  }
  return HoldOperation::kAllReduce;
}

uint64_t MovedBytes(const protocol::Collective& call, uint32_t ranks) {
  using protocol::CollectiveKind;
  const uint64_t bytes = call.count * protocol::ElementBytes(call.type);
  switch (call.operation) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return bytes;
    default:
      return bytes * ranks;
  }
}

const char* KernelName(HoldOperation operation) {
  return kNames[static_cast<size_t>(operation)];
}

HoldShape ShapeOf(const ShapeInput& input) {
  // ncclShmemData and the warps' scratch, the same for all kernels: as a profiler shows
  // them of NCCL 2.28.9 on an H100.
  constexpr uint32_t kSharedBytes = 103'808;
  const uint64_t threshold = Threshold(input);
  uint32_t channels = std::clamp<uint32_t>(input.channels, 1, kMaxCtas);
  uint32_t threads = MostThreads(input.protocol);
  while (channels > 1 && input.bytes < uint64_t{channels} * threads * threshold)
    --channels;
  while (threads % 128 == 0 && input.bytes < uint64_t{channels} * threads * threshold)
    threads /= 2;
  if (input.protocol == HoldProtocol::kSimple)
    threads += kWarp;  // the one that synchronises
  HoldShape shape;
  shape.ctas = channels;
  shape.threads = std::max(threads, kFewestThreads);
  shape.shared_bytes = kSharedBytes;
  // Clusters of 4 from compute capability 9.0 on, where they divide the grid.
  shape.cluster = input.compute_major >= 9 && channels % 4 == 0 ? 4 : 1;
  return shape;
}

}  // namespace vrank::hold
