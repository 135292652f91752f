// What the virtual GPU reports, as CUPTI's activity records.
//
// The structs are the newest of CUDA 13.0's headers, and every field is set: what a
// virtual GPU does not know holds the value that CUPTI documents for "unknown" or "does
// not apply" (registers per thread, static shared memory and the like: 0). `shift` is
// added to the virtual GPU's times; the result is on the clock of cuptiGetTimestamp.
//
// Thread rule: pure functions, except OverheadRecord, which allocates.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_RECORDS_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_RECORDS_H_

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "base/guest/protocol.h"
#include "virtual_gpu/core/activity.h"

namespace vrank::cupti {

// The legacy default stream ("nullStreamId" of a context).
inline constexpr uint32_t kNullStream = 7;

// Bytes of a record of this kind before padding; 0 for kinds that are not modelled.
size_t RecordBytes(CUpti_ActivityKind kind);

// Which process and thread a record names.
struct Caller {
  uint32_t process = 0;
  uint32_t thread = 0;
};

CUpti_ActivityAPI ApiRecord(const gpu::ActivityCall& call, uint32_t cbid, Caller caller,
                            int64_t shift);
// REQUIRES: kKernel or kCollective. `kind`: KERNEL or CONCURRENT_KERNEL.
CUpti_ActivityKernel10 KernelRecord(const gpu::ActivityWork& work,
                                    CUpti_ActivityKind kind, int64_t shift);
// REQUIRES: kCopy between other places than two devices.
CUpti_ActivityMemcpy6 CopyRecord(const gpu::ActivityWork& work, int64_t shift);
// REQUIRES: kCopy between two devices.
CUpti_ActivityMemcpyPtoP4 PeerCopyRecord(const gpu::ActivityWork& work, int64_t shift);
// REQUIRES: kMemset.
CUpti_ActivityMemset4 MemsetRecord(const gpu::ActivityWork& work, int64_t shift);
CUpti_ActivitySynchronization2 SyncRecord(const gpu::ActivitySync& sync, int64_t shift);
CUpti_ActivityCudaEvent2 EventRecord(const gpu::ActivityEventRecord& record,
                                     uint32_t device, bool with_time, int64_t shift);
CUpti_ActivityStream StreamRecord(const gpu::ActivityStream& stream);
// How much stream-ordered memory a device holds and how much of it is in use.
struct PoolSize {
  uint64_t held = 0, used = 0;
};
// `pool`: after the operation; read where it is_async. All pools of a device are one
// here, since nobody says which of them served a request.
CUpti_ActivityMemory4 MemoryRecord(const gpu::ActivityMemory& memory,
                                   const PoolSize& pool, uint32_t process,
                                   int64_t shift);
// The host stood still before a full command buffer. The client frees overheadData, as
// CUPTI documents it.
CUpti_ActivityOverhead3 OverheadRecord(const gpu::ActivityQueueFull& wait,
                                       uint32_t process, int64_t shift);
// `name` as long-lived as the process.
CUpti_ActivityMarker2 MarkerRecord(const gpu::ActivityRange& range, const char* name,
                                   Caller caller, int64_t shift);
CUpti_ActivityExternalCorrelation ExternalRecord(const gpu::ActivityExternalId& id);
CUpti_ActivityContext3 ContextRecord(uint32_t context, uint32_t device,
                                     const protocol::GpuProperties& card);
// `settings` as long-lived as the process.
// `node_device`: gpu::Gpu::NodeDevice(device).
CUpti_ActivityDevice5 DeviceRecord(const protocol::Settings& settings, int device,
                                   int node_device);

}  // namespace vrank::cupti

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_RECORDS_H_
