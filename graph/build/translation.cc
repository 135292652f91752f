// See translation.h.

#include "graph/build/translation.h"

#include <string>

#include "graph/build/work_names.h"

namespace vrank::graph {
namespace {

// The virtual clock starts with the process; a real one stands anywhere.
int64_t BeginOf(const RankTrace& trace, const TraceIndex& index) {
  return trace.session.virtual_gpu || index.timeline.empty()
             ? 0
             : index.timeline.front().time_ns;
}

}  // namespace

Translation::Translation(const RankTrace& trace, const KernelTable* kernel_times)
    : trace_(trace),
      index_(trace),
      program_(std::make_unique<Program>(/*retain=*/true)),
      timeline_(trace.session.virtual_gpu, BeginOf(trace, index_), trace.host_times,
                *program_),
      lanes_([this](const Op& op) { timeline_.Append(op); }),
      streams_(trace, index_, lanes_, losses_),
      events_(trace, index_, lanes_, streams_, losses_),
      memory_(trace, index_, lanes_, streams_, timeline_),
      work_(trace, index_, kernel_times, *program_, lanes_, streams_, timeline_,
            losses_),
      graphs_(trace, index_, *program_, lanes_, streams_, events_, work_, losses_),
      waits_(trace, index_, lanes_, streams_, events_, timeline_, losses_) {}

BuiltProgram Translation::Run() {
  CountTraceLosses();
  streams_.CreateFirst();
  for (const HostItem& item : index_.timeline)
    Item(item);
  if (const int64_t end = EndOfHost(); end > timeline_.cursor_ns()) {
    timeline_.Append(Op{.kind = OpKind::kHost});
    timeline_.Flush(end);
  }
  program_->Close();
  return {std::move(program_), losses_.Take()};
}

void Translation::CountTraceLosses() {
  losses_.Count(BuildLoss::kDroppedByCupti, trace_.dropped_by_cupti);
  losses_.Count(BuildLoss::kDroppedByTracer, trace_.dropped_by_tracer);
  losses_.Count(BuildLoss::kCutOff, trace_.complete ? 0 : 1);
  losses_.Count(BuildLoss::kWorkWithoutCall, index_.work_without_call);
  losses_.Count(BuildLoss::kRecordingWithoutCall, index_.recordings_without_call);
  losses_.Count(BuildLoss::kWaitWithoutCall, index_.waits_without_call);
  losses_.Count(BuildLoss::kMemoryWithoutCall, index_.memory_without_call);
  losses_.Count(BuildLoss::kQueueWaitWithoutCall, index_.queue_waits_without_call);
  losses_.Count(BuildLoss::kGraphLaunchWithoutCall, index_.graph_launches_without_call);
  losses_.Count(BuildLoss::kOperationWithoutCall, index_.operations_without_call);
  losses_.Count(BuildLoss::kConcurrentIssuers, index_.concurrent_calls);
  losses_.Count(BuildLoss::kInsideNccl, index_.calls_inside_nccl);
}

void Translation::Item(const HostItem& item) {
  switch (item.kind) {
    case HostItem::Kind::kRange:
      Range(trace_.ranges[item.index]);
      break;
    case HostItem::Kind::kReserve:
      memory_.Reserve(trace_.reserves[item.index]);
      timeline_.Flush(item.time_ns);
      break;
    case HostItem::Kind::kNccl:
      NcclCall(item.index);
      break;
    case HostItem::Kind::kInstantCall:
    case HostItem::Kind::kCall:
      if (!index_.Issues(trace_.calls[item.index].thread))
        break;
      timeline_.Reach(trace_.calls[item.index].end_ns);
      if (index_.IsInsideNccl(item.index))
        CallInsideNccl(item.index);
      else
        Call(item.index);
      break;
  }
}

// On a real GPU a rank continues to the end of its last call. On the virtual
// one it continues as long as the emulator heard of it, which is not always
// that long.
int64_t Translation::EndOfHost() const {
  return trace_.session.virtual_gpu ? trace_.session.host_end_ns
                                    : timeline_.latest_ns();
}

void Translation::Range(const TracedRange& range) {
  lanes_.Note(Op{.kind = range.begin ? OpKind::kRangeBegin : OpKind::kRangeEnd,
                 .a = work_.NameOf(range.name)});
  timeline_.Flush(range.time_ns);
}

// The host arrives where the call starts and continues where it ends; how long
// that takes beyond the members' meeting is the network model's.
void Translation::NcclCall(uint32_t index) {
  const TracedNcclCall& call = trace_.nccl_calls[index];
  const MemoryChanges::Rows reserves = index_.nccl_reserves.Of(index);
  memory_.ChangeContext(reserves);
  const int64_t start = timeline_.NotBeforeLast(call.start_ns);
  if (call.kind == TracedNcclCall::Kind::kRelease)
    lanes_.Note(Op{.kind = OpKind::kReleaseCommunicator,
                   .a = call.communicator,
                   .b = static_cast<uint32_t>(call.release)});
  else
    lanes_.Note(Op{.kind = OpKind::kCreateCommunicator,
                   .a = call.communicator,
                   .b = program_->AddCreation(call.creation)});
  timeline_.SetLastAt(start);
  timeline_.SetLastUntil(call.end_ns);
  memory_.ReserveOthers(reserves);
  timeline_.Reach(call.end_ns);
  timeline_.Flush(call.end_ns);
}

void Translation::Call(uint32_t index) {
  const TracedCall& call = trace_.calls[index];
  const bool captured = Captures(call);
  CountWhatIsMissing(index, captured);
  const MemoryChanges::Rows reserves = index_.reserves.Of(index);
  memory_.TakeContext(reserves);
  streams_.Create(index);
  memory_.OrderPools(index);
  events_.StreamWaits(index);
  if (const TracedGraphLaunch* launch = graphs_.Known(index, captured)) {
    graphs_.Launch(index, *launch);
  } else {
    work_.OfCall(index);
    events_.RecordAll(index);
    waits_.OfCall(index);
  }
  memory_.ReserveOthers(reserves);
  memory_.OfCall(index);
  streams_.Destroy(index);
  graphs_.End(index);
  memory_.GiveBackContext(reserves);
  events_.Release(index);
  timeline_.Flush(call.end_ns);
}

void Translation::CallInsideNccl(uint32_t index) {
  memory_.OfCallInsideNccl(index);
  timeline_.Flush(trace_.calls[index].end_ns);
}

bool Translation::Captures(const TracedCall& call) {
  const std::string& function = trace_.names[call.function];
  if (IsCapture(function, /*begins=*/true) && call.result == 0)
    capturing_.insert(call.thread);
  if (IsCapture(function, /*begins=*/false))
    capturing_.erase(call.thread);
  return capturing_.contains(call.thread);
}

void Translation::CountWhatIsMissing(uint32_t index, bool captured) {
  const TracedCall& call = trace_.calls[index];
  const std::string& function = trace_.names[call.function];
  const bool has_work =
      !index_.work.Of(index).empty() || !index_.operations.Of(index).empty();
  if (IsKernelLaunch(function) && call.result == 0 && !has_work && !captured)
    losses_.Count(BuildLoss::kLaunchWithoutWork);
  if (IsHostFunctionLaunch(function) && !has_work && !captured)
    losses_.Count(BuildLoss::kHostFunction);
  if (IsMemoryOperation(function))
    losses_.Count(BuildLoss::kMemoryOperation);
  if (IsGraphLaunch(function) && !captured && graphs_.Known(index, captured) == nullptr)
    losses_.Count(BuildLoss::kGraphLaunch);
  if (IsQuery(function) && index_.syncs.Of(index).empty())
    losses_.Count(BuildLoss::kQueryWithoutTarget);
}

}  // namespace vrank::graph
