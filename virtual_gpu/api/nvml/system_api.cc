// libnvidia-ml: initialisation, versions, error texts.

#include <cstdio>

#include "base/guest/export.h"
#include "virtual_gpu/api/nvml/nvml_state.h"

#define NVML_ENTRY extern "C" VRANK_EXPORT nvmlReturn_t

namespace {

using vrank::gpu::CheckInitialized;
using vrank::gpu::CopyText;

// The driver that CUDA 13.0 asks for at least (CUDA Toolkit Release Notes, table 2).
constexpr const char* kDriverVersion = "580.65.06";
constexpr int kCudaVersion = 13000;

const char* TextOf(nvmlReturn_t status) {
  switch (status) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
      return "Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument version mismatch";
    default:
      return "Unknown Error";
  }
}

}  // namespace

NVML_ENTRY nvmlInit_v2() {
  return vrank::gpu::Initialize();
}
#undef nvmlInit  // The first version's name, which programs look up by dlsym.
NVML_ENTRY nvmlInit() {
  return nvmlInit_v2();
}
NVML_ENTRY nvmlInitWithFlags(unsigned) {
  return vrank::gpu::Initialize();
}
NVML_ENTRY nvmlShutdown() {
  return vrank::gpu::Shutdown();
}

extern "C" VRANK_EXPORT const char* nvmlErrorString(nvmlReturn_t status) {
  return TextOf(status);
}

NVML_ENTRY nvmlSystemGetDriverVersion(char* version, unsigned length) {
  const vrank::protocol::Settings* settings;
  nvmlReturn_t status = CheckInitialized(&settings);
  return status == NVML_SUCCESS ? CopyText(kDriverVersion, version, length) : status;
}

// "13." and the driver's version, as NVML writes it.
NVML_ENTRY nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  const vrank::protocol::Settings* settings;
  if (nvmlReturn_t status = CheckInitialized(&settings); status != NVML_SUCCESS)
    return status;
  char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];
  std::snprintf(text, sizeof text, "%d.%s", NVML_API_VERSION, kDriverVersion);
  return CopyText(text, version, length);
}

NVML_ENTRY nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  *version = kCudaVersion;
  return NVML_SUCCESS;
}
NVML_ENTRY nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}
