// The host's timeline: ranges, NCCL's host calls, memory between calls, host times.

#include "graph/build/translation.h"

#include <algorithm>
#include <iterator>

namespace vrank::graph {

Translation::Translation(const RankTrace& trace, const KernelTable* kernel_times)
    : trace_(trace),
      kernel_times_(kernel_times),
      index_(trace),
      device_gaps_(DeviceGaps(trace)),
      program_(std::make_unique<Program>(/*retain=*/true)),
      lanes_([this](const Op& op) {
        pending_.push_back({op, kUntimed, kUntimed, HostSource()});
      }),
      copy_name_(program_->AddName("memcpy")),
      memset_name_(program_->AddName("memset")) {
  for (const std::string& name : trace.names)
    names_.push_back(program_->AddName(name));
  // The virtual clock starts with the process; a real one stands anywhere.
  if (!trace.session.virtual_gpu && !index_.timeline.empty())
    cursor_ = index_.timeline.front().time_ns;
  last_ns_ = cursor_;
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

BuiltProgram Translation::Run() {
  Count(BuildLoss::kDroppedByCupti, trace_.dropped_by_cupti);
  Count(BuildLoss::kDroppedByTracer, trace_.dropped_by_tracer);
  Count(BuildLoss::kCutOff, trace_.complete ? 0 : 1);
  Count(BuildLoss::kWorkWithoutCall, index_.work_without_call);
  Count(BuildLoss::kRecordingWithoutCall, index_.recordings_without_call);
  Count(BuildLoss::kWaitWithoutCall, index_.waits_without_call);
  Count(BuildLoss::kMemoryWithoutCall, index_.memory_without_call);
  Count(BuildLoss::kQueueWaitWithoutCall, index_.queue_waits_without_call);
  Count(BuildLoss::kGraphLaunchWithoutCall, index_.graph_launches_without_call);
  Count(BuildLoss::kOperationWithoutCall, index_.operations_without_call);
  Count(BuildLoss::kConcurrentIssuers, index_.concurrent_calls);
  Count(BuildLoss::kInsideNccl, index_.calls_inside_nccl);
  // Streams that no call made are there from the start.
  for (const TracedStream& stream : trace_.streams)
    if (!stream.destroyed && stream.correlation == 0)
      lanes_.Create(stream.context, stream.stream, stream.kind);
  for (const HostItem& item : index_.timeline) {
    switch (item.kind) {
      case HostItem::Kind::kRange:
        Range(trace_.ranges[item.index]);
        break;
      case HostItem::Kind::kReserve:
        Reserve(trace_.reserves[item.index]);
        Flush(item.time_ns);
        break;
      case HostItem::Kind::kNccl:
        NcclCall(item.index);
        break;
      case HostItem::Kind::kInstantCall:
      case HostItem::Kind::kCall:
        if (!index_.Issues(trace_.calls[item.index].thread))
          break;
        last_ns_ = std::max(last_ns_, trace_.calls[item.index].end_ns);
        if (index_.IsInsideNccl(item.index))
          CallInsideNccl(item.index);
        else
          Call(item.index);
        break;
    }
  }
  if (const int64_t end = EndOfHost(); end > cursor_) {
    pending_.push_back({Op{.kind = OpKind::kHost}, kUntimed, kUntimed, HostSource()});
    Flush(end);
  }
  program_->Close();
  return {std::move(program_), std::move(losses_)};
}

// On a real GPU a rank goes on to the end of its last call. On the virtual one it goes
// on as long as the emulator heard of it, which is not always that long.
int64_t Translation::EndOfHost() const {
  return trace_.session.virtual_gpu ? trace_.session.host_end_ns : last_ns_;
}

void Translation::Flush(int64_t end_ns) {
  int64_t next = end_ns;
  for (auto pending = pending_.rbegin(); pending != pending_.rend(); ++pending) {
    if (pending->at == kUntimed)
      pending->at = next;
    next = pending->at;
  }
  for (Pending& pending : pending_) {
    const int64_t host_ns = std::max<int64_t>(0, pending.at - cursor_);
    cursor_ += host_ns;
    pending.op.host_ns = host_ns;
    pending.op.host_source = host_ns > 0 ? pending.host_source : Source::kModelled;
    if (pending.until != kUntimed)
      cursor_ = std::max(cursor_, pending.until);
    program_->Append(pending.op);
  }
  pending_.clear();
  last_ns_ = std::max(last_ns_, cursor_);
}

void Translation::Range(const TracedRange& range) {
  lanes_.Note(Op{.kind = range.begin ? OpKind::kRangeBegin : OpKind::kRangeEnd,
                 .a = names_[range.name]});
  Flush(range.time_ns);
}

void Translation::MemoryChange(int64_t delta, MemoryOwner owner, int64_t time_ns) {
  if (delta == 0)
    return;
  lanes_.Note(
      Op{.kind = OpKind::kMemory, .value = delta, .b = static_cast<uint32_t>(owner)});
  pending_.back().at = time_ns;
}

void Translation::Reserve(const TracedReserve& row) {
  MemoryChange(row.delta_bytes, row.owner, row.time_ns);
}

// The host arrives where the call starts and goes on where it ends; how long that takes
// beyond the members' meeting is the network model's.
void Translation::NcclCall(uint32_t index) {
  const TracedNcclCall& call = trace_.nccl_calls[index];
  const Rows reserves = index_.nccl_reserves.Of(index);
  auto is_context = [&](const RowsByCall::Row& row) {
    return trace_.reserves[row.row].owner == MemoryOwner::kContext;
  };
  for (const RowsByCall::Row& row : reserves)
    if (is_context(row))
      Reserve(trace_.reserves[row.row]);
  const int64_t start =
      pending_.empty() ? call.start_ns : std::max(call.start_ns, pending_.back().at);
  if (call.kind == TracedNcclCall::Kind::kRelease)
    lanes_.Note(Op{.kind = OpKind::kReleaseCommunicator,
                   .a = call.communicator,
                   .b = static_cast<uint32_t>(call.release)});
  else
    lanes_.Note(Op{.kind = OpKind::kCreateCommunicator,
                   .a = call.communicator,
                   .b = program_->AddCreation(call.creation)});
  pending_.back().at = start;
  pending_.back().until = call.end_ns;
  for (const RowsByCall::Row& row : reserves)
    if (!is_context(row))
      Reserve(trace_.reserves[row.row]);
  last_ns_ = std::max(last_ns_, call.end_ns);
  Flush(call.end_ns);
}

}  // namespace vrank::graph
