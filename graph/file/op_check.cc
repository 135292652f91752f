#include "graph/file/op_check.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace vrank::graph {
namespace {

// What a rank can number at most; the same limits as for a live rank's records
// (emulator/decode/record_reading.h).
constexpr uint32_t kMaxLanes = 1u << 20;
constexpr uint32_t kMaxTokens = 1u << 24;
constexpr uint32_t kMaxCommunicators = 1u << 24;
constexpr int64_t kMaxBytes = int64_t{1} << 60;
constexpr uint32_t kMaxDevices = 1024;  // of one process
// Numbers are given out in order, also to streams and events that no op names. Without
// a bound by the length of the program, one op could ask for gigabytes.
constexpr uint64_t kNumbersPerOp = 16;
constexpr uint64_t kLanesBefore = 4096;
constexpr uint64_t kTokensBefore = 65536;

bool IsTime(int64_t ns) {
  return ns >= 0 && ns <= kMaxNs;
}

bool IsCommunicator(uint32_t number) {
  return number != 0 && number < kMaxCommunicators;
}

// Its end gives the place in the launch queue back.
bool MayLaunch(OpKind kind) {
  switch (kind) {
    case OpKind::kWork:
    case OpKind::kHostFunc:
    case OpKind::kRecordToken:
    case OpKind::kWaitToken:
    case OpKind::kCollective:
    case OpKind::kTransfers:
      return true;
    default:
      return false;
  }
}

// A thread that issues no work only asks, and releases communicators.
bool MayComeFromHelper(OpKind kind) {
  switch (kind) {
    case OpKind::kHostWaitToken:
    case OpKind::kHostWaitLane:
    case OpKind::kQueryToken:
    case OpKind::kQueryLane:
    case OpKind::kReleaseCommunicator:
    case OpKind::kAskClock:
      return true;
    default:
      return false;
  }
}

class Checker {
 public:
  Checker(uint64_t ops, const Details& details)
      : details_(details),
        lanes_(static_cast<uint32_t>(
            std::min<uint64_t>(kMaxLanes, kLanesBefore + kNumbersPerOp * ops))),
        tokens_(static_cast<uint32_t>(
            std::min<uint64_t>(kMaxTokens, kTokensBefore + kNumbersPerOp * ops))) {}

  // False: the op is broken, or the sums are too large.
  bool Add(const Op& op) {
    if (!IsSound(op) || (op.launch != 0 && !MayLaunch(op.kind)) ||
        (op.from_helper != 0 && !MayComeFromHelper(op.kind)) || !UsesInOrder(op))
      return false;
    ns_ += op.host_ns + CostOf(op);  // each of the three at most 2^60
    if (op.kind == OpKind::kMemory)
      bytes_ += op.value < 0 ? -op.value : op.value;
    return ns_ <= kMaxNs && bytes_ <= kMaxBytes;
  }
  int64_t ns() const { return ns_; }

 private:
  bool IsLane(uint32_t lane) const { return lane != 0 && lane < lanes_; }
  bool IsToken(uint32_t token) const { return token < tokens_; }

  int64_t CostOf(const Op& op) const {
    switch (op.kind) {
      case OpKind::kWork:
        return op.value + op.b;  // the ledger's sums are bounded, too
      case OpKind::kHostFunc:
      case OpKind::kPollToken:
      case OpKind::kPollLane:
        return op.value;
      case OpKind::kCollective:
        return static_cast<int64_t>(details_.collectives[op.b].recorded_ns);
      default:
        return 0;
    }
  }

  bool IsSound(const Op& op) const {
    if (op.source > Source::kMeasured || op.work > WorkClass::kHostFunc ||
        !IsTime(op.host_ns))
      return false;
    switch (op.kind) {
      case OpKind::kWork:
        return IsLane(op.lane) && IsTime(op.value) && op.a < details_.names.size() &&
               (op.b == 0 || op.source == Source::kAssumed);
      case OpKind::kHostFunc:
        return IsLane(op.lane) && IsTime(op.value) && op.a < details_.names.size();
      case OpKind::kRecordToken:
      case OpKind::kWaitToken:
        return IsLane(op.lane) && IsToken(op.a);
      case OpKind::kReleaseLane:
      case OpKind::kHostWaitLane:
        return IsLane(op.lane);
      case OpKind::kHostWaitToken:
        return IsToken(op.a);
      case OpKind::kQueryToken:
        return IsToken(op.a) && op.b <= kAnswerComplete;
      case OpKind::kQueryLane:
        return IsLane(op.lane) && op.b <= kAnswerComplete;
      case OpKind::kPollToken:
        return IsToken(op.a) && IsTime(op.value);
      case OpKind::kPollLane:
        return IsLane(op.lane) && IsTime(op.value);
      case OpKind::kCreateCommunicator:
        return IsCommunicator(op.a) && op.b < details_.creations.size() &&
               op.value >= 0 && op.value < kMaxTokens &&
               IsToken(static_cast<uint32_t>(op.value));
      case OpKind::kReleaseCommunicator:
        return IsCommunicator(op.a) &&
               op.b <= static_cast<uint32_t>(ReleaseKind::kStop);
      case OpKind::kCollective:
        return IsLane(op.lane) && IsCommunicator(op.a) &&
               op.b < details_.collectives.size();
      case OpKind::kTransfers:
        return IsLane(op.lane) && IsCommunicator(op.a) &&
               op.b < details_.transfer_groups.size() && op.value == 0;
      case OpKind::kMemory:
        return op.value >= -kMaxBytes && op.value <= kMaxBytes && op.a < kMaxDevices &&
               op.b <= static_cast<uint32_t>(MemoryOwner::kCommunicator);
      case OpKind::kRangeBegin:
      case OpKind::kRangeEnd:
        return op.a < details_.names.size();
      case OpKind::kHost:
      case OpKind::kAskClock:
        return true;
    }
    return false;  // a kind that does not exist
  }

  // A communicator is created once, then used, then released.
  bool UsesInOrder(const Op& op) {
    switch (op.kind) {
      case OpKind::kCreateCommunicator: {
        const uint32_t parent = details_.creations[op.b].parent;
        return (parent == 0 || IsUsable(parent)) &&
               usable_.try_emplace(op.a, true).second;
      }
      case OpKind::kCollective:
      case OpKind::kTransfers:
        return IsUsable(op.a);
      case OpKind::kReleaseCommunicator: {
        const auto created = usable_.find(op.a);
        if (created == usable_.end() || !created->second)
          return false;
        const auto kind = static_cast<ReleaseKind>(op.b);
        created->second = kind == ReleaseKind::kFinalize || kind == ReleaseKind::kStop;
        return true;
      }
      default:
        return true;
    }
  }
  bool IsUsable(uint32_t communicator) const {
    const auto created = usable_.find(communicator);
    return created != usable_.end() && created->second;
  }

  const Details& details_;
  const uint32_t lanes_, tokens_;
  std::unordered_map<uint32_t, bool> usable_;  // by number: created, and not released
  int64_t ns_ = 0, bytes_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> CheckOps(std::span<const Op> ops, const Details& details) {
  Checker checker(ops.size(), details);
  for (size_t i = 0; i < ops.size(); ++i)
    if (!checker.Add(ops[i])) [[unlikely]]
      return absl::DataLossError(fmt::format(
          "op {} (kind {}, lane {}, {}, {}, {} ns, value {}) cannot be: a number is "
          "out "
          "of its range, or refers to something that does not exist (yet, or any more)",
          i, static_cast<int>(ops[i].kind), ops[i].lane, ops[i].a, ops[i].b,
          ops[i].host_ns, ops[i].value));
  return checker.ns();
}

}  // namespace vrank::graph
