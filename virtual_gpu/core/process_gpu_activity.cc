// What the virtual GPU notes for a profiler (activity.h).

#include "virtual_gpu/core/nccl_kernel_name.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {
namespace {

// As in the driver: each device has its primary context and no other.
void* HandleOf(uint32_t context) {
  return reinterpret_cast<void*>(uintptr_t{context});
}

ActivityStream::Kind KindOf(const Stream& stream) {
  return stream.legacy              ? ActivityStream::Kind::kLegacyDefault
         : stream.handle == nullptr ? ActivityStream::Kind::kPerThreadDefault
         : stream.blocking          ? ActivityStream::Kind::kBlocking
                                    : ActivityStream::Kind::kNonBlocking;
}

}  // namespace

void ProcessGpu::Introduce() {
  Lock lock(mutex_);
  if (!claimed_)
    return;
  for (int device = 0; device < DeviceCount(); ++device) {
    if (!context(device).active)
      continue;
    activity_.TellContextNow(ContextOf(device), HandleOf(ContextOf(device)), true);
    for (Stream* stream : lanes_.OfDevice(device))
      if (!stream->internal)
        NoteStream(stream, false);
  }
}

void ProcessGpu::NoteWork(const Stream& stream, ActivityWork work) {
  work.correlation = activity_.Correlation();
  work.device = static_cast<uint32_t>(stream.device);
  work.context = ContextOf(stream.device);
  work.stream = NumberOf(stream);
  work.graph = graphs_.launched_exec();
  work.graph_node = graphs_.launched_node();
  activity_.Note(work, activity_.LastRecord());
}

void ProcessGpu::NoteCopy(const Stream& stream, const protocol::Copy& copy) {
  ActivityWork work;
  work.kind = ActivityWorkKind::kCopy;
  work.copy_kind = copy.copy_kind;
  work.pinned = copy.pinned != 0;
  work.bytes = copy.bytes;
  NoteWork(stream, work);
}

void ProcessGpu::NoteEventRecord(const Stream& stream, uint32_t event,
                                 uint64_t recording) {
  ActivityEventRecord record;
  record.correlation = activity_.Correlation();
  record.context = ContextOf(stream.device);
  record.stream = NumberOf(stream);
  record.event = event;
  record.event_sync_id = recording;
  activity_.Note(record, activity_.LastRecord());
}

void ProcessGpu::NoteSync(ActivitySync sync, const PendingWait* wait) {
  sync.correlation = activity_.Correlation();
  if (wait == nullptr)
    activity_.Note(sync);
  else
    activity_.Note(sync, wait->first_record, wait->last_record);
}

void ProcessGpu::NoteQuestion(const ActivitySync& sync) {
  PendingWait asked;
  asked.first_record = asked.last_record = activity_.LastRecord();
  NoteSync(sync, &asked);
}

void ProcessGpu::NoteStream(Stream* stream, bool destroyed) {
  stream->noted = true;
  ActivityStream row;
  row.context = ContextOf(stream->device);
  row.stream = NumberOf(*stream);
  row.kind = KindOf(*stream);
  row.priority = stream->priority;
  row.destroyed = destroyed;
  row.correlation = activity_.Correlation();
  activity_.TellStreamNow(row, stream->handle);
  activity_.Note(row);
}

void ProcessGpu::NoteMemory(ActivityMemory memory, int64_t delta) {
  memory.correlation = activity_.Correlation();
  memory.context = ContextOf(static_cast<int>(memory.device));
  memory.device_delta_bytes = delta;
  activity_.Note(memory);
}

void ProcessGpu::NoteContext(int device, int64_t delta_bytes) {
  const uint32_t number = ContextOf(device);
  activity_.TellContextNow(number, HandleOf(number), delta_bytes > 0);
  account_delta_ = delta_bytes;
  NoteChange(device, protocol::MemoryOwner::kContext);
}

void ProcessGpu::NoteHostMemory(bool release, uint64_t address, uint64_t bytes) {
  ActivityMemory memory;
  memory.release = release;
  memory.where = ActivityMemory::Where::kPinnedHost;
  memory.device = static_cast<uint32_t>(CurrentDevice() < 0 ? 0 : CurrentDevice());
  memory.address = address;
  memory.bytes = bytes;
  NoteMemory(memory, 0);
}

void ProcessGpu::NoteLibraryWork(const Stream& stream, const protocol::Record& record) {
  if (record.kind == protocol::RecordKind::kCopy) {
    NoteCopy(stream, reinterpret_cast<const protocol::Copy&>(record));
    return;
  }
  ActivityWork work;
  work.kind = ActivityWorkKind::kCollective;
  work.name =
      record.kind == protocol::RecordKind::kCollective
          ? NcclKernelName(reinterpret_cast<const protocol::Collective&>(record))
          : NcclTransferKernelName();
  NoteWork(stream, work);
}

void ProcessGpu::JoinAsCalls(Stream* waiting, Stream* before) {
  const uint32_t event = ++events_made_;
  const uint64_t recording = ++recordings_;
  lanes_.Before(waiting);
  {
    const CallScope call(activity_.TapOutsideCalls(), true, "cuEventRecord");
    lanes_.RecordHidden(before, protocol::kTimed);
    NoteEventRecord(*before, event, recording);
  }
  const CallScope call(activity_.TapOutsideCalls(), true, "cuStreamWaitEvent");
  NoteSync({.kind = ActivitySyncKind::kStreamWait,
            .context = ContextOf(waiting->device),
            .stream = NumberOf(*waiting),
            .event = event,
            .event_sync_id = recording});
  lanes_.WaitForHidden(waiting, before);
  lanes_.After(waiting);
}

void ProcessGpu::NoteChange(int device, protocol::MemoryOwner owner) {
  if (account_delta_ == 0)
    return;
  ActivityMemory memory;
  memory.release = account_delta_ < 0;
  memory.owner = owner;
  memory.device = static_cast<uint32_t>(device);
  memory.bytes =
      static_cast<uint64_t>(account_delta_ < 0 ? -account_delta_ : account_delta_);
  NoteMemory(memory, account_delta_);
}

}  // namespace vrank::gpu
