// libcuda, chapters "Stream management" and "Event management".

#include "virtual_gpu/api/driver/entry.h"

using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::ProcessGpu;
using vrank::gpu::StreamInfo;

namespace {

CUstream PerThread(CUstream stream) {
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

template <typename Take>
CUresult WithInfo(CUstream stream, const void* answer, Take take,
                  const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        StreamInfo info;
        if (answer == nullptr)
          return Error::kInvalidValue;
        VRANK_RETURN_IF_FAILED(gpu.GetStreamInfo(stream, &info));
        take(info);
        return Error::kSuccess;
      },
      api);
}

}  // namespace

// --- Streams
// -----------------------------------------------------------------------------

VRANK_CUDA CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags,
                                               int priority) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.CreateStream(flags, priority, reinterpret_cast<void**>(stream));
  });
}

VRANK_CUDA CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return vrank::gpu::Alias(
      [&] { return cuStreamCreateWithPriority(stream, flags, 0); });
}

VRANK_CUDA CUresult cuStreamDestroy_v2(CUstream stream) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.DestroyStream(stream); });
}

VRANK_CUDA CUresult cuStreamSynchronize(CUstream stream) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.SynchronizeStream(stream); });
}
VRANK_CUDA CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return vrank::gpu::Alias([&] { return cuStreamSynchronize(PerThread(stream)); });
}

VRANK_CUDA CUresult cuStreamQuery(CUstream stream) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.QueryStream(stream); });
}
VRANK_CUDA CUresult cuStreamQuery_ptsz(CUstream stream) {
  return vrank::gpu::Alias([&] { return cuStreamQuery(PerThread(stream)); });
}

VRANK_CUDA CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  if (flags > CU_EVENT_WAIT_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.StreamWaitEvent(stream, event, flags == CU_EVENT_WAIT_EXTERNAL);
  });
}
VRANK_CUDA CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event,
                                           unsigned flags) {
  return vrank::gpu::Alias(
      [&] { return cuStreamWaitEvent(PerThread(stream), event, flags); });
}

VRANK_CUDA CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  return WithInfo(stream, priority,
                  [&](const StreamInfo& info) { *priority = info.priority; });
}

VRANK_CUDA CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  return WithInfo(stream, flags, [&](const StreamInfo& info) { *flags = info.flags; });
}

VRANK_CUDA CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  return WithInfo(stream, id, [&](const StreamInfo& info) { *id = info.id; });
}

VRANK_CUDA CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return WithInfo(stream, device,
                  [&](const StreamInfo& info) { *device = info.device; });
}

// The handle of a device's primary context is its number plus one (entry.h).
VRANK_CUDA CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return WithInfo(stream, context, [&](const StreamInfo& info) {
    *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(info.device + 1));
  });
}

VRANK_CUDA CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function,
                                     void* argument) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.LaunchHostFunction(stream, function, argument);
  });
}
VRANK_CUDA CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function,
                                          void* argument) {
  return vrank::gpu::Alias(
      [&] { return cuLaunchHostFunc(PerThread(stream), function, argument); });
}

// --- Events
// ------------------------------------------------------------------------------

VRANK_CUDA CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.CreateEvent(flags, reinterpret_cast<void**>(event));
  });
}

VRANK_CUDA CUresult cuEventDestroy_v2(CUevent event) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.DestroyEvent(event); });
}

VRANK_CUDA CUresult cuEventRecord(CUevent event, CUstream stream) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.RecordEvent(event, stream); });
}
VRANK_CUDA CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return vrank::gpu::Alias([&] { return cuEventRecord(event, PerThread(stream)); });
}

VRANK_CUDA CUresult cuEventRecordWithFlags(CUevent event, CUstream stream,
                                           unsigned flags) {
  if (flags > CU_EVENT_RECORD_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.RecordEvent(event, stream, flags == CU_EVENT_RECORD_EXTERNAL);
  });
}
VRANK_CUDA CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream,
                                                unsigned flags) {
  return vrank::gpu::Alias(
      [&] { return cuEventRecordWithFlags(event, PerThread(stream), flags); });
}

VRANK_CUDA CUresult cuEventQuery(CUevent event) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.QueryEvent(event); });
}

VRANK_CUDA CUresult cuEventSynchronize(CUevent event) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.SynchronizeEvent(event); });
}

VRANK_CUDA CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start,
                                          CUevent end) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (milliseconds == nullptr)
      return Error::kInvalidValue;
    int64_t elapsed_ns = 0;
    VRANK_RETURN_IF_FAILED(gpu.ElapsedNanoseconds(start, end, &elapsed_ns));
    *milliseconds = static_cast<float>(static_cast<double>(elapsed_ns) * 1e-6);
    return Error::kSuccess;
  });
}

// The name before CUDA 12.8.
#undef cuEventElapsedTime
VRANK_CUDA CUresult cuEventElapsedTime(float* milliseconds, CUevent start,
                                       CUevent end) {
  return vrank::gpu::Alias(
      [&] { return cuEventElapsedTime_v2(milliseconds, start, end); });
}
