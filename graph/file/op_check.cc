#include "graph/file/op_check.h"

#include <fmt/format.h>

namespace vrank::graph {
namespace {

// What a rank can number at most; the same limits as for a live rank's records
// (emulator/session/record_reading.h).
constexpr uint32_t kMaxLanes = 1u << 20;
constexpr uint32_t kMaxTokens = 1u << 24;
constexpr uint32_t kMaxCommunicators = 1u << 24;
constexpr int64_t kMaxNs = int64_t{1} << 60;  // 36 years
constexpr int64_t kMaxBytes = int64_t{1} << 60;
constexpr uint32_t kMaxDevices = 1024;  // of one process

bool IsTime(int64_t ns) {
  return ns >= 0 && ns <= kMaxNs;
}

bool IsLane(uint32_t lane) {
  return lane != 0 && lane < kMaxLanes;
}

bool IsCommunicator(uint32_t number) {
  return number != 0 && number < kMaxCommunicators;
}

bool IsSound(const Op& op, const Details& details) {
  if (op.source > Source::kMeasured || op.work > WorkClass::kHostFunc ||
      !IsTime(op.host_ns))
    return false;
  switch (op.kind) {
    case OpKind::kWork:
    case OpKind::kHostFunc:
      return IsLane(op.lane) && IsTime(op.value) && op.a < details.names.size();
    case OpKind::kRecordToken:
    case OpKind::kWaitToken:
      return IsLane(op.lane) && op.a < kMaxTokens;
    case OpKind::kReleaseLane:
    case OpKind::kHostWaitLane:
      return IsLane(op.lane);
    case OpKind::kHostWaitToken:
      return op.a < kMaxTokens;
    case OpKind::kQueryToken:
      return op.a < kMaxTokens && op.b <= kAnswerComplete;
    case OpKind::kQueryLane:
      return IsLane(op.lane) && op.b <= kAnswerComplete;
    case OpKind::kPollToken:
      return op.a < kMaxTokens && IsTime(op.value);
    case OpKind::kPollLane:
      return IsLane(op.lane) && IsTime(op.value);
    case OpKind::kCreateCommunicator:
      return IsCommunicator(op.a) && op.b < details.creations.size() && op.value >= 0 &&
             op.value < kMaxTokens;
    case OpKind::kReleaseCommunicator:
      return IsCommunicator(op.a) && op.b <= static_cast<uint32_t>(ReleaseKind::kStop);
    case OpKind::kCollective:
      return IsLane(op.lane) && IsCommunicator(op.a) &&
             op.b < details.collectives.size();
    case OpKind::kTransfers:
      return IsLane(op.lane) && IsCommunicator(op.a) &&
             op.b < details.transfer_groups.size() && op.value == 0;
    case OpKind::kMemory:
      return op.value >= -kMaxBytes && op.value <= kMaxBytes && op.a < kMaxDevices &&
             op.b <= static_cast<uint32_t>(MemoryOwner::kCommunicator);
    case OpKind::kRangeBegin:
    case OpKind::kRangeEnd:
      return op.a < details.names.size();
    case OpKind::kHost:
    case OpKind::kAskClock:
      return true;
  }
  return false;  // a kind that does not exist
}

}  // namespace

absl::Status CheckOps(std::span<const Op> ops, const Details& details) {
  for (size_t i = 0; i < ops.size(); ++i)
    if (!IsSound(ops[i], details)) [[unlikely]]
      return absl::DataLossError(fmt::format(
          "op {} (kind {}, lane {}, {}, {}) refers to something that does not exist", i,
          static_cast<int>(ops[i].kind), ops[i].lane, ops[i].a, ops[i].b));
  return absl::OkStatus();
}

}  // namespace vrank::graph
