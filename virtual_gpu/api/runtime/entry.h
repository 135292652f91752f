// What every entry point of libcudart shares: the way to the GPU, and the last error.
//
// An entry point looks like this:
//
//   extern "C" VRANK_EXPORT cudaError_t cudaFree(void* address) {
//     return Call([&](Gpu& gpu) { return gpu.Free(address); });
//   }
//
// Every call that fails leaves its error for cudaGetLastError, per thread. After a
// fault (core/devices.h) every call fails: a failed assertion of a kernel, an illegal
// address.
//
// The variants _ptsz and _ptds serve programs compiled with
// --default-stream per-thread: their null stream is the per-thread default stream.
//
// Thread rule: may be called from any thread, and before main.

#ifndef VRANK_VIRTUAL_GPU_API_RUNTIME_ENTRY_H_
#define VRANK_VIRTUAL_GPU_API_RUNTIME_ENTRY_H_

#include <cuda_runtime_api.h>

#include "base/guest/export.h"
#include "base/guest/program_call.h"
#include "virtual_gpu/core/activity_tap.h"
#include "virtual_gpu/core/gpu.h"

#define VRANK_CUDART extern "C" VRANK_EXPORT

namespace vrank::gpu {

// nullptr where libcuda.so.1 is not ours (said once on stderr).
Gpu* FindGpu();

// Remembers the error for cudaGetLastError, unless it is none, and returns it.
cudaError_t Leave(cudaError_t error);
inline cudaError_t Leave(Error error) {
  return Leave(static_cast<cudaError_t>(error));
}
// The thread's last error; `reset` forgets it.
cudaError_t LastError(bool reset);

// nullptr where FindGpu() is.
ActivityTap* FindTap();

// `function`: the entry point itself. `parameters`: what CUPTI's callbacks are told
// of them.
template <typename Step>
cudaError_t Call(Step step, const char* function = __builtin_FUNCTION(),
                 const void* parameters = nullptr) {
  ProgramCall program(FindChannel(), function);
  CallScope call(FindTap(), false, function, parameters);
  Gpu* gpu = FindGpu();
  return call.Leave(gpu == nullptr ? Leave(cudaErrorNoDevice) : Leave(step(*gpu)));
}

// For entry points that hand everything to another one: profilers see the outer name.
template <typename Step>
cudaError_t Alias(Step step, const char* function = __builtin_FUNCTION(),
                  const void* parameters = nullptr) {
  ProgramCall program(FindChannel(), function);
  CallScope call(FindTap(), false, function, parameters);
  return call.Leave(step());
}

// The stream of a call whose null stream is the per-thread one.
inline cudaStream_t PerThread(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

// The calling thread's device, or the first one where none was chosen.
inline int DeviceInUse(Gpu& gpu) {
  const int device = gpu.CurrentDevice();
  return device < 0 ? 0 : device;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_RUNTIME_ENTRY_H_
