// What every entry point of libcuda shares: the virtual GPU itself, and CUDA's context
// rules.
//
// Entry points check what the driver API asks for beyond the core (cuInit was called, a
// context is current), call one method of the GPU, and return the Error by a cast.
// Contexts: each device has its primary context and no other (cuCtxCreate is refused);
// a context handle is the device's number plus one.
//
// Thread rule: may be called from any thread, and before main.

#ifndef VRANK_VIRTUAL_GPU_API_DRIVER_ENTRY_H_
#define VRANK_VIRTUAL_GPU_API_DRIVER_ENTRY_H_

#include <cuda.h>

#include "base/guest/export.h"
#include "base/guest/program_call.h"
#include "virtual_gpu/core/process_gpu.h"

#define VRANK_CUDA extern "C" VRANK_EXPORT

namespace vrank::gpu {

// The process's virtual GPU; made on first use, never destroyed.
ProcessGpu& TheGpu();

// CUDA_ERROR_NOT_INITIALIZED before cuInit.
CUresult Initialized();

inline CUresult Result(Error error) {
  // The driver has no code of its own for a bad launch configuration.
  return error == Error::kInvalidConfiguration ? CUDA_ERROR_INVALID_VALUE
                                               : static_cast<CUresult>(error);
}

// For calls that need cuInit.
template <typename Step>
CUresult Call(Step step, const char* function = __builtin_FUNCTION(),
              const void* parameters = nullptr) {
  const CUresult ready = Initialized();
  if (ready != CUDA_SUCCESS)
    return ready;
  ProgramCall program(FindChannel(), function);
  CallScope call(&TheGpu().activity(), true, function, parameters);
  return call.Leave(Result(step(TheGpu())));
}

// For entry points that hand everything to another one: profilers see the outer name.
template <typename Step>
CUresult Alias(Step step, const char* function = __builtin_FUNCTION(),
               const void* parameters = nullptr) {
  ProgramCall program(FindChannel(), function);
  CallScope call(&TheGpu().activity(), true, function, parameters);
  return call.Leave(step());
}

// The stream of a call whose null stream is the per-thread one.
inline CUstream PerThread(CUstream stream) {
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

// For calls that need a current context as well.
template <typename Step>
CUresult CallInContext(Step step, const char* function = __builtin_FUNCTION(),
                       const void* parameters = nullptr) {
  return Call(
      [&](ProcessGpu& gpu) {
        return gpu.CurrentDevice() < 0 ? Error::kInvalidContext : step(gpu);
      },
      function, parameters);
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_DRIVER_ENTRY_H_
