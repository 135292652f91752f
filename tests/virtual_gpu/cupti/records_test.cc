// libcupti: what each report becomes. Every field is either the report's or CUPTI's
// word for "unknown".

#include <cstdlib>

#include "tests/virtual_gpu/cupti/cupti_fixture.h"

namespace vrank::cupti {
namespace {

class CuptiRecordsTest : public CuptiTest {
 protected:
  CuptiRecordsTest() { RegisterBuffers(); }

  // The one record of a kind, enabled by `Want`.
  template <typename Record>
  static const Record& One(CUpti_ActivityKind kind) {
    static const Record none{};
    auto records = RecordsAs<Record>(kind);
    EXPECT_EQ(records.size(), 1u);
    return records.empty() ? none : *records[0];
  }
  static void Want(CUpti_ActivityKind kind) { EXPECT_CUPTI(cuptiActivityEnable(kind)); }
  static gpu::ActivityWork Work(gpu::ActivityWorkKind kind) {
    gpu::ActivityWork work;
    work.kind = kind;
    work.correlation = Id(5);
    work.device = 1;
    work.context = 2;
    work.stream = 13;
    work.start_ns = 700;
    work.end_ns = 950;
    work.bytes = 4096;
    return work;
  }
};

TEST_F(CuptiRecordsTest, Calls) {
  Want(CUPTI_ACTIVITY_KIND_DRIVER);
  gpu::ActivityCall call;
  call.is_driver = true;
  call.function = "cuLaunchKernelEx";
  call.correlation = Id(1);
  call.start_ns = 100;
  call.end_ns = 340;
  call.result = CUDA_ERROR_OUT_OF_MEMORY;
  Listener().OnCall(call);
  const auto& record = One<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  EXPECT_EQ(record.cbid, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
  EXPECT_EQ(record.start, Stamp(100));
  EXPECT_EQ(record.end, Stamp(340));
  EXPECT_EQ(record.processId, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(record.correlationId, Id(1));
  EXPECT_EQ(record.returnValue, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(CuptiRecordsTest, Kernels) {
  Want(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  gpu::ActivityWork work = Work(gpu::ActivityWorkKind::kKernel);
  work.name = "_Z6kernelPf";
  work.grid[0] = 7;
  work.block[1] = 8;
  work.shared_bytes = 512;
  Listener().OnWork(work);
  const auto& record =
      One<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  EXPECT_STREQ(record.name, "_Z6kernelPf");
  EXPECT_EQ(record.start, Stamp(700));
  EXPECT_EQ(record.end, Stamp(950));
  EXPECT_EQ(record.completed, record.end);
  EXPECT_EQ(record.deviceId, 1u);
  EXPECT_EQ(record.contextId, 2u);
  EXPECT_EQ(record.streamId, 13u);
  EXPECT_EQ(record.correlationId, Id(5));
  EXPECT_EQ(record.gridX, 7);
  EXPECT_EQ(record.gridY, 1);
  EXPECT_EQ(record.blockY, 8);
  EXPECT_EQ(record.dynamicSharedMemory, 512);
  EXPECT_EQ(record.queued, uint64_t{CUPTI_TIMESTAMP_UNKNOWN});
  EXPECT_EQ(record.submitted, uint64_t{CUPTI_TIMESTAMP_UNKNOWN});
  EXPECT_EQ(record.gridId, CUPTI_GRID_ID_UNKNOWN);
  EXPECT_EQ(record.channelID, CUPTI_INVALID_CHANNEL_ID);
  EXPECT_EQ(record.graphNodeId, 0u);
}

TEST_F(CuptiRecordsTest, CollectivesAreKernelsAndHostFunctionsAreNothing) {
  Want(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  gpu::ActivityWork work = Work(gpu::ActivityWorkKind::kCollective);
  work.name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
  Listener().OnWork(work);
  Listener().OnWork(Work(gpu::ActivityWorkKind::kHostFunc));
  EXPECT_EQ(Records().size(), 1u);
}

TEST_F(CuptiRecordsTest, Copies) {
  Want(CUPTI_ACTIVITY_KIND_MEMCPY);
  Want(CUPTI_ACTIVITY_KIND_MEMCPY2);
  gpu::ActivityWork work = Work(gpu::ActivityWorkKind::kCopy);
  work.pinned = work.asynchronous = true;
  Listener().OnWork(work);
  work.pinned = work.asynchronous = false;
  work.copy_kind = protocol::CopyKind::kDeviceToHost;
  Listener().OnWork(work);
  work.copy_kind = protocol::CopyKind::kDeviceToDevice;
  Listener().OnWork(work);
  work.copy_kind = protocol::CopyKind::kPeer;
  Listener().OnWork(work);
  auto copies = RecordsAs<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_EQ(copies[0]->copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  EXPECT_EQ(copies[0]->srcKind, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  EXPECT_EQ(copies[0]->dstKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  EXPECT_EQ(copies[0]->flags, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
  EXPECT_EQ(copies[0]->bytes, 4096u);
  EXPECT_EQ(copies[0]->copyCount, 1u);
  EXPECT_EQ(copies[1]->copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  EXPECT_EQ(copies[1]->dstKind, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
  EXPECT_EQ(copies[1]->flags, CUPTI_ACTIVITY_FLAG_NONE);
  EXPECT_EQ(copies[2]->copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
  const auto& peer = One<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  EXPECT_EQ(peer.copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  EXPECT_EQ(peer.srcContextId, CUPTI_INVALID_CONTEXT_ID);
  EXPECT_EQ(peer.end, Stamp(950));
}

TEST_F(CuptiRecordsTest, Memsets) {
  Want(CUPTI_ACTIVITY_KIND_MEMSET);
  gpu::ActivityWork work = Work(gpu::ActivityWorkKind::kMemset);
  work.value = 0xcafe;
  work.asynchronous = true;
  Listener().OnWork(work);
  const auto& record = One<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  EXPECT_EQ(record.value, 0xcafeu);
  EXPECT_EQ(record.bytes, 4096u);
  EXPECT_EQ(record.flags, CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC);
  EXPECT_EQ(record.memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
}

TEST_F(CuptiRecordsTest, WaitsAndEvents) {
  Want(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  Want(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  gpu::ActivityEventRecord event;
  event.correlation = Id(1);
  event.context = 1;
  event.stream = 7;
  event.event = 4;
  event.event_sync_id = 9;
  event.device_ns = 600;
  Listener().OnEventRecord(event);
  EXPECT_CUPTI(cuptiActivityEnableCudaEventDeviceTimestamps(1));
  Listener().OnEventRecord(event);
  gpu::ActivitySync sync;
  sync.kind = gpu::ActivitySyncKind::kStreamWait;
  sync.correlation = Id(2);
  sync.stream = 13;
  sync.event = 4;
  sync.event_sync_id = 9;
  Listener().OnSync(sync);
  sync.kind = gpu::ActivitySyncKind::kEvent;
  sync.event_sync_id = 0;  // never recorded
  Listener().OnSync(sync);
  sync.kind = gpu::ActivitySyncKind::kContext;
  sync.start_ns = 50;
  sync.end_ns = 80;
  Listener().OnSync(sync);
  auto events = RecordsAs<CUpti_ActivityCudaEvent2>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]->deviceTimestamp, 0u) << "off by default";
  EXPECT_EQ(events[1]->deviceTimestamp, Stamp(600));
  EXPECT_EQ(events[1]->cudaEventSyncId, 9u);
  auto syncs =
      RecordsAs<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  ASSERT_EQ(syncs.size(), 3u);
  EXPECT_EQ(syncs[0]->type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
  EXPECT_EQ(syncs[0]->streamId, 13u);
  EXPECT_EQ(syncs[0]->cudaEventId, 4u);
  EXPECT_EQ(syncs[0]->cudaEventSyncId, 9u);
  EXPECT_EQ(syncs[1]->type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
  EXPECT_EQ(syncs[1]->streamId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  EXPECT_EQ(syncs[1]->cudaEventSyncId, uint64_t{CUPTI_SYNCHRONIZATION_INVALID_VALUE});
  EXPECT_EQ(syncs[2]->type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
  EXPECT_EQ(syncs[2]->cudaEventId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  EXPECT_EQ(syncs[2]->end - syncs[2]->start, 30u);
}

TEST_F(CuptiRecordsTest, Memory) {
  Want(CUPTI_ACTIVITY_KIND_MEMORY2);
  gpu::ActivityMemory memory;
  memory.address = 0x7000;
  memory.bytes = 1 << 20;
  memory.time_ns = 30;
  memory.stream = 13;
  Listener().OnMemory(memory);
  memory.release = memory.is_async = true;
  memory.owner = protocol::MemoryOwner::kCommunicator;
  Listener().OnMemory(memory);
  // What a library takes counts as the context's, and is an allocation: it has an
  // address.
  memory.owner = protocol::MemoryOwner::kContext;
  memory.address = 0x9000;
  Listener().OnMemory(memory);
  memory.address = 0;
  Listener().OnMemory(memory);
  auto records = RecordsAs<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  ASSERT_EQ(records.size(), 3u) << "a context's own memory is not shown";
  EXPECT_EQ(records[0]->memoryOperationType,
            CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
  EXPECT_EQ(records[0]->memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  EXPECT_EQ(records[0]->address, 0x7000u);
  EXPECT_EQ(records[0]->timestamp, Stamp(30));
  EXPECT_EQ(records[0]->streamId, CUPTI_INVALID_STREAM_ID) << "not by a stream";
  EXPECT_EQ(records[0]->source, nullptr);
  EXPECT_EQ(records[1]->memoryOperationType,
            CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
  EXPECT_EQ(records[1]->streamId, 13u);
  EXPECT_EQ(records[1]->isAsync, 1u);
  EXPECT_STREQ(records[1]->source, "libnccl.so.2");
  EXPECT_EQ(records[2]->address, 0x9000u);
}

TEST_F(CuptiRecordsTest, OverheadMarkersAndExternalIds) {
  Want(CUPTI_ACTIVITY_KIND_OVERHEAD);
  Want(CUPTI_ACTIVITY_KIND_MARKER);
  Want(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  gpu::ActivityQueueFull full;
  full.correlation = Id(3);
  full.end_ns = 25;
  Listener().OnQueueFull(full);
  gpu::ActivityRange range;
  range.id = 4;
  range.time_ns = 2'000;
  std::string name = "forward";
  range.name = name.c_str();
  Listener().OnRange(range);
  range.begin = false;
  Listener().OnRange(range);
  name = "overwritten";
  Listener().OnExternalId({CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 77, Id(3)});
  const auto& overhead = One<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  EXPECT_EQ(overhead.overheadKind, CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL);
  EXPECT_EQ(overhead.correlationId, Id(3));
  EXPECT_EQ(overhead.end - overhead.start, 25u);
  ASSERT_NE(overhead.overheadData, nullptr);
  // "Client is responsible for freeing this memory using the free function"
  std::free(overhead.overheadData);
  auto markers = RecordsAs<CUpti_ActivityMarker2>(CUPTI_ACTIVITY_KIND_MARKER);
  ASSERT_EQ(markers.size(), 2u);
  EXPECT_EQ(markers[0]->flags, CUPTI_ACTIVITY_FLAG_MARKER_START);
  EXPECT_STREQ(markers[0]->name, "forward");
  EXPECT_EQ(markers[1]->flags, CUPTI_ACTIVITY_FLAG_MARKER_END);
  EXPECT_EQ(markers[1]->name, nullptr);
  EXPECT_EQ(markers[0]->id, markers[1]->id);
  const auto& external =
      One<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  EXPECT_EQ(external.externalKind, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
  EXPECT_EQ(external.externalId, 77u);
  EXPECT_EQ(external.correlationId, Id(3));
}

TEST_F(CuptiRecordsTest, DevicesContextsAndStreams) {
  EXPECT_CUPTI(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_DEVICE));
  EXPECT_CUPTI(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_CONTEXT));
  Want(CUPTI_ACTIVITY_KIND_STREAM);
  gpu::ActivityStream stream;
  stream.correlation = Id(1);
  stream.context = 1;
  stream.stream = 13;
  stream.kind = gpu::ActivityStream::Kind::kNonBlocking;
  stream.priority = -2;
  Listener().OnStream(stream);
  stream.destroyed = true;
  Listener().OnStream(stream);
  auto devices = RecordsAs<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1]->id, 1u);
  EXPECT_STREQ(devices[0]->name, "Fake GPU");
  EXPECT_EQ(devices[0]->numThreadsPerWarp, 32u);
  // 2 transfers x 2 GHz x 512 bytes = 2,048 GB/s
  EXPECT_EQ(devices[0]->globalMemoryBandwidth, 2'048'000'000u);
  EXPECT_EQ(devices[0]->gpuInstanceId, UINT32_MAX);
  const auto& context = One<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT);
  EXPECT_EQ(context.deviceId, 0u);
  EXPECT_EQ(context.nullStreamId, 7u);
  EXPECT_EQ(context.numMultiprocessors, 132u);
  const auto& created = One<CUpti_ActivityStream>(CUPTI_ACTIVITY_KIND_STREAM);
  EXPECT_EQ(created.streamId, 13u);
  EXPECT_EQ(created.flag, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING);
  EXPECT_EQ(static_cast<int32_t>(created.priority), -2);
}

}  // namespace
}  // namespace vrank::cupti
