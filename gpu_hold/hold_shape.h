// The launch that NCCL would make: how much of a GPU a collective keeps from others.
//
// Source: NCCL 2.28.9, src/enqueue.cc (calcCollChunking's reduction of channels and
// threads), src/graph/tuning.cc (thresholds), as read for the network model. Where NCCL
// asks its topology (how many channels a ring has), the caller says it.
//
// Thread rule: pure functions.

#ifndef VRANK_GPU_HOLD_HOLD_SHAPE_H_
#define VRANK_GPU_HOLD_HOLD_SHAPE_H_

#include <cstdint>

#include "base/guest/protocol_records.h"

namespace vrank::hold {

enum class HoldOperation : uint32_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSendReceive,
  kCount
};

HoldOperation OperationOf(protocol::CollectiveKind kind);
// By NCCL's count: the larger one of the buffers, over all ranks.
uint64_t MovedBytes(const protocol::Collective& call, uint32_t ranks);
// The name of the kernel that holds for this operation.
const char* KernelName(HoldOperation operation);

enum class HoldProtocol : uint32_t { kLl, kLl128, kSimple };

struct HoldShape {
  uint32_t ctas = 1;  // = channels
  uint32_t threads = 512;
  uint32_t shared_bytes = 0;  // dynamic, per CTA
  uint32_t cluster = 1;       // CTAs per cluster
};

struct ShapeInput {
  HoldProtocol protocol = HoldProtocol::kSimple;
  uint64_t bytes = 0;  // that the operation moves, by NCCL's count
  uint32_t ranks = 1;
  uint32_t channels = 1;  // of the communicator; at most 64
  uint32_t compute_major = 9;
};

// A ring's launch.
HoldShape ShapeOf(const ShapeInput& input);

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HOLD_SHAPE_H_
