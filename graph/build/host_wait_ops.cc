// See host_wait_ops.h.

#include "graph/build/host_wait_ops.h"

#include <algorithm>
#include <optional>

#include "base/guest/channel.h"
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

HostWaitOps::HostWaitOps(const RankTrace& trace, const TraceIndex& index,
                         StreamLanes& lanes, TracedStreams& streams,
                         TracedEvents& events, HostTimeline& timeline,
                         LossCounts& losses)
    : trace_(trace),
      index_(index),
      lanes_(lanes),
      streams_(streams),
      events_(events),
      timeline_(timeline),
      losses_(losses) {
  // What a copy costs its host is seen where nothing held the host up.
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    if (!index_.queue_full.Of(call).empty() || !index_.reserves.Of(call).empty())
      continue;
    const TracedCall& of = trace.calls[call];
    for (const RowsByCall::Row& row : index_.work.Of(call)) {
      const TracedWork& work = trace.work[row.row];
      if (work.work == WorkClass::kKernel || of.end_ns >= work.end_ns)
        continue;
      const int64_t cost = of.end_ns - of.start_ns;
      const auto [known, is_new] = copy_costs_.emplace(of.function, cost);
      known->second = std::min(known->second, cost);
    }
  }
}

void HostWaitOps::OfCall(uint32_t index) {
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
      Wait(sync, call);
  }
  if (!waits)
    BlockingCopies(index);
}

void HostWaitOps::Wait(const TracedSync& row, const TracedCall& call) {
  const int64_t start = std::clamp(row.start_ns, call.start_ns, call.end_ns);
  const int64_t end = std::clamp(row.end_ns, start, call.end_ns);
  const size_t first = timeline_.pending();
  int64_t target = 0;
  switch (row.kind) {
    case SyncKind::kEvent: {
      const std::optional<uint32_t> token = events_.TokenFor(row);
      if (!token.has_value())
        return;
      lanes_.Note(Op{.kind = OpKind::kHostWaitToken, .a = *token});
      target = lanes_.TokenEnd(*token);
      break;
    }
    case SyncKind::kStream: {
      target = lanes_.HostWait(streams_.Find(row.context, row.stream));
      break;
    }
    case SyncKind::kContext:
      target = lanes_.HostWaitForContext(row.context);
      break;
    case SyncKind::kStreamWait:
      return;
  }
  timeline_.SetWait(first, start, end, target);
}

void HostWaitOps::Query(const TracedSync& row, const TracedCall& call) {
  const uint32_t answer = call.result == kNotReady ? kAnswerNotYet : kAnswerComplete;
  if (row.kind == SyncKind::kEvent) {
    if (const std::optional<uint32_t> token = events_.TokenFor(row); token.has_value())
      lanes_.Note(Op{.kind = OpKind::kQueryToken, .a = *token, .b = answer});
    return;
  }
  // One after the other is asked about, until one has not ended.
  const auto streams = lanes_.Uncovered(streams_.Find(row.context, row.stream));
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

int64_t HostWaitOps::OwnCopyCost(const TracedCall& call) {
  const auto seen = copy_costs_.find(call.function);
  if (seen != copy_costs_.end())
    return seen->second;
  losses_.Count(BuildLoss::kAssumedCopyCost);
  const bool is_async = FunctionOf(call).find("Async") != std::string::npos ||
                        FunctionOf(call).find("emset") != std::string::npos;
  return kDefaultCosts[static_cast<size_t>(is_async ? HostCost::kCopyAsync
                                                    : HostCost::kCopyBlocking)];
}

// A copy or memset between host and device that had ended when its call returned was
// synchronous: an asynchronous one does not begin before its call returns.
void HostWaitOps::BlockingCopies(uint32_t index) {
  const TracedCall& call = trace_.calls[index];
  for (const RowsByCall::Row& row : index_.work.Of(index)) {
    const TracedWork& work = trace_.work[row.row];
    const bool moves_data =
        work.work == WorkClass::kMemset ||
        (work.work == WorkClass::kCopy && work.copy_kind != kDeviceToDevice &&
         work.copy_kind != kPeerToPeer);
    if (!moves_data || work.end_ns > call.end_ns || work.end_ns < work.start_ns)
      continue;
    StreamLanes::Stream* stream = streams_.Find(work.context, work.stream);
    const int64_t own = OwnCopyCost(call);
    const size_t first = timeline_.pending();
    lanes_.HostWait(stream);
    timeline_.SetWait(first, std::min(call.start_ns + own, call.end_ns), call.end_ns,
                      work.end_ns);
  }
}

}  // namespace vrank::graph
