// What one CUDA call means: its edges, work, waits and memory, in the order in which
// the call does them.

#include <algorithm>
#include <map>
#include <string_view>

#include "graph/build/translation.h"
#include "graph/build/work_names.h"

namespace vrank::graph {
void Translation::Call(uint32_t index) {
  const TracedCall& call = trace_.calls[index];
  CountWhatIsMissing(index);
  const Rows reserves = index_.reserves.Of(index);
  auto is_context = [&](const RowsByCall::Row& row) {
    return trace_.reserves[row.row].owner == MemoryOwner::kContext;
  };
  for (const RowsByCall::Row& row : reserves)
    if (is_context(row) && trace_.reserves[row.row].delta_bytes > 0)
      Reserve(trace_.reserves[row.row]);
  MakeStreams(index_.streams.Of(index));
  TakePoolMemory(index);
  for (const RowsByCall::Row& row : index_.syncs.Of(index))
    if (trace_.syncs[row.row].kind == SyncKind::kStreamWait)
      StreamWait(trace_.syncs[row.row]);
  if (const TracedGraphLaunch* launch = KnownLaunch(index)) {
    GraphLaunch(index, *launch);
  } else {
    Work(index);
    for (const RowsByCall::Row& row : index_.event_records.Of(index)) {
      const TracedEventRecord& record = trace_.event_records[row.row];
      RecordEventIn(FindStream(record.context, record.stream), record);
    }
    HostWaits(index);
  }
  for (const RowsByCall::Row& row : reserves)
    if (!is_context(row))
      Reserve(trace_.reserves[row.row]);
  Memory(index);
  DestroyStreams(index_.streams.Of(index));
  EndGraphs(index);
  for (const RowsByCall::Row& row : reserves)
    if (is_context(row) && trace_.reserves[row.row].delta_bytes < 0)
      Reserve(trace_.reserves[row.row]);
  ReleaseEvents(index);
  Flush(call.end_ns);
}

void Translation::CallInsideNccl(uint32_t index) {
  for (const RowsByCall::Row& row : index_.memory.Of(index)) {
    const TracedMemory& memory = trace_.memory[row.row];
    if (memory.device && !memory.is_async)
      MemoryChange(memory.release ? blocks_.GiveBack(memory.address)
                                  : blocks_.Take(memory.address, memory.bytes),
                   MemoryOwner::kCommunicator, memory.time_ns);
  }
  Flush(trace_.calls[index].end_ns);
}

void Translation::CountWhatIsMissing(uint32_t index) {
  const TracedCall& call = trace_.calls[index];
  const std::string& function = FunctionOf(call);
  const bool has_work =
      !index_.work.Of(index).empty() || !index_.operations.Of(index).empty();
  if (IsCapture(function, /*begins=*/true) && call.result == 0)
    capturing_.insert(call.thread);
  if (IsCapture(function, /*begins=*/false))
    capturing_.erase(call.thread);
  const bool captured = capturing_.contains(call.thread);
  if (IsKernelLaunch(function) && call.result == 0 && !has_work && !captured)
    Count(BuildLoss::kLaunchWithoutWork);
  if (IsHostFunctionLaunch(function) && !has_work && !captured)
    Count(BuildLoss::kHostFunction);
  if (IsMemoryOperation(function))
    Count(BuildLoss::kMemoryOperation);
  if (IsGraphLaunch(function) && !captured && KnownLaunch(index) == nullptr)
    Count(BuildLoss::kGraphLaunch);
  if (IsQuery(function) && index_.syncs.Of(index).empty())
    Count(BuildLoss::kQueryWithoutTarget);
}

StreamLanes::Stream* Translation::FindStream(uint32_t context, uint32_t stream) {
  bool made = false;
  StreamLanes::Stream* found = lanes_.Find(context, stream, &made);
  if (made && !found->legacy)
    Count(BuildLoss::kStreamOfUnknownKind);
  return found;
}

void Translation::MakeStreams(Rows rows) {
  for (const RowsByCall::Row& row : rows) {
    const TracedStream& stream = trace_.streams[row.row];
    if (!stream.destroyed)
      lanes_.Create(stream.context, stream.stream, stream.kind);
  }
}

// By lane, as the virtual GPU does where one call destroys them all.
void Translation::DestroyStreams(Rows rows) {
  std::map<uint32_t, const TracedStream*> by_lane;
  for (const RowsByCall::Row& row : rows) {
    const TracedStream& stream = trace_.streams[row.row];
    if (stream.destroyed && lanes_.Has(stream.context, stream.stream))
      by_lane[FindStream(stream.context, stream.stream)->lane] = &stream;
  }
  for (const auto& [lane, stream] : by_lane)
    lanes_.Destroy(stream->context, stream->stream);
}

// What a stream takes from a pool may be what another stream has freed.
void Translation::TakePoolMemory(uint32_t index) {
  for (const RowsByCall::Row& row : index_.memory.Of(index)) {
    const TracedMemory& memory = trace_.memory[row.row];
    if (!memory.device || !memory.is_async)
      continue;
    StreamLanes::Stream* stream = FindStream(DefaultContext(), memory.stream);
    if (!memory.release) {
      async_memory_[memory.address] = memory.bytes;
      lanes_.TakeRange(stream, memory.address, memory.address + memory.bytes);
      continue;
    }
    const auto taken = async_memory_.find(memory.address);
    if (taken == async_memory_.end())
      continue;
    lanes_.FreeRange(stream, memory.address, memory.address + taken->second);
    async_memory_.erase(taken);
  }
}

const Translation::Event* Translation::Recording(const TracedSync& row) {
  const auto event = events_.find({row.context, row.event});
  if (index_.has_sync_ids()) {
    if (row.event_sync_id == 0)
      return nullptr;  // never recorded: nothing to wait for
    if (event == events_.end() || event->second.sync_id != row.event_sync_id) {
      Count(BuildLoss::kWaitWithoutRecording);
      return nullptr;
    }
  }
  return event == events_.end() ? nullptr : &event->second;
}

void Translation::StreamWait(const TracedSync& row) {
  const Event* event = Recording(row);
  if (event == nullptr)
    return;
  StreamLanes::Stream* stream = FindStream(row.context, row.stream);
  lanes_.Before(stream);
  lanes_.Wait(stream, event->token);
  lanes_.After(stream);
}

void Translation::RecordEventIn(StreamLanes::Stream* stream,
                                const TracedEventRecord& row) {
  lanes_.Before(stream);
  Event& event = events_[{row.context, row.event}];
  if (event.token == 0)
    event.token = lanes_.TakeToken();
  event.sync_id = row.event_sync_id;
  lanes_.Record(stream, event.token);
}

void Translation::Work(uint32_t index) {
  if (!index_.operations.Of(index).empty())
    return Operations(index);
  bool is_launch = true;
  for (const RowsByCall::Row& row : index_.work.Of(index)) {
    OneWork(trace_.work[row.row], index, is_launch);
    is_launch = false;  // one call, one place in the launch queue
  }
}

void Translation::OneWork(const TracedWork& row, uint32_t call, bool is_launch) {
  // A graph's own streams have no row, and no part in the legacy stream's rules.
  if (IsGraphLaunch(FunctionOf(trace_.calls[call])) &&
      !lanes_.Has(row.context, row.stream))
    lanes_.Create(row.context, row.stream, TracedStream::Kind::kNonBlocking);
  StreamLanes::Stream* stream = FindStream(row.context, row.stream);
  const Op op = WorkOp(row, stream, is_launch);
  lanes_.Before(stream);
  lanes_.Note(op);
  SetQueueWait(call);
  lanes_.After(stream);
}

std::optional<int64_t> Translation::RecordedTime(const TracedWork& row) const {
  if (kernel_times_ == nullptr || row.work != WorkClass::kKernel)
    return std::nullopt;
  return kernel_times_->Find(trace_.names[row.name], row.grid, row.block,
                             row.shared_bytes);
}

Op Translation::WorkOp(const TracedWork& row, StreamLanes::Stream* stream,
                       bool is_launch) {
  if (row.end_ns < row.start_ns)
    Count(BuildLoss::kWorkWithoutEnd);
  Op op{.kind = row.work == WorkClass::kHostFunc ? OpKind::kHostFunc : OpKind::kWork,
        .work = row.work,
        .launch = is_launch,
        .lane = stream->lane,
        .value = std::max<int64_t>(0, row.end_ns - row.start_ns) +
                 device_gaps_[static_cast<size_t>(&row - trace_.work.data())]};
  std::string_view name;
  if (row.work == WorkClass::kCopy) {
    op.a = copy_name_;
  } else if (row.work == WorkClass::kMemset) {
    op.a = memset_name_;
  } else if (row.work == WorkClass::kKernel) {
    op.a = names_[row.name];
    if (IsMatrixMultiply(trace_.names[row.name], trace_.session.virtual_gpu))
      op.work = WorkClass::kGemm;
  }
  name = program_->details().names[op.a];
  if (trace_.session.virtual_gpu) {
    const auto source = trace_.session.work_sources.find(std::string(name));
    if (source != trace_.session.work_sources.end())
      op.source = source->second.source;
    if (op.kind == OpKind::kWork && op.source == Source::kAssumed)
      op.b = source->second.unseen_ns;
  } else {
    op.source = Source::kRecorded;
  }
  if (const auto ns = RecordedTime(row); ns.has_value()) {
    op.value = *ns;
    op.source = Source::kRecorded;
    op.b = 0;
  }
  stream->end_ns = std::max(stream->end_ns, row.end_ns);
  return op;
}

// Fused operations are one launch, and one kernel on a real GPU.
void Translation::Operations(uint32_t index) {
  const Rows work = index_.work.Of(index);
  bool is_launch = true;
  for (const RowsByCall::Row& operation : index_.operations.Of(index)) {
    const TracedOperation& row = trace_.operations[operation.row];
    const TracedWork* kernel = work.empty() ? nullptr : &trace_.work[work.front().row];
    if (kernel == nullptr && is_launch)
      Count(BuildLoss::kLaunchWithoutWork);
    StreamLanes::Stream* stream = kernel != nullptr
                                      ? FindStream(kernel->context, kernel->stream)
                                      : FindStream(DefaultContext(), row.stream);
    OneOperation(row, stream, kernel, is_launch);
    if (is_launch)
      SetQueueWait(index);
    is_launch = false;
  }
}

void Translation::OneOperation(const TracedOperation& row, StreamLanes::Stream* stream,
                               const TracedWork* kernel, bool is_launch) {
  Op op{.kind = row.is_collective ? OpKind::kCollective : OpKind::kTransfers,
        .launch = is_launch,
        .lane = stream->lane,
        .a = row.communicator};
  op.b = row.is_collective ? program_->AddCollective(row.call)
                           : program_->AddTransfers(row.transfers);
  lanes_.Before(stream);
  lanes_.Note(op);
  lanes_.After(stream);
  if (kernel != nullptr)
    stream->end_ns = std::max(stream->end_ns, kernel->end_ns);
}

// The host stood at a full launch queue before the last launch.
void Translation::SetQueueWait(uint32_t call) {
  for (const RowsByCall::Row& row : index_.queue_full.Of(call)) {
    pending_.back().at = trace_.overheads[row.row].start_ns;
    pending_.back().until = trace_.overheads[row.row].end_ns;
  }
}

uint32_t Translation::DefaultContext() const {
  if (!trace_.work.empty())
    return trace_.work.front().context;
  return trace_.streams.empty() ? 1 : trace_.streams.front().context;
}

}  // namespace vrank::graph
