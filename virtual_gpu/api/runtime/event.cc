// cudart, chapter "Event management".

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::PerThread;

VRANK_CUDART cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Call([&](Gpu& gpu) {
    return gpu.CreateEvent(flags, reinterpret_cast<void**>(event));
  });
}

VRANK_CUDART cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Alias([&] { return cudaEventCreateWithFlags(event, cudaEventDefault); });
}

VRANK_CUDART cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Call([&](Gpu& gpu) { return gpu.DestroyEvent(event); });
}

VRANK_CUDART cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Call([&](Gpu& gpu) { return gpu.RecordEvent(event, stream); });
}
VRANK_CUDART cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return Alias([&] { return cudaEventRecord(event, PerThread(stream)); });
}

VRANK_CUDART cudaError_t cudaEventRecordWithFlags(cudaEvent_t event,
                                                  cudaStream_t stream, unsigned flags) {
  if (flags > cudaEventRecordExternal)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    return gpu.RecordEvent(event, stream, flags == cudaEventRecordExternal);
  });
}
VRANK_CUDART cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event,
                                                       cudaStream_t stream,
                                                       unsigned flags) {
  return Alias(
      [&] { return cudaEventRecordWithFlags(event, PerThread(stream), flags); });
}

VRANK_CUDART cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Call([&](Gpu& gpu) { return gpu.QueryEvent(event); });
}

VRANK_CUDART cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Call([&](Gpu& gpu) { return gpu.SynchronizeEvent(event); });
}

VRANK_CUDART cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                              cudaEvent_t end) {
  if (milliseconds == nullptr)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    int64_t elapsed_ns = 0;
    VRANK_RETURN_IF_FAILED(gpu.ElapsedNanoseconds(start, end, &elapsed_ns));
    *milliseconds = static_cast<float>(static_cast<double>(elapsed_ns) * 1e-6);
    return Error::kSuccess;
  });
}
