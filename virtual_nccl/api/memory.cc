// Chapter "memory" of nccl.h: allocation and registration of buffers.
//
// NCCL allocates so that peers may map the memory, and falls back to cudaMalloc. Nobody
// maps memory here, so cudaMalloc it is: of the process's runtime, found by name,
// because this library must not bring a second one along.

#include <dlfcn.h>

#include "virtual_nccl/api/entry.h"
#include "virtual_nccl/core/error.h"

using namespace vrank::nccl;  // entry points stand outside of any namespace

namespace {

// A function of the CUDA runtime that the process has loaded, or nullptr.
template <typename Function>
Function* FindRuntime(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

ncclResult_t FromCuda(cudaError_t error, const char* function) {
  if (error == cudaSuccess)
    return ncclSuccess;
  return Fail(ncclUnhandledCudaError, "%s : CUDA error %d", function,
              static_cast<int>(error));
}

ncclResult_t FailWithoutRuntime(const char* function) {
  return Fail(ncclSystemError,
              "%s : the process has loaded no CUDA runtime (libcudart)", function);
}

}  // namespace

NCCL_API(ncclResult_t, ncclMemAlloc, void** ptr, size_t size) {
  return WithLibrary("ncclMemAlloc", [&](Library&) {
    auto* allocate = FindRuntime<cudaError_t(void**, size_t)>("cudaMalloc");
    return allocate == nullptr ? FailWithoutRuntime("ncclMemAlloc")
                               : FromCuda(allocate(ptr, size), "ncclMemAlloc");
  });
}

NCCL_API(ncclResult_t, ncclMemFree, void* ptr) {
  return WithLibrary("ncclMemFree", [&](Library&) {
    auto* free = FindRuntime<cudaError_t(void*)>("cudaFree");
    return free == nullptr ? FailWithoutRuntime("ncclMemFree")
                           : FromCuda(free(ptr), "ncclMemFree");
  });
}

// As NCCL with registration switched off (NCCL_LOCAL_REGISTER=0): success and no
// handle.
NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void*, size_t,
         void** handle) {
  return WithLibrary("ncclCommRegister", [&](Library&) {
    Communicator* communicator = nullptr;
    ncclResult_t result =
        FindReadyCommunicator(comm, "ncclCommRegister", &communicator);
    if (result == ncclSuccess)
      result = RequirePointer(handle, "ncclCommRegister", "handle");
    if (result == ncclSuccess)
      *handle = nullptr;
    return result;
  });
}

NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  return WithLibrary("ncclCommDeregister", [&](Library&) {
    Communicator* communicator = nullptr;
    ncclResult_t result = FindCommunicator(comm, "ncclCommDeregister", &communicator);
    if (result == ncclSuccess && handle != nullptr)
      result =
          Fail(ncclInvalidArgument, "ncclCommDeregister : unknown handle %p", handle);
    return result;
  });
}
