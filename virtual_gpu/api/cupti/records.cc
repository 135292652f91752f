#include "virtual_gpu/api/cupti/records.h"

#include <cstdlib>
#include <cstring>

#include "virtual_gpu/core/device_attributes.h"

namespace vrank::cupti {
namespace {

using gpu::ActivityWork;
using protocol::CopyKind;

template <typename Record>
Record Blank(CUpti_ActivityKind kind) {
  Record record;
  std::memset(&record, 0, sizeof record);
  record.kind = kind;
  return record;
}

uint64_t Stamp(int64_t time_ns, int64_t shift) {
  return static_cast<uint64_t>(time_ns + shift);
}

// What all records of work on the device have in common.
template <typename Record>
Record WorkRecord(CUpti_ActivityKind kind, const ActivityWork& work, int64_t shift) {
  auto record = Blank<Record>(kind);
  record.start = Stamp(work.start_ns, shift);
  record.end = Stamp(work.end_ns, shift);
  record.deviceId = work.device;
  record.contextId = work.context;
  record.streamId = work.stream;
  record.correlationId = work.correlation;
  record.graphId = work.graph;
  record.graphNodeId = work.graph_node;
  record.channelID = CUPTI_INVALID_CHANNEL_ID;
  record.channelType = CUPTI_CHANNEL_TYPE_INVALID;
  return record;
}

CUpti_ActivitySynchronizationType TypeOf(gpu::ActivitySyncKind kind) {
  switch (kind) {
    case gpu::ActivitySyncKind::kEvent:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
    case gpu::ActivitySyncKind::kStreamWait:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    case gpu::ActivitySyncKind::kStream:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    case gpu::ActivitySyncKind::kContext:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  }
  return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN;
}

CUpti_ActivityStreamFlag FlagOf(gpu::ActivityStream::Kind kind) {
  switch (kind) {
    case gpu::ActivityStream::Kind::kLegacyDefault:
      return CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL;
    case gpu::ActivityStream::Kind::kPerThreadDefault:  // synchronises with the former
    case gpu::ActivityStream::Kind::kBlocking:
      return CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT;
    case gpu::ActivityStream::Kind::kNonBlocking:
      return CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING;
  }
  return CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN;
}

}  // namespace

size_t RecordBytes(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(CUpti_ActivityContext3);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(CUpti_ActivityMemory4);
    default:
      return 0;
  }
}

CUpti_ActivityAPI ApiRecord(const gpu::ActivityCall& call, uint32_t cbid, Caller caller,
                            int64_t shift) {
  auto record = Blank<CUpti_ActivityAPI>(call.is_driver ? CUPTI_ACTIVITY_KIND_DRIVER
                                                        : CUPTI_ACTIVITY_KIND_RUNTIME);
  record.cbid = cbid;
  record.start = Stamp(call.start_ns, shift);
  record.end = Stamp(call.end_ns, shift);
  record.processId = caller.process;
  record.threadId = caller.thread;
  record.correlationId = call.correlation;
  record.returnValue = static_cast<uint32_t>(call.result);
  return record;
}

CUpti_ActivityKernel10 KernelRecord(const ActivityWork& work, CUpti_ActivityKind kind,
                                    int64_t shift) {
  auto record = WorkRecord<CUpti_ActivityKernel10>(kind, work, shift);
  record.completed = record.end;  // no kernel of ours launches another
  record.gridX = static_cast<int32_t>(work.grid[0]);
  record.gridY = static_cast<int32_t>(work.grid[1]);
  record.gridZ = static_cast<int32_t>(work.grid[2]);
  record.blockX = static_cast<int32_t>(work.block[0]);
  record.blockY = static_cast<int32_t>(work.block[1]);
  record.blockZ = static_cast<int32_t>(work.block[2]);
  record.dynamicSharedMemory = static_cast<int32_t>(work.shared_bytes);
  record.gridId = CUPTI_GRID_ID_UNKNOWN;
  record.name = work.name;
  record.queued = CUPTI_TIMESTAMP_UNKNOWN;
  record.submitted = CUPTI_TIMESTAMP_UNKNOWN;
  record.launchType = CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR;
  record.shmemLimitConfig = CUPTI_FUNC_SHMEM_LIMIT_DEFAULT;
  return record;
}

CUpti_ActivityMemcpy6 CopyRecord(const ActivityWork& work, int64_t shift) {
  auto record =
      WorkRecord<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, work, shift);
  const uint8_t host = work.pinned ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED
                                   : CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  auto set = [&record](uint8_t kind, uint8_t from, uint8_t to) {
    record.copyKind = kind;
    record.srcKind = from;
    record.dstKind = to;
  };
  switch (work.copy_kind) {
    case CopyKind::kHostToDevice:
      set(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, host, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
      break;
    case CopyKind::kDeviceToHost:
      set(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, host);
      break;
    case CopyKind::kHostToHost:  // which side is page-locked is not told
      set(CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN,
          CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN);
      break;
    case CopyKind::kDeviceToDevice:
    case CopyKind::kPeer:
      set(CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
          CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
      break;
  }
  record.flags =
      work.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.bytes = work.bytes;
  record.copyCount = 1;
  return record;
}

CUpti_ActivityMemcpyPtoP4 PeerCopyRecord(const ActivityWork& work, int64_t shift) {
  auto record =
      WorkRecord<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, work, shift);
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.srcKind = record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.flags =
      work.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.bytes = work.bytes;
  record.srcContextId = record.dstContextId = CUPTI_INVALID_CONTEXT_ID;
  // CUPTI names no invalid device; this is what its other ids have.
  record.srcDeviceId = record.dstDeviceId = UINT32_MAX;
  return record;
}

CUpti_ActivityMemset4 MemsetRecord(const ActivityWork& work, int64_t shift) {
  auto record =
      WorkRecord<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, work, shift);
  record.value = work.value;
  record.bytes = work.bytes;
  record.flags =
      work.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  return record;
}

CUpti_ActivitySynchronization2 SyncRecord(const gpu::ActivitySync& sync,
                                          int64_t shift) {
  auto record =
      Blank<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  record.type = TypeOf(sync.kind);
  record.start = Stamp(sync.start_ns, shift);
  record.end = Stamp(sync.end_ns, shift);
  record.correlationId = sync.correlation;
  record.contextId = sync.context;
  const bool of_event = sync.kind == gpu::ActivitySyncKind::kEvent ||
                        sync.kind == gpu::ActivitySyncKind::kStreamWait;
  const bool of_stream = sync.kind == gpu::ActivitySyncKind::kStream ||
                         sync.kind == gpu::ActivitySyncKind::kStreamWait;
  record.streamId = of_stream ? sync.stream : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  record.cudaEventId = of_event ? sync.event : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  record.cudaEventSyncId = of_event && sync.event_sync_id != 0
                               ? sync.event_sync_id
                               : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  record.returnValue = CUDA_SUCCESS;  // failed waits are not reported
  return record;
}

CUpti_ActivityCudaEvent2 EventRecord(const gpu::ActivityEventRecord& event,
                                     uint32_t device, bool with_time, int64_t shift) {
  auto record = Blank<CUpti_ActivityCudaEvent2>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  record.correlationId = event.correlation;
  record.contextId = event.context;
  record.streamId = event.stream;
  record.eventId = event.event;
  record.deviceId = device;
  record.deviceTimestamp =
      with_time ? Stamp(event.device_ns, shift) : CUPTI_TIMESTAMP_UNKNOWN;
  record.cudaEventSyncId = event.event_sync_id;
  return record;
}

CUpti_ActivityStream StreamRecord(const gpu::ActivityStream& stream) {
  auto record = Blank<CUpti_ActivityStream>(CUPTI_ACTIVITY_KIND_STREAM);
  record.contextId = stream.context;
  record.streamId = stream.stream;
  record.priority = static_cast<uint32_t>(stream.priority);
  record.flag = FlagOf(stream.kind);
  record.correlationId = stream.correlation;
  return record;
}

CUpti_ActivityMemory4 MemoryRecord(const gpu::ActivityMemory& memory,
                                   const PoolSize& pool, uint32_t process,
                                   int64_t shift) {
  auto record = Blank<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  record.memoryOperationType = memory.release
                                   ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
                                   : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  record.memoryKind = memory.where == gpu::ActivityMemory::Where::kDevice
                          ? CUPTI_ACTIVITY_MEMORY_KIND_DEVICE
                          : CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  record.correlationId = memory.correlation;
  record.address = memory.address;
  record.bytes = memory.bytes;
  record.timestamp = Stamp(memory.time_ns, shift);
  record.processId = process;
  record.deviceId = memory.device;
  record.contextId = memory.context;
  record.streamId = memory.is_async ? memory.stream : CUPTI_INVALID_STREAM_ID;
  record.isAsync = memory.is_async;
  if (memory.is_async) {
    // The device stands for the pool's address, which is never 0.
    record.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
    record.memoryPoolConfig.address = memory.device + 1;
    record.memoryPoolConfig.pool.size = pool.held;
    record.memoryPoolConfig.utilizedSize = pool.used;
  } else {
    record.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID;
  }
  if (memory.owner == protocol::MemoryOwner::kCommunicator)
    record.source = "libnccl.so.2";
  return record;
}

CUpti_ActivityOverhead3 OverheadRecord(const gpu::ActivityQueueFull& wait,
                                       uint32_t process, int64_t shift) {
  auto record = Blank<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  record.overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_PROCESS;
  record.objectId.pt.processId = process;
  record.start = Stamp(wait.start_ns, shift);
  record.end = Stamp(wait.end_ns, shift);
  record.correlationId = wait.correlation;
  using Data = CUpti_ActivityOverheadCommandBufferFullData;
  if (auto* data = static_cast<Data*>(std::malloc(sizeof(Data)))) {
    *data = {0, CUPTI_INVALID_CHANNEL_ID, CUPTI_CHANNEL_TYPE_INVALID};
    record.overheadData = data;
  }
  return record;
}

CUpti_ActivityMarker2 MarkerRecord(const gpu::ActivityRange& range, const char* name,
                                   Caller caller, int64_t shift) {
  auto record = Blank<CUpti_ActivityMarker2>(CUPTI_ACTIVITY_KIND_MARKER);
  record.flags =
      range.begin ? CUPTI_ACTIVITY_FLAG_MARKER_START : CUPTI_ACTIVITY_FLAG_MARKER_END;
  record.timestamp = Stamp(range.time_ns, shift);
  record.id = range.id;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt = {caller.process, caller.thread};
  record.name = range.begin ? name : nullptr;  // "NULL for an end marker"
  return record;
}

CUpti_ActivityExternalCorrelation ExternalRecord(const gpu::ActivityExternalId& id) {
  auto record = Blank<CUpti_ActivityExternalCorrelation>(
      CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  record.externalKind = static_cast<CUpti_ExternalCorrelationKind>(id.kind);
  record.externalId = id.id;
  record.correlationId = id.correlation;
  return record;
}

CUpti_ActivityContext3 ContextRecord(uint32_t context, uint32_t device,
                                     const protocol::GpuProperties& card) {
  auto record = Blank<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT);
  record.contextId = context;
  record.deviceId = device;
  record.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  record.nullStreamId = kNullStream;
  record.parentContextId = 0;  // none
  record.numMultiprocessors = static_cast<uint16_t>(card.multiprocessors);
  record.cigMode = CUPTI_CONTEXT_CIG_MODE_NONE;
  return record;
}

CUpti_ActivityDevice5 DeviceRecord(const protocol::Settings& settings, int device,
                                   int node_device) {
  auto record = Blank<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE);
  const protocol::GpuProperties& card = settings.gpu;
  auto attribute = [&](CUdevice_attribute number) {
    return static_cast<uint32_t>(
        gpu::DeviceAttribute(card, device, number).value_or(0));
  };
  record.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
  // kHz times bytes is kBytes/s; two transfers per clock.
  record.globalMemoryBandwidth =
      uint64_t{2} * card.memory_clock_khz * (card.memory_bus_bits / 8);
  record.globalMemorySize = card.memory_bytes;
  record.constantMemorySize = static_cast<uint32_t>(card.constant_bytes);
  record.l2CacheSize = static_cast<uint32_t>(card.l2_bytes);
  record.numThreadsPerWarp = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  record.coreClockRate = card.clock_khz;
  record.numMemcpyEngines = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  record.numMultiprocessors = card.multiprocessors;
  record.maxWarpsPerMultiprocessor = card.threads_per_multiprocessor / 32;
  record.maxBlocksPerMultiprocessor = card.blocks_per_multiprocessor;
  record.maxSharedMemoryPerMultiprocessor =
      static_cast<uint32_t>(card.shared_per_multiprocessor);
  record.maxRegistersPerMultiprocessor = card.registers_per_multiprocessor;
  record.maxRegistersPerBlock = card.registers_per_multiprocessor;
  record.maxSharedMemoryPerBlock = static_cast<uint32_t>(card.shared_per_block);
  record.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  record.maxBlockDimX = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  record.maxBlockDimY = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  record.maxBlockDimZ = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  record.maxGridDimX = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  record.maxGridDimY = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  record.maxGridDimZ = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  record.computeCapabilityMajor = card.compute_major;
  record.computeCapabilityMinor = card.compute_minor;
  record.id = static_cast<uint32_t>(device);
  record.eccEnabled = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  unsigned char uuid[16];
  gpu::DeviceUuid(settings, node_device, uuid);
  std::memcpy(record.uuid.bytes, uuid, sizeof uuid);
  record.name = card.name;
  record.isCudaVisible = 1;
  record.gpuInstanceId = record.computeInstanceId = UINT32_MAX;  // MIG is off
  record.numaId = invalidNumaId;
  return record;
}

}  // namespace vrank::cupti
