// The entries that nvcc's static constructors call (crt/host_runtime.h). They run
// before main and must not fail.

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/registry.h"

using vrank::gpu::Registry;

VRANK_CUDART void** __cudaRegisterFatBinary(void* image) {
  return Registry::Get().AddImage(image);
}

VRANK_CUDART void __cudaRegisterFatBinaryEnd(void**) {}

VRANK_CUDART void __cudaUnregisterFatBinary(void** image) {
  Registry::Get().RemoveImage(image);
}

VRANK_CUDART void __cudaRegisterFunction(void** image, const char* host_function, char*,
                                         const char* device_name, int, uint3*, uint3*,
                                         dim3*, dim3*, int*) {
  Registry::Get().AddKernel(image, host_function, device_name);
}

VRANK_CUDART void __cudaRegisterVar(void** image, char* host_variable, char*,
                                    const char*, int, size_t bytes, int, int) {
  Registry::Get().AddVariable(image, host_variable, bytes);
}
