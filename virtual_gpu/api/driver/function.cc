// libcuda, chapter "Execution control": attributes of functions.

#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/api/driver/launch_configuration.h"
#include "virtual_gpu/core/function_attributes.h"

using vrank::gpu::CallInContext;
using vrank::gpu::CodeOf;
using vrank::gpu::Error;
using vrank::gpu::FunctionAttribute;
using vrank::gpu::ProcessGpu;

VRANK_CUDA CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                       CUfunction function) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (value == nullptr)
      return Error::kInvalidValue;
    if (function == nullptr)
      return Error::kInvalidHandle;
    return GetFunctionAttribute(gpu.channel()->settings().gpu, *CodeOf(function),
                                static_cast<FunctionAttribute>(attribute), value);
  });
}

VRANK_CUDA CUresult cuFuncSetAttribute(CUfunction function,
                                       CUfunction_attribute attribute, int value) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (function == nullptr)
      return Error::kInvalidHandle;
    return SetFunctionAttribute(gpu.channel()->settings().gpu, CodeOf(function),
                                static_cast<FunctionAttribute>(attribute), value);
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
