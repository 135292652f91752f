// libcuda, chapter "Execution control": attributes of functions. As with the runtime,
// registers per thread are assumed (kernel_code.h).

#include "virtual_gpu/api/driver/entry.h"

using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::KernelCode;
using vrank::gpu::ProcessGpu;

namespace {

KernelCode* CodeOf(CUfunction function) {
  return reinterpret_cast<KernelCode*>(function);
}

}  // namespace

VRANK_CUDA CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                       CUfunction function) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (value == nullptr)
      return Error::kInvalidValue;
    if (function == nullptr)
      return Error::kInvalidHandle;
    const vrank::protocol::GpuProperties& properties = gpu.channel()->settings().gpu;
    const int shared = CodeOf(function)->max_dynamic_shared.load();
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = vrank::gpu::kAssumedRegisters;
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value =
            static_cast<int>(properties.compute_major * 10 + properties.compute_minor);
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = shared >= 0 ? shared : static_cast<int>(properties.shared_per_block);
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = CodeOf(function)->shared_carveout.load();
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = CodeOf(function)->non_portable_cluster.load();
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        return Error::kSuccess;
      default:
        return Error::kNotSupported;
    }
  });
}

VRANK_CUDA CUresult cuFuncSetAttribute(CUfunction function,
                                       CUfunction_attribute attribute, int value) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (function == nullptr)
      return Error::kInvalidHandle;
    const auto most =
        static_cast<int>(gpu.channel()->settings().gpu.shared_per_block_optin);
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > most)
          return Error::kInvalidValue;
        CodeOf(function)->max_dynamic_shared = value;
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
          return Error::kInvalidValue;
        CodeOf(function)->shared_carveout = value;
        return Error::kSuccess;
      case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        CodeOf(function)->non_portable_cluster = value != 0;
        return Error::kSuccess;
      default:
        return Error::kNotSupported;
    }
  });
}

// A hint, and since Volta one that hardware need not follow.
VRANK_CUDA CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return CallInContext([&](ProcessGpu&) {
    return function == nullptr ? Error::kInvalidHandle : Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuFuncGetName(const char** name, CUfunction function) {
  return CallInContext([&](ProcessGpu&) {
    if (name == nullptr || function == nullptr)
      return Error::kInvalidValue;
    *name = CodeOf(function)->name.c_str();
    return Error::kSuccess;
  });
}
