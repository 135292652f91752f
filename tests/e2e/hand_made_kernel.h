// A kernel as nvcc's static constructors would register it, without nvcc.
//
// Nothing of a kernel but its mangled name and its arguments matters to the virtual
// GPU; on a real one the launch would fail, since there is no code.
//
// Thread rule: call from one thread.

#ifndef VRANK_TESTS_E2E_HAND_MADE_KERNEL_H_
#define VRANK_TESTS_E2E_HAND_MADE_KERNEL_H_

#include <cuda_runtime_api.h>

// Called by what nvcc generates (crt/host_runtime.h of the toolkit).
extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFunction(void** image, const char* host_function,
                            char* device_function, const char* device_name,
                            int thread_limit, uint3* thread_id, uint3* block_id,
                            dim3* block, dim3* grid, int* warp_size);
}

// The host address that stands for a kernel
//   __global__ void scale(float* out, const float* in, unsigned long count)
inline const void* ScaleKernel() {
  static const char stub = 0;
  static const bool registered = [] {
    __cudaRegisterFunction(__cudaRegisterFatBinary(nullptr), &stub, nullptr,
                           "_Z5scalePfPKfm", -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    return true;
  }();
  static_cast<void>(registered);
  return &stub;
}

inline cudaError_t LaunchScale(float* out, const float* in, unsigned long count,
                               cudaStream_t stream) {
  void* arguments[] = {&out, &in, &count};
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  return cudaLaunchKernel(ScaleKernel(), dim3(blocks, 1, 1), dim3(256, 1, 1), arguments,
                          0, stream);
}

#endif  // VRANK_TESTS_E2E_HAND_MADE_KERNEL_H_
