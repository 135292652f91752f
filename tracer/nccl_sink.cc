// One record per call of the stand-in.

#include "tracer/nccl_sink.h"

#include <unistd.h>

#include <cstring>

namespace vrank::tracer {
namespace {

// Of the operation and of the host call that this thread is in.
thread_local bool pushed = false;
thread_local int64_t host_call_start_ns = 0;

uint32_t ThisThread() {
  thread_local const auto id = static_cast<uint32_t>(gettid());
  return id;
}

}  // namespace

uint64_t NcclSink::BeginOperation(bool captured) {
  if (!tracer_->on())
    return 0;
  const uint64_t id = ++operations_;
  if (captured)
    GraphWatch::SetOperation(id);
  else
    pushed = tracer_->cupti().PushExternalId(id);
  return id;
}

void NcclSink::BeginCollective(const protocol::Collective& call, bool captured) {
  trace::Collective record{};
  record.operation_id = BeginOperation(captured);
  if (record.operation_id == 0)
    return;
  record.record.kind = trace::Kind::kCollective;
  record.record.flags = captured ? trace::kCaptured : 0;
  record.thread = ThisThread();
  record.communicator = call.communicator;
  record.stream = call.lane;
  record.count = call.count;
  record.root = call.root;
  record.operation = call.operation;
  record.type = call.type;
  record.reduction = call.reduction;
  tracer_->writer().Append(trace::Source::kProgram, record);
}

void NcclSink::BeginTransfers(const protocol::PointToPoint& group,
                              const protocol::Transfer* transfers, bool captured) {
  trace::Transfers record{};
  record.operation_id = BeginOperation(captured);
  if (record.operation_id == 0)
    return;
  record.record.kind = trace::Kind::kTransfers;
  record.record.flags = captured ? trace::kCaptured : 0;
  record.thread = ThisThread();
  record.communicator = group.communicator;
  record.stream = group.lane;
  record.count = group.count;
  tracer_->writer().Append(trace::Source::kProgram, record, transfers,
                           group.count * sizeof *transfers);
}

void NcclSink::EndOperation() {
  GraphWatch::SetOperation(0);
  if (pushed)
    tracer_->cupti().PopExternalId();
  pushed = false;
}

void NcclSink::BeginHostCall() {
  host_call_start_ns = tracer_->on() ? tracer_->cupti().Now() : 0;
}

void NcclSink::AppendCreation(trace::Creation* creation, const char* name) {
  creation->record.kind = trace::Kind::kCreation;
  creation->thread = ThisThread();
  creation->name = tracer_->writer().Name(name == nullptr ? "" : name);
  creation->start_ns = host_call_start_ns;
  creation->end_ns = tracer_->cupti().Now();
  tracer_->writer().Append(trace::Source::kProgram, *creation);
}

void NcclSink::EndInit(const protocol::CommInit& call, const char* name) {
  if (!tracer_->on())
    return;
  trace::Creation creation{};
  creation.communicator = call.communicator;
  creation.ranks = creation.told_size = call.ranks;
  creation.rank = creation.told_index = call.rank;
  std::memcpy(creation.unique_id, call.unique_id, sizeof creation.unique_id);
  AppendCreation(&creation, name);
}

void NcclSink::EndSplit(const protocol::CommSplit& call, const char* name,
                        uint32_t size, uint32_t index) {
  if (!tracer_->on())
    return;
  trace::Creation creation{};
  creation.communicator = call.communicator;
  creation.parent = call.parent;
  creation.color = call.color;
  creation.key = call.key;
  creation.told_size = size;
  creation.told_index = index;
  AppendCreation(&creation, name);
}

void NcclSink::EndRelease(const protocol::CommRelease& call) {
  if (!tracer_->on())
    return;
  trace::Release release{};
  release.record.kind = trace::Kind::kRelease;
  release.communicator = call.communicator;
  release.thread = ThisThread();
  release.release = call.release;
  release.start_ns = host_call_start_ns;
  release.end_ns = tracer_->cupti().Now();
  tracer_->writer().Append(trace::Source::kProgram, release);
}

void NcclSink::Reserve(uint32_t communicator, int64_t delta_bytes) {
  if (!tracer_->on())
    return;
  trace::Reserve reserve{};
  reserve.record.kind = trace::Kind::kReserve;
  reserve.owner = protocol::MemoryOwner::kCommunicator;
  reserve.communicator = communicator;
  reserve.delta_bytes = delta_bytes;
  reserve.time_ns = tracer_->cupti().Now();
  tracer_->writer().Append(trace::Source::kProgram, reserve);
}

}  // namespace vrank::tracer
