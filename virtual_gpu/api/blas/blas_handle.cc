#include "virtual_gpu/api/blas/blas_handle.h"

#include <new>

#include "base/guest/program_call.h"
#include "base/guest/refuse.h"
#include "virtual_gpu/api/gemm/element_types.h"
#include "virtual_gpu/api/gpu_access.h"

namespace vrank::gpu {
namespace {

// What cublasCreate takes. Its workspace (cuBLAS documentation, "cublasSetWorkspace"):
// 32 MiB on compute capability 9.0 and 10.x, else 4 MiB; 12 MiB on 12.x. On an H100 as
// much again for each handle (docs/models.md, "GPU properties"); others were not
// measured.
uint64_t HandleBytes(uint32_t compute_major) {
  constexpr uint64_t kMiB = 1 << 20;
  switch (compute_major) {
    case 9:
      return 64 * kMiB;
    case 10:
      return 32 * kMiB;
    case 12:
      return 12 * kMiB;
    default:
      return 4 * kMiB;
  }
}

}  // namespace

cublasStatus_t CreateHandle(cublasHandle_t* handle) {
  if (handle == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  Gpu* gpu = FindGpu();
  if (gpu == nullptr)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (Error error = gpu->Ready(); error != Error::kSuccess)
    return ToStatus(error);
  const int current = gpu->CurrentDevice();
  const int device = current < 0 ? 0 : current;
  if (Error error = gpu->EnsureContext(device); error != Error::kSuccess)
    return ToStatus(error);
  Channel* channel = gpu->channel();
  channel->Spend(HostCost::kCreate);
  channel->Spend(HostCost::kMalloc);
  const uint64_t workspace = FindVirtualGpuTable()->gpu->Reserve(
      device, HandleBytes(channel->settings().gpu.compute_major),
      protocol::MemoryOwner::kProgram);
  if (workspace == 0)
    return CUBLAS_STATUS_ALLOC_FAILED;
  auto* made = new (std::nothrow) cublasContext;
  if (made == nullptr)
    return CUBLAS_STATUS_ALLOC_FAILED;
  made->device = device;
  made->workspace = workspace;
  *handle = made;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t DestroyHandle(cublasHandle_t handle) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  Gpu* gpu = FindGpu();
  // As cuBLAS documents: destroying a handle synchronizes the device.
  const Error error = gpu->SynchronizeDevice();
  gpu->channel()->Spend(HostCost::kMalloc);
  FindVirtualGpuTable()->gpu->GiveBack(handle->device, handle->workspace);
  handle->tag.magic = 0;
  delete handle;
  return ToStatus(error);
}

cublasStatus_t RunGemm(cublasHandle_t handle, const GemmCall& call) {
  ProgramCall program(FindChannel(), call.name);
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (cublasStatus_t status = CheckArguments(call); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (!SupportsGemmEx(call.compute, call.a.type, call.b.type, call.c.type)) {
    static std::atomic<bool> said;
    RefuseCall(kBlasLibrary, "a GEMM of this combination of types", kCompatTable,
               &said);
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return Launch(FindGpu(), call, handle->stream,
                call.own_scalars || handle->pointer_mode == CUBLAS_POINTER_MODE_HOST,
                (handle->math_mode & 0xf) == CUBLAS_TF32_TENSOR_OP_MATH);
}

}  // namespace vrank::gpu
