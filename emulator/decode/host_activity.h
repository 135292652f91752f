// What a rank's host spends its time on, told from the record that carries the time:
// the channel puts what passed since the record before into the next one, and a call
// spends its cost just before it writes its record. Calls that write none (those that
// only look something up) count with the next one that does.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_DECODE_HOST_ACTIVITY_H_
#define VRANK_EMULATOR_DECODE_HOST_ACTIVITY_H_

#include <cstddef>

#include "base/guest/protocol.h"

namespace vrank::emulator {

enum class HostActivity {
  kContext,
  kMemory,
  kLaunch,
  kCopy,
  kEvent,
  kWait,
  kNccl,
  kGraph,
  kProgram,
  kOther,
};
inline constexpr size_t kHostActivities = 10;

// As the report calls it.
inline const char* Name(HostActivity activity) {
  switch (activity) {
    case HostActivity::kContext:
      return "creating CUDA contexts";
    case HostActivity::kMemory:
      return "allocating and freeing memory";
    case HostActivity::kLaunch:
      return "launching kernels";
    case HostActivity::kCopy:
      return "copies and memsets";
    case HostActivity::kEvent:
      return "events and streams";
    case HostActivity::kWait:
      return "synchronising and asking";
    case HostActivity::kNccl:
      return "NCCL calls";
    case HostActivity::kGraph:
      return "CUDA graphs";
    case HostActivity::kProgram:
      return "the program itself, between calls";
    case HostActivity::kOther:
      break;
  }
  return "other, sleeps included";
}

// `record`: whole, with what follows its header.
inline HostActivity ActivityOf(const protocol::Record& record) {
  using protocol::RecordKind;
  if ((record.flags & (protocol::kHostTimeMeasured | protocol::kHostTimeRecorded)) != 0)
    return HostActivity::kProgram;
  switch (record.kind) {
    case RecordKind::kMemory:
      return reinterpret_cast<const protocol::Memory&>(record).owner ==
                     protocol::MemoryOwner::kContext
                 ? HostActivity::kContext
                 : HostActivity::kMemory;
    case RecordKind::kAskMemory:
      return HostActivity::kMemory;
    case RecordKind::kKernel:
    case RecordKind::kGemm:
      return HostActivity::kLaunch;
    case RecordKind::kCopy:
    case RecordKind::kMemset:
      return HostActivity::kCopy;
    case RecordKind::kRecordToken:
    case RecordKind::kWaitToken:
    case RecordKind::kReleaseLane:
      return HostActivity::kEvent;
    case RecordKind::kHostWaitToken:
    case RecordKind::kHostWaitLane:
    case RecordKind::kHostQuery:
    case RecordKind::kAskClock:
      return HostActivity::kWait;
    case RecordKind::kCommInit:
    case RecordKind::kCommSplit:
    case RecordKind::kCommRelease:
    case RecordKind::kCollective:
    case RecordKind::kPointToPoint:
    case RecordKind::kPayload:
    case RecordKind::kFetchPayload:
    case RecordKind::kEstimate:
      return HostActivity::kNccl;
    case RecordKind::kGraphLaunch:
    case RecordKind::kGraphEnd:
    case RecordKind::kGraphForget:
      return HostActivity::kGraph;
    default:
      return HostActivity::kOther;
  }
}

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_DECODE_HOST_ACTIVITY_H_
