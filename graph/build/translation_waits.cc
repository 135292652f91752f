// Waits of the host, questions, and memory of one call.

#include <algorithm>
#include <string>

#include "base/guest/channel.h"
#include "graph/build/translation.h"
#include "graph/build/work_names.h"

namespace vrank::graph {
namespace {

// cudaErrorNotReady and CUDA_ERROR_NOT_READY.
constexpr int32_t kNotReady = 600;
// CUpti_ActivityMemcpyKind: within a device, or between two.
constexpr uint32_t kDeviceToDevice = 8, kPeerToPeer = 10;

constexpr int64_t kDefaultCosts[] = {
#define VRANK_HOST_COST(id, default_ns, meaning) default_ns,
#include "base/guest/host_costs.def"
#undef VRANK_HOST_COST
};

}  // namespace

void Translation::HostWaits(uint32_t index) {
  const TracedCall& call = trace_.calls[index];
  bool waits = false;
  for (const RowsByCall::Row& row : index_.syncs.Of(index)) {
    const TracedSync& sync = trace_.syncs[row.row];
    if (sync.kind == SyncKind::kStreamWait)
      continue;
    waits = true;
    if (IsQuery(FunctionOf(call)))
      Query(sync, call);
    else
      HostWaitOf(sync, call);
  }
  if (!waits)
    BlockingCopy(index);
}

// All ops from pending_[first] on are one wait. `target_ns`: the end of what was waited
// for, by the times that the trace shows.
void Translation::SetWaitTimes(size_t first, int64_t start_ns, int64_t end_ns,
                               int64_t target_ns) {
  if (first == pending_.size())
    return;
  for (size_t i = first; i < pending_.size(); ++i)
    pending_[i].at = start_ns;
  // A real call returns a little after its target's end, and that is its own cost. On
  // the virtual GPU it returns at that end, which other ranks may have a part in.
  pending_.back().until =
      trace_.session.virtual_gpu ? end_ns : std::clamp(target_ns, start_ns, end_ns);
}

void Translation::HostWaitOf(const TracedSync& row, const TracedCall& call) {
  const int64_t start = std::clamp(row.start_ns, call.start_ns, call.end_ns);
  const int64_t end = std::clamp(row.end_ns, start, call.end_ns);
  const size_t first = pending_.size();
  int64_t target = 0;
  switch (row.kind) {
    case SyncKind::kEvent: {
      const Event* event = Recording(row);
      if (event == nullptr)
        return;
      lanes_.Note(Op{.kind = OpKind::kHostWaitToken, .a = event->token});
      target = lanes_.TokenEnd(event->token);
      break;
    }
    case SyncKind::kStream: {
      target = lanes_.HostWait(FindStream(row.context, row.stream));
      break;
    }
    case SyncKind::kContext:
      target = lanes_.HostWaitForContext(row.context);
      break;
    case SyncKind::kStreamWait:
      return;
  }
  SetWaitTimes(first, start, end, target);
}

void Translation::Query(const TracedSync& row, const TracedCall& call) {
  const uint32_t answer = call.result == kNotReady ? kAnswerNotYet : kAnswerComplete;
  if (row.kind == SyncKind::kEvent) {
    if (const Event* event = Recording(row); event != nullptr)
      lanes_.Note(Op{.kind = OpKind::kQueryToken, .a = event->token, .b = answer});
    return;
  }
  // One after the other is asked about, until one has not ended.
  const auto streams = lanes_.Uncovered(FindStream(row.context, row.stream));
  for (StreamLanes::Stream* stream : streams) {
    const bool ended = answer == kAnswerComplete ||
                       (stream != streams.back() && stream->end_ns <= row.end_ns);
    lanes_.Note(Op{.kind = OpKind::kQueryLane,
                   .lane = stream->lane,
                   .b = ended ? kAnswerComplete : kAnswerNotYet});
    if (!ended)
      return;
    stream->waited = stream->issued;
  }
}

int64_t Translation::OwnCopyCost(const TracedCall& call) {
  const auto seen = copy_costs_.find(call.function);
  if (seen != copy_costs_.end())
    return seen->second;
  Count(BuildLoss::kAssumedCopyCost);
  const bool is_async = FunctionOf(call).find("Async") != std::string::npos ||
                        FunctionOf(call).find("emset") != std::string::npos;
  return kDefaultCosts[static_cast<size_t>(is_async ? HostCost::kCopyAsync
                                                    : HostCost::kCopyBlocking)];
}

// A copy or memset between host and device that had ended when its call returned held
// the host up: one that does not hold it up cannot even begin before that.
void Translation::BlockingCopy(uint32_t index) {
  const TracedCall& call = trace_.calls[index];
  for (const RowsByCall::Row& row : index_.work.Of(index)) {
    const TracedWork& work = trace_.work[row.row];
    const bool moves_data =
        work.work == WorkClass::kMemset ||
        (work.work == WorkClass::kCopy && work.copy_kind != kDeviceToDevice &&
         work.copy_kind != kPeerToPeer);
    if (!moves_data || work.end_ns > call.end_ns || work.end_ns < work.start_ns)
      continue;
    StreamLanes::Stream* stream = FindStream(work.context, work.stream);
    const int64_t own = OwnCopyCost(call);
    const size_t first = pending_.size();
    lanes_.HostWait(stream);
    SetWaitTimes(first, std::min(call.start_ns + own, call.end_ns), call.end_ns,
                 work.end_ns);
  }
}

void Translation::Memory(uint32_t index) {
  for (const RowsByCall::Row& row : index_.memory.Of(index)) {
    const TracedMemory& memory = trace_.memory[row.row];
    if (!memory.device)
      continue;
    if (memory.release) {
      // Memory of a pool stays with the pool.
      if (async_memory_.erase(memory.address) == 0)
        MemoryChange(blocks_.GiveBack(memory.address), MemoryOwner::kProgram,
                     memory.time_ns);
    } else if (!memory.is_async) {
      MemoryChange(blocks_.Take(memory.address, memory.bytes), MemoryOwner::kProgram,
                   memory.time_ns);
    }
  }
}

void Translation::ReleaseEvents(uint32_t index) {
  auto release = [&](uint32_t context, uint32_t number) {
    if (index_.LastUse({context, number}) != index)
      return;
    const auto event = events_.find({context, number});
    if (event == events_.end())
      return;
    lanes_.GiveBackToken(event->second.token);
    events_.erase(event);
  };
  for (const RowsByCall::Row& row : index_.event_records.Of(index)) {
    const TracedEventRecord& record = trace_.event_records[row.row];
    release(record.context, record.event);
  }
  for (const RowsByCall::Row& row : index_.syncs.Of(index)) {
    const TracedSync& sync = trace_.syncs[row.row];
    if (sync.kind == SyncKind::kEvent || sync.kind == SyncKind::kStreamWait)
      release(sync.context, sync.event);
  }
}

}  // namespace vrank::graph
