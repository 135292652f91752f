// Records of CUDA 13: the structs that cupti_activity.h 13.0 marks as current.
//
// Later 13.x releases append fields, which are not read here.

#include <cstring>
#include <new>
#include <string>

#include "tracer/cupti/decoder.h"

namespace vrank::tracer {
namespace {

static_assert(CudaMajor(CUPTI_API_VERSION) == 13);

using trace::Kind;

int64_t Time(uint64_t ns) {
  return static_cast<int64_t>(ns);
}

class Decoder13 final : public Decoder {
 public:
  Decoder13(const CuptiLibrary* cupti, TraceWriter* writer)
      : functions_(cupti, writer), writer_(writer) {}

  bool Decode(const CUpti_Activity& record) override;

 private:
  template <typename T>
  static const T& As(const CUpti_Activity& record) {
    return reinterpret_cast<const T&>(record);
  }
  template <typename T>
  void Append(const T& record) {
    writer_->Append(trace::Source::kCupti, record);
  }

  // The part that copies and memsets have in common.
  template <typename T>
  trace::Work WorkOf(const T& from, trace::WorkKind kind) {
    trace::Work work{};
    work.record.kind = Kind::kWork;
    work.work = kind;
    work.correlation = from.correlationId;
    work.device = from.deviceId;
    work.context = from.contextId;
    work.stream = from.streamId;
    work.graph_node = from.graphNodeId;
    work.start_ns = Time(from.start);
    work.end_ns = Time(from.end);
    return work;
  }

  void Kernel(const CUpti_ActivityKernel10& from);
  template <typename T>
  void Copy(const T& from);
  void Memset(const CUpti_ActivityMemset4& from);
  void Call(const CUpti_ActivityAPI& from, bool is_driver);
  void Sync(const CUpti_ActivitySynchronization2& from);
  void EventRecord(const CUpti_ActivityCudaEvent2& from);
  void Stream(const CUpti_ActivityStream& from);
  void Context(const CUpti_ActivityContext3& from);
  void Memory(const CUpti_ActivityMemory4& from);
  void Pool(const CUpti_ActivityMemoryPool3& from);
  void Marker(const CUpti_ActivityMarker2& from);
  void Overhead(const CUpti_ActivityOverhead3& from);
  void ExternalId(const CUpti_ActivityExternalCorrelation& from);

  FunctionNames functions_;
  TraceWriter* const writer_;
};

bool Decoder13::Decode(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      Kernel(As<CUpti_ActivityKernel10>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      Copy(As<CUpti_ActivityMemcpy6>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      Copy(As<CUpti_ActivityMemcpyPtoP4>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      Memset(As<CUpti_ActivityMemset4>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      Call(As<CUpti_ActivityAPI>(record), false);
      return true;
    case CUPTI_ACTIVITY_KIND_DRIVER:
      Call(As<CUpti_ActivityAPI>(record), true);
      return true;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      Sync(As<CUpti_ActivitySynchronization2>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      EventRecord(As<CUpti_ActivityCudaEvent2>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_STREAM:
      Stream(As<CUpti_ActivityStream>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      Context(As<CUpti_ActivityContext3>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      Memory(As<CUpti_ActivityMemory4>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      Pool(As<CUpti_ActivityMemoryPool3>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_MARKER:
      Marker(As<CUpti_ActivityMarker2>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      Overhead(As<CUpti_ActivityOverhead3>(record));
      return true;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      ExternalId(As<CUpti_ActivityExternalCorrelation>(record));
      return true;
    default:
      return false;
  }
}

void Decoder13::Kernel(const CUpti_ActivityKernel10& from) {
  trace::Work work = WorkOf(from, trace::WorkKind::kKernel);
  work.name = from.name == nullptr ? 0 : writer_->Name(from.name);
  const int32_t sizes[6] = {from.gridX,  from.gridY,  from.gridZ,
                            from.blockX, from.blockY, from.blockZ};
  for (int i = 0; i < 3; ++i) {
    work.grid[i] = static_cast<uint32_t>(sizes[i]);
    work.block[i] = static_cast<uint32_t>(sizes[3 + i]);
  }
  work.shared_bytes =
      static_cast<uint32_t>(from.staticSharedMemory + from.dynamicSharedMemory);
  work.registers = from.registersPerThread;
  Append(work);
}

template <typename T>
void Decoder13::Copy(const T& from) {
  trace::Work work = WorkOf(from, trace::WorkKind::kCopy);
  work.copy_kind = from.copyKind;
  work.bytes = from.bytes;
  Append(work);
}

void Decoder13::Memset(const CUpti_ActivityMemset4& from) {
  trace::Work work = WorkOf(from, trace::WorkKind::kMemset);
  work.bytes = from.bytes;
  Append(work);
}

void Decoder13::Call(const CUpti_ActivityAPI& from, bool is_driver) {
  trace::Call call{};
  call.record.kind = Kind::kCall;
  call.record.flags = is_driver ? trace::kDriverCall : 0;
  call.function = functions_.Of(
      is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, from.cbid);
  call.correlation = from.correlationId;
  call.thread = from.threadId;
  call.result = static_cast<int32_t>(from.returnValue);
  call.start_ns = Time(from.start);
  call.end_ns = Time(from.end);
  Append(call);
}

void Decoder13::Sync(const CUpti_ActivitySynchronization2& from) {
  trace::Sync sync{};
  sync.record.kind = Kind::kSync;
  sync.sync = static_cast<uint32_t>(from.type);
  sync.correlation = from.correlationId;
  sync.context = from.contextId;
  // "No stream" and "no event" are all ones in CUPTI.
  sync.stream =
      from.streamId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : from.streamId;
  sync.event =
      from.cudaEventId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : from.cudaEventId;
  sync.event_sync_id = from.cudaEventSyncId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ||
                               from.cudaEventSyncId == ~uint64_t{0}
                           ? 0
                           : from.cudaEventSyncId;
  sync.start_ns = Time(from.start);
  sync.end_ns = Time(from.end);
  Append(sync);
}

void Decoder13::EventRecord(const CUpti_ActivityCudaEvent2& from) {
  trace::EventRecord record{};
  record.record.kind = Kind::kEventRecord;
  record.correlation = from.correlationId;
  record.context = from.contextId;
  record.stream = from.streamId;
  record.event = from.eventId;
  record.event_sync_id = from.cudaEventSyncId;
  Append(record);
}

void Decoder13::Stream(const CUpti_ActivityStream& from) {
  trace::Stream stream{};
  stream.record.kind = Kind::kStream;
  stream.context = from.contextId;
  stream.stream = from.streamId;
  stream.stream_kind = from.flag == CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL
                           ? trace::StreamKind::kLegacyDefault
                       : from.flag == CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
                           ? trace::StreamKind::kNonBlocking
                           : trace::StreamKind::kBlocking;
  stream.priority = static_cast<int32_t>(from.priority);
  stream.correlation = from.correlationId;
  Append(stream);
}

// Every context has a legacy default stream; no call makes it.
void Decoder13::Context(const CUpti_ActivityContext3& from) {
  trace::Stream stream{};
  stream.record.kind = Kind::kStream;
  stream.context = from.contextId;
  stream.stream = from.nullStreamId;
  stream.stream_kind = trace::StreamKind::kLegacyDefault;
  Append(stream);
}

void Decoder13::Memory(const CUpti_ActivityMemory4& from) {
  // NCCL's memory is told by the stand-in for NCCL (nccl_sink.h).
  if (from.source != nullptr && strcmp(from.source, "libnccl.so.2") == 0)
    return;
  trace::Memory memory{};
  memory.record.kind = Kind::kMemory;
  if (from.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE)
    memory.record.flags |= trace::kReleased;
  if (from.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED ||
      from.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)
    memory.record.flags |= trace::kHostMemory;
  if (from.isAsync != 0)
    memory.record.flags |= trace::kAsync;
  memory.correlation = from.correlationId;
  memory.stream = from.streamId;
  memory.address = from.address;
  memory.bytes = from.bytes;
  memory.time_ns = Time(from.timestamp);
  Append(memory);
  // How large the pool is after the operation: no record of its own says that it grew.
  const auto& config = from.memoryPoolConfig;
  if (from.isAsync == 0 ||
      config.memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL)
    return;
  trace::Pool pool{};
  pool.record.kind = Kind::kPool;
  pool.correlation = from.correlationId;
  pool.address = config.address;
  pool.bytes = config.pool.size;
  pool.time_ns = Time(from.timestamp);
  Append(pool);
}

void Decoder13::Pool(const CUpti_ActivityMemoryPool3& from) {
  trace::Pool pool{};
  pool.record.kind = Kind::kPool;
  pool.correlation = from.correlationId;
  pool.operation = static_cast<uint32_t>(from.memoryPoolOperationType);
  pool.address = from.address;
  pool.bytes = from.memoryPoolOperationType ==
                       CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED
                   ? 0
                   : from.size;
  pool.time_ns = Time(from.timestamp);
  Append(pool);
}

void Decoder13::Marker(const CUpti_ActivityMarker2& from) {
  constexpr uint32_t kEnds = CUPTI_ACTIVITY_FLAG_MARKER_END;
  constexpr uint32_t kInstant = CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS;
  trace::Range range{};
  range.record.kind = Kind::kRange;
  range.thread =
      from.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? from.objectId.pt.threadId : 0;
  range.id = from.id;
  if (from.name != nullptr) {
    const bool domain = from.domain != nullptr && from.domain[0] != '\0' &&
                        std::string_view(from.domain) != "NULL";
    range.name = writer_->Name(domain ? std::string(from.domain) + "::" + from.name
                                      : std::string(from.name));
  }
  range.time_ns = Time(from.timestamp);
  if ((from.flags & kEnds) != 0)
    range.record.flags = trace::kRangeEnds;
  Append(range);
  if ((from.flags & kInstant) != 0) {  // a mark is an empty range
    range.record.flags = trace::kRangeEnds;
    Append(range);
  }
}

void Decoder13::Overhead(const CUpti_ActivityOverhead3& from) {
  trace::Overhead overhead{};
  overhead.record.kind = Kind::kOverhead;
  if (from.overheadKind == CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL)
    overhead.record.flags = trace::kLaunchQueueFull;
  overhead.correlation = from.correlationId;
  overhead.thread =
      from.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? from.objectId.pt.threadId : 0;
  overhead.overhead = static_cast<uint32_t>(from.overheadKind);
  overhead.start_ns = Time(from.start);
  overhead.end_ns = Time(from.end);
  Append(overhead);
}

void Decoder13::ExternalId(const CUpti_ActivityExternalCorrelation& from) {
  if (from.externalKind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
    return;  // another user's
  trace::ExternalId id{};
  id.record.kind = Kind::kExternalId;
  id.id = from.externalId;
  id.correlation = from.correlationId;
  Append(id);
}

}  // namespace

Decoder* MakeDecoder13(const CuptiLibrary* cupti, TraceWriter* writer) {
  return new (std::nothrow) Decoder13(cupti, writer);
}

}  // namespace vrank::tracer
