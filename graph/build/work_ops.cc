// See work_ops.h.

#include "graph/build/work_ops.h"

#include <algorithm>
#include <span>
#include <string>

#include "graph/build/device_gaps.h"
#include "graph/build/work_names.h"

namespace vrank::graph {

WorkOps::WorkOps(const RankTrace& trace, const TraceIndex& index,
                 const KernelTable* kernel_times, Program& program, StreamLanes& lanes,
                 TracedStreams& streams, HostTimeline& timeline, LossCounts& losses)
    : trace_(trace),
      index_(index),
      kernel_times_(kernel_times),
      program_(program),
      lanes_(lanes),
      streams_(streams),
      timeline_(timeline),
      losses_(losses),
      device_gaps_(DeviceGaps(trace)),
      copy_name_(program.AddName("memcpy")),
      memset_name_(program.AddName("memset")) {
  for (const std::string& name : trace.names)
    names_.push_back(program.AddName(name));
}

void WorkOps::OfCall(uint32_t call) {
  if (!index_.operations.Of(call).empty())
    return Operations(call);
  bool is_launch = true;
  for (const RowsByCall::Row& row : index_.work.Of(call)) {
    OneWork(trace_.work[row.row], call, is_launch);
    is_launch = false;  // one call, one place in the launch queue
  }
}

void WorkOps::OneWork(const TracedWork& row, uint32_t call, bool is_launch) {
  // A graph's own streams have no row, and no part in the legacy stream's rules.
  if (IsGraphLaunch(trace_.names[trace_.calls[call].function]) &&
      !lanes_.Has(row.context, row.stream))
    lanes_.Create(row.context, row.stream, TracedStream::Kind::kNonBlocking);
  StreamLanes::Stream* stream = streams_.StreamOf(row);
  const Op op = OpOf(row, stream, is_launch);
  lanes_.Before(stream);
  lanes_.Note(op);
  SetQueueWait(call);
  lanes_.After(stream);
}

Op WorkOps::OpOf(const TracedWork& row, StreamLanes::Stream* stream, bool is_launch) {
  if (row.end_ns < row.start_ns)
    losses_.Count(BuildLoss::kWorkWithoutEnd);
  Op op{.kind = row.work == WorkClass::kHostFunc ? OpKind::kHostFunc : OpKind::kWork,
        .work = row.work,
        .launch = is_launch,
        .lane = stream->lane,
        .value = std::max<int64_t>(0, row.end_ns - row.start_ns) +
                 device_gaps_[static_cast<size_t>(&row - trace_.work.data())],
        .a = NameOf(row)};
  if (row.work == WorkClass::kKernel &&
      IsMatrixMultiply(trace_.names[row.name], trace_.session.virtual_gpu))
    op.work = WorkClass::kGemm;
  SetSource(op.a, &op);
  if (const auto ns = RecordedTime(row); ns.has_value()) {
    op.value = *ns;
    op.source = Source::kRecorded;
    op.b = 0;
  }
  stream->end_ns = std::max(stream->end_ns, row.end_ns);
  return op;
}

uint32_t WorkOps::NameOf(const TracedWork& row) const {
  switch (row.work) {
    case WorkClass::kCopy:
      return copy_name_;
    case WorkClass::kMemset:
      return memset_name_;
    case WorkClass::kKernel:
      return names_[row.name];
    default:
      return 0;
  }
}

// How the time of work with that name came about.
void WorkOps::SetSource(uint32_t name, Op* op) const {
  if (!trace_.session.virtual_gpu) {
    op->source = Source::kRecorded;
    return;
  }
  const auto source = trace_.session.work_sources.find(program_.details().names[name]);
  if (source == trace_.session.work_sources.end())
    return;
  op->source = source->second.source;
  if (op->kind == OpKind::kWork && op->source == Source::kAssumed)
    op->b = source->second.unseen_ns;
}

std::optional<int64_t> WorkOps::RecordedTime(const TracedWork& row) const {
  if (kernel_times_ == nullptr || row.work != WorkClass::kKernel)
    return std::nullopt;
  return kernel_times_->Find(trace_.names[row.name], row.grid, row.block,
                             row.shared_bytes);
}

// Fused operations are one launch, and one kernel on a real GPU.
void WorkOps::Operations(uint32_t call) {
  const std::span<const RowsByCall::Row> work = index_.work.Of(call);
  bool is_launch = true;
  for (const RowsByCall::Row& operation : index_.operations.Of(call)) {
    const TracedOperation& row = trace_.operations[operation.row];
    const TracedWork* kernel = work.empty() ? nullptr : &trace_.work[work.front().row];
    if (kernel == nullptr && is_launch)
      losses_.Count(BuildLoss::kLaunchWithoutWork);
    StreamLanes::Stream* stream =
        kernel != nullptr ? streams_.StreamOf(*kernel)
                          : streams_.Find(streams_.DefaultContext(), row.stream);
    Operation(row, stream, kernel, is_launch);
    if (is_launch)
      SetQueueWait(call);
    is_launch = false;
  }
}

void WorkOps::Operation(const TracedOperation& row, StreamLanes::Stream* stream,
                        const TracedWork* kernel, bool is_launch) {
  Op op{.kind = row.is_collective ? OpKind::kCollective : OpKind::kTransfers,
        .launch = is_launch,
        .lane = stream->lane,
        .a = row.communicator};
  op.b = row.is_collective ? program_.AddCollective(row.call)
                           : program_.AddTransfers(row.transfers);
  lanes_.Before(stream);
  lanes_.Note(op);
  lanes_.After(stream);
  if (kernel != nullptr)
    stream->end_ns = std::max(stream->end_ns, kernel->end_ns);
}

void WorkOps::SetQueueWait(uint32_t call) {
  for (const RowsByCall::Row& row : index_.queue_full.Of(call)) {
    timeline_.SetLastAt(trace_.overheads[row.row].start_ns);
    timeline_.SetLastUntil(trace_.overheads[row.row].end_ns);
  }
}

}  // namespace vrank::graph
