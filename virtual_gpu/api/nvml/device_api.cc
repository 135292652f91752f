// libnvidia-ml: devices and their properties.

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/guest/export.h"
#include "virtual_gpu/api/nvml/nvml_state.h"

#define NVML_ENTRY extern "C" VRANK_EXPORT nvmlReturn_t

namespace {

using vrank::gpu::CheckInitialized;
using vrank::gpu::CopyText;
using vrank::gpu::DeviceIdentity;
using vrank::gpu::DeviceUsage;
using vrank::gpu::FindDevice;
using vrank::gpu::HandleOf;
using vrank::gpu::IdentityOf;
using vrank::gpu::NvmlDevice;
using vrank::gpu::NvmlDeviceCount;
using vrank::protocol::Settings;

// Returns a value that `value(device)` computes.
template <typename T, typename Value>
nvmlReturn_t Answer(nvmlDevice_t handle, T* out, Value value) {
  NvmlDevice device;
  if (nvmlReturn_t status = FindDevice(handle, &device); status != NVML_SUCCESS)
    return status;
  if (out == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  *out = value(device);
  return NVML_SUCCESS;
}

// The first device that `matches(identity)`.
template <typename Matches>
nvmlReturn_t Search(nvmlDevice_t* handle, Matches matches) {
  const Settings* settings;
  if (nvmlReturn_t status = CheckInitialized(&settings); status != NVML_SUCCESS)
    return status;
  if (handle == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  const int count = static_cast<int>(NvmlDeviceCount(*settings));
  for (int index = 0; index < count; ++index) {
    if (matches(IdentityOf(*settings, index))) {
      *handle = HandleOf(index);
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

unsigned Architecture(const NvmlDevice& device) {
  switch (device.properties().compute_major) {
    case 8:
      return device.properties().compute_minor == 9 ? NVML_DEVICE_ARCH_ADA
                                                    : NVML_DEVICE_ARCH_AMPERE;
    case 9:
      return NVML_DEVICE_ARCH_HOPPER;
    case 10:
    case 12:
      return NVML_DEVICE_ARCH_BLACKWELL;
    default:
      return NVML_DEVICE_ARCH_UNKNOWN;
  }
}

}  // namespace

// --- Finding devices -----------------------------------------------------------------
NVML_ENTRY nvmlDeviceGetCount_v2(unsigned* count) {
  const Settings* settings;
  if (nvmlReturn_t status = CheckInitialized(&settings); status != NVML_SUCCESS)
    return status;
  if (count == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  *count = NvmlDeviceCount(*settings);
  return NVML_SUCCESS;
}

NVML_ENTRY nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* handle) {
  const Settings* settings;
  if (nvmlReturn_t status = CheckInitialized(&settings); status != NVML_SUCCESS)
    return status;
  if (handle == nullptr || index >= NvmlDeviceCount(*settings))
    return NVML_ERROR_INVALID_ARGUMENT;
  *handle = HandleOf(static_cast<int>(index));
  return NVML_SUCCESS;
}

// The first version's names, which programs look up by dlsym. (nvml.h maps them.)
#undef nvmlDeviceGetCount
#undef nvmlDeviceGetHandleByIndex
#undef nvmlDeviceGetHandleByPciBusId
NVML_ENTRY nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}
NVML_ENTRY nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

NVML_ENTRY nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* handle) {
  if (uuid == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  return Search(handle, [uuid](const DeviceIdentity& identity) {
    return std::strcmp(uuid, vrank::gpu::FormatUuid(identity).text) == 0;
  });
}

// "domain:bus:device.function", "domain:bus:device" or "bus:device.function",
// hexadecimal.
NVML_ENTRY nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* handle) {
  if (bus_id == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  unsigned domain = 0, bus = 0, card = 0, function = 0;
  if (std::sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &card, &function) < 3) {
    domain = 0;
    if (std::sscanf(bus_id, "%x:%x.%x", &bus, &card, &function) != 3)
      return NVML_ERROR_INVALID_ARGUMENT;
  }
  return Search(handle, [&](const DeviceIdentity& identity) {
    return domain == 0 && identity.pci_bus == bus && card == 0 && function == 0;
  });
}
NVML_ENTRY nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* handle) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, handle);
}

NVML_ENTRY nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned* index) {
  return Answer(handle, index, [](const NvmlDevice& device) {
    return static_cast<unsigned>(device.index);
  });
}

NVML_ENTRY nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned* minor) {
  return nvmlDeviceGetIndex(handle, minor);
}

// --- Identity ------------------------------------------------------------------------
NVML_ENTRY nvmlDeviceGetName(nvmlDevice_t handle, char* name, unsigned length) {
  NvmlDevice device;
  if (nvmlReturn_t status = FindDevice(handle, &device); status != NVML_SUCCESS)
    return status;
  return CopyText(device.properties().name, name, length);
}

NVML_ENTRY nvmlDeviceGetUUID(nvmlDevice_t handle, char* uuid, unsigned length) {
  NvmlDevice device;
  if (nvmlReturn_t status = FindDevice(handle, &device); status != NVML_SUCCESS)
    return status;
  return CopyText(vrank::gpu::FormatUuid(device.identity()).text, uuid, length);
}

NVML_ENTRY nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t* info) {
  return Answer(handle, info, [](const NvmlDevice& device) {
    nvmlPciInfo_t filled;
    vrank::gpu::FillPciInfo(device.identity().pci_bus, &filled);
    return filled;
  });
}

// --- Properties ----------------------------------------------------------------------
NVML_ENTRY nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int* major,
                                              int* minor) {
  if (minor == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  return Answer(handle, major, [minor](const NvmlDevice& device) {
    *minor = static_cast<int>(device.properties().compute_minor);
    return static_cast<int>(device.properties().compute_major);
  });
}

NVML_ENTRY nvmlDeviceGetArchitecture(nvmlDevice_t handle,
                                     nvmlDeviceArchitecture_t* architecture) {
  return Answer(handle, architecture, Architecture);
}

NVML_ENTRY nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, nvmlClockType_t type,
                                     unsigned* megahertz) {
  if (type >= NVML_CLOCK_COUNT)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (type == NVML_CLOCK_VIDEO)
    return NVML_ERROR_NOT_SUPPORTED;
  return Answer(handle, megahertz, [type](const NvmlDevice& device) {
    return (type == NVML_CLOCK_MEM ? device.properties().memory_clock_khz
                                   : device.properties().clock_khz) /
           1000;
  });
}

NVML_ENTRY nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t* memory) {
  NvmlDevice device;
  if (nvmlReturn_t status = FindDevice(handle, &device); status != NVML_SUCCESS)
    return status;
  if (memory == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  DeviceUsage usage;
  if (nvmlReturn_t status = FindUsage(device, &usage); status != NVML_SUCCESS)
    return status;
  const uint64_t used = usage.bytes;
  const uint64_t total = device.properties().memory_bytes;
  *memory = {total, total - used, used};
  return NVML_SUCCESS;
}

NVML_ENTRY nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t* memory) {
  if (memory == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2)
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t plain;
  if (nvmlReturn_t status = nvmlDeviceGetMemoryInfo(handle, &plain);
      status != NVML_SUCCESS)
    return status;
  *memory = {nvmlMemory_v2, plain.total, 0, plain.free, plain.used};
  return NVML_SUCCESS;
}

namespace {

// Of the processes that use the device only this one is listed: ranks that are played
// have no process.
template <typename Info>
nvmlReturn_t RunningProcesses(nvmlDevice_t handle, unsigned* count, Info* processes) {
  NvmlDevice device;
  if (nvmlReturn_t status = FindDevice(handle, &device); status != NVML_SUCCESS)
    return status;
  if (count == nullptr || (*count > 0 && processes == nullptr))
    return NVML_ERROR_INVALID_ARGUMENT;
  DeviceUsage usage;
  if (nvmlReturn_t status = FindUsage(device, &usage); status != NVML_SUCCESS)
    return status;
  const unsigned room = *count;
  *count = usage.own_bytes > 0 ? 1 : 0;
  if (room < *count)
    return NVML_ERROR_INSUFFICIENT_SIZE;
  if (*count == 1) {
    processes[0].pid = static_cast<unsigned>(getpid());
    processes[0].usedGpuMemory = usage.own_bytes;
  }
  return NVML_SUCCESS;
}

}  // namespace

#undef nvmlDeviceGetComputeRunningProcesses
NVML_ENTRY nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned* count,
                                                nvmlProcessInfo_v1_t* processes) {
  return RunningProcesses(handle, count, processes);
}

NVML_ENTRY nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned* count,
                                                   nvmlProcessInfo_t* processes) {
  const nvmlReturn_t status = RunningProcesses(handle, count, processes);
  if (status == NVML_SUCCESS && *count == 1) {
    constexpr unsigned kNoInstance = 0xffffffff;
    processes[0].gpuInstanceId = processes[0].computeInstanceId = kNoInstance;
  }
  return status;
}
