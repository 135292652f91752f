#include "virtual_gpu/core/activity_notes.h"

#include "virtual_gpu/core/nccl_kernel_name.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {
namespace {

ActivityStream::Kind KindOf(const Stream& stream) {
  return stream.legacy              ? ActivityStream::Kind::kLegacyDefault
         : stream.handle == nullptr ? ActivityStream::Kind::kPerThreadDefault
         : stream.blocking          ? ActivityStream::Kind::kBlocking
                                    : ActivityStream::Kind::kNonBlocking;
}

}  // namespace

void ActivityNotes::Work(const Stream& stream, ActivityWork work) {
  work.correlation = recorder_.Correlation();
  work.device = static_cast<uint32_t>(stream.device);
  work.context = ContextOf(stream.device);
  work.stream = NumberOf(stream);
  work.graph = graph_exec_;
  work.graph_node = graph_node_;
  recorder_.Note(work, recorder_.LastRecord());
}

void ActivityNotes::Copy(const Stream& stream, const protocol::Copy& copy) {
  ActivityWork work;
  work.kind = ActivityWorkKind::kCopy;
  work.copy_kind = copy.copy_kind;
  work.pinned = copy.pinned != 0;
  work.bytes = copy.bytes;
  Work(stream, work);
}

void ActivityNotes::LibraryWork(const Stream& stream, const protocol::Record& record) {
  if (record.kind == protocol::RecordKind::kCopy) {
    Copy(stream, reinterpret_cast<const protocol::Copy&>(record));
    return;
  }
  ActivityWork work;
  work.kind = ActivityWorkKind::kCollective;
  work.name =
      record.kind == protocol::RecordKind::kCollective
          ? NcclKernelName(reinterpret_cast<const protocol::Collective&>(record))
          : NcclTransferKernelName();
  Work(stream, work);
}

void ActivityNotes::EventRecord(const Stream& stream, uint32_t event,
                                uint64_t recording) {
  ActivityEventRecord record;
  record.correlation = recorder_.Correlation();
  record.context = ContextOf(stream.device);
  record.stream = NumberOf(stream);
  record.event = event;
  record.event_sync_id = recording;
  recorder_.Note(record, recorder_.LastRecord());
}

void ActivityNotes::Sync(ActivitySync sync, RecordRange records) {
  sync.correlation = recorder_.Correlation();
  recorder_.Note(sync, records.first, records.last);
}

void ActivityNotes::Question(const ActivitySync& sync) {
  const uint64_t record = recorder_.LastRecord();
  Sync(sync, {record, record});
}

void ActivityNotes::StreamChange(Stream* stream, bool destroyed) {
  stream->noted = true;
  ActivityStream row;
  row.context = ContextOf(stream->device);
  row.stream = NumberOf(*stream);
  row.kind = KindOf(*stream);
  row.priority = stream->priority;
  row.destroyed = destroyed;
  row.correlation = recorder_.Correlation();
  recorder_.TellStreamNow(row, stream->handle);
  recorder_.Note(row);
}

void ActivityNotes::Memory(ActivityMemory memory, int64_t delta) {
  memory.correlation = recorder_.Correlation();
  memory.context = ContextOf(static_cast<int>(memory.device));
  memory.device_delta_bytes = delta;
  recorder_.Note(memory);
}

void ActivityNotes::HiddenMemory(int device, protocol::MemoryOwner owner,
                                 int64_t delta) {
  if (delta == 0)
    return;
  ActivityMemory memory;
  memory.release = delta < 0;
  memory.owner = owner;
  memory.device = static_cast<uint32_t>(device);
  memory.bytes = static_cast<uint64_t>(delta < 0 ? -delta : delta);
  Memory(memory, delta);
}

void ActivityNotes::HostMemory(bool release, uint64_t address, uint64_t bytes) {
  const int device = ThisThread().device;
  ActivityMemory memory;
  memory.release = release;
  memory.where = ActivityMemory::Where::kPinnedHost;
  memory.device = static_cast<uint32_t>(device < 0 ? 0 : device);
  memory.address = address;
  memory.bytes = bytes;
  Memory(memory, 0);
}

void ActivityNotes::Context(int device, int64_t delta) {
  recorder_.TellContextNow(ContextOf(device), ContextHandle(device), delta > 0);
  HiddenMemory(device, protocol::MemoryOwner::kContext, delta);
}

ActivityMemory ActivityNotes::MemoryOf(const Allocation& allocation, int device) {
  ActivityMemory memory;
  memory.owner = allocation.owner;
  memory.device = static_cast<uint32_t>(device);
  memory.is_async = allocation.pool != nullptr;
  memory.address = allocation.base;
  memory.bytes = allocation.bytes;
  return memory;
}

}  // namespace vrank::gpu
