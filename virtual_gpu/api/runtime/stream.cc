// cudart, chapter "Stream management".

#include <memory>

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::PerThread;
using vrank::gpu::StreamInfo;

namespace {

// Asks for the stream's facts and hands them to `take`.
template <typename Take>
cudaError_t WithInfo(cudaStream_t stream, Take take,
                     const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
        StreamInfo info;
        VRANK_RETURN_IF_FAILED(gpu.GetStreamInfo(stream, &info));
        return take(info);
      },
      api);
}

template <typename Field, typename Value>
Error Store(Field* field, Value value) {
  if (field == nullptr)
    return Error::kInvalidValue;
  *field = static_cast<Field>(value);
  return Error::kSuccess;
}

// What cudaStreamAddCallback needs when the stream gets there.
struct Callback {
  cudaStreamCallback_t function;
  cudaStream_t stream;
  void* argument;
};

void RunCallback(void* data) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(data));
  callback->function(callback->stream, cudaSuccess, callback->argument);
}

}  // namespace

VRANK_CUDART cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream,
                                                      unsigned flags, int priority) {
  return Call([&](Gpu& gpu) {
    return gpu.CreateStream(flags, priority, reinterpret_cast<void**>(stream));
  });
}

VRANK_CUDART cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream,
                                                   unsigned flags) {
  return Alias([&] { return cudaStreamCreateWithPriority(stream, flags, 0); });
}

VRANK_CUDART cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Alias(
      [&] { return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0); });
}

VRANK_CUDART cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Call([&](Gpu& gpu) { return gpu.DestroyStream(stream); });
}

VRANK_CUDART cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return WithInfo(
      stream, [&](const StreamInfo& info) { return Store(priority, info.priority); });
}
VRANK_CUDART cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream,
                                                    int* priority) {
  return Alias([&] { return cudaStreamGetPriority(PerThread(stream), priority); });
}

VRANK_CUDART cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return WithInfo(stream,
                  [&](const StreamInfo& info) { return Store(flags, info.flags); });
}
VRANK_CUDART cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned* flags) {
  return Alias([&] { return cudaStreamGetFlags(PerThread(stream), flags); });
}

VRANK_CUDART cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return WithInfo(stream, [&](const StreamInfo& info) { return Store(id, info.id); });
}
VRANK_CUDART cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream,
                                              unsigned long long* id) {
  return Alias([&] { return cudaStreamGetId(PerThread(stream), id); });
}

VRANK_CUDART cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return WithInfo(stream,
                  [&](const StreamInfo& info) { return Store(device, info.device); });
}
VRANK_CUDART cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int* device) {
  return Alias([&] { return cudaStreamGetDevice(PerThread(stream), device); });
}

VRANK_CUDART cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Call([&](Gpu& gpu) { return gpu.SynchronizeStream(stream); });
}
VRANK_CUDART cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return Alias([&] { return cudaStreamSynchronize(PerThread(stream)); });
}

VRANK_CUDART cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Call([&](Gpu& gpu) { return gpu.QueryStream(stream); });
}
VRANK_CUDART cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return Alias([&] { return cudaStreamQuery(PerThread(stream)); });
}

VRANK_CUDART cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                             unsigned flags) {
  if (flags > cudaEventWaitExternal)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    return gpu.StreamWaitEvent(stream, event, flags == cudaEventWaitExternal);
  });
}
VRANK_CUDART cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream,
                                                  cudaEvent_t event, unsigned flags) {
  return Alias([&] { return cudaStreamWaitEvent(PerThread(stream), event, flags); });
}

VRANK_CUDART cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                            void* argument) {
  return Call(
      [&](Gpu& gpu) { return gpu.LaunchHostFunction(stream, function, argument); });
}
VRANK_CUDART cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream,
                                                 cudaHostFn_t function,
                                                 void* argument) {
  return Alias(
      [&] { return cudaLaunchHostFunc(PerThread(stream), function, argument); });
}

VRANK_CUDART cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                               cudaStreamCallback_t function,
                                               void* argument, unsigned flags) {
  if (function == nullptr || flags != 0)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    // Unlike a host function, a callback cannot be captured: it would run in each
    // launch. A query is forbidden in the same way, and fails the capture likewise.
    vrank::gpu::CaptureInfo info;
    if (gpu.graphs().GetCaptureInfo(stream, &info) != Error::kSuccess ||
        info.status != vrank::gpu::CaptureStatus::kNone)
      return gpu.QueryStream(stream);
    auto callback = std::make_unique<Callback>(Callback{function, stream, argument});
    const Error error = gpu.LaunchHostFunction(stream, RunCallback, callback.get());
    if (error == Error::kSuccess)
      callback.release();  // RunCallback frees it
    return error;
  });
}
VRANK_CUDART cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream,
                                                    cudaStreamCallback_t function,
                                                    void* argument, unsigned flags) {
  return Alias([&] {
    return cudaStreamAddCallback(PerThread(stream), function, argument, flags);
  });
}
