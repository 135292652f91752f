#include "virtual_gpu/api/nvml/nvml_state.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "virtual_gpu/api/gpu_access.h"

namespace vrank::gpu {
namespace {

constexpr int kMaxDevices = 64;

std::atomic<int> initialized{0};

// Handles are addresses of these bytes.
char handles[kMaxDevices];

const protocol::Settings* FindSettings() {
  Gpu* gpu = FindGpu();
  Channel* channel = gpu != nullptr ? gpu->channel() : nullptr;
  return channel != nullptr ? &channel->settings() : nullptr;
}

}  // namespace

nvmlReturn_t Initialize() {
  if (FindSettings() == nullptr)
    return NVML_ERROR_DRIVER_NOT_LOADED;
  ++initialized;
  return NVML_SUCCESS;
}

nvmlReturn_t Shutdown() {
  int count = initialized.load();
  do {
    if (count == 0)
      return NVML_ERROR_UNINITIALIZED;
  } while (!initialized.compare_exchange_weak(count, count - 1));
  return NVML_SUCCESS;
}

nvmlReturn_t CheckInitialized(const protocol::Settings** settings) {
  if (initialized.load(std::memory_order_relaxed) == 0)
    return NVML_ERROR_UNINITIALIZED;
  *settings = FindSettings();
  SpendAttribute();
  return NVML_SUCCESS;
}

unsigned NvmlDeviceCount(const protocol::Settings& settings) {
  return settings.devices < kMaxDevices ? settings.devices : kMaxDevices;
}

nvmlDevice_t HandleOf(int index) {
  return reinterpret_cast<nvmlDevice_t>(&handles[index]);
}

nvmlReturn_t FindDevice(nvmlDevice_t handle, NvmlDevice* device) {
  if (nvmlReturn_t status = CheckInitialized(&device->settings); status != NVML_SUCCESS)
    return status;
  const auto offset =
      reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(handles);
  if (offset >= NvmlDeviceCount(*device->settings))
    return NVML_ERROR_INVALID_ARGUMENT;
  device->index = static_cast<int>(offset);
  return NVML_SUCCESS;
}

nvmlReturn_t CopyText(std::string_view text, char* out, unsigned length) {
  if (out == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (length < text.size() + 1)
    return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return NVML_SUCCESS;
}

UuidText FormatUuid(const DeviceIdentity& identity) {
  UuidText result;
  char* out = result.text;
  const auto room = [&] { return static_cast<size_t>(std::end(result.text) - out); };
  out += std::snprintf(out, room(), "GPU-");
  for (int i = 0; i < 16; ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    out += std::snprintf(out, room(), "%s%02x", dash ? "-" : "", identity.uuid[i]);
  }
  return result;
}

void FillPciInfo(unsigned bus, nvmlPciInfo_t* info) {
  *info = {};
  info->bus = bus;
  std::snprintf(info->busId, sizeof info->busId, NVML_DEVICE_PCI_BUS_ID_FMT,
                NVML_DEVICE_PCI_BUS_ID_FMT_ARGS(info));
  std::snprintf(info->busIdLegacy, sizeof info->busIdLegacy,
                NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, info->domain & 0xffff,
                info->bus & 0xff, info->device & 0xff);
}

nvmlReturn_t FindUsage(const NvmlDevice& device, DeviceUsage* usage) {
  *usage = {};
  Gpu* gpu = FindGpu();
  const int own = gpu->FindNodeDeviceInUse(device.index);
  if (own < 0)
    return gpu->GetNodeDeviceHeldBytes(device.index, &usage->bytes) == Error::kSuccess
               ? NVML_SUCCESS
               : NVML_ERROR_UNKNOWN;
  // The GPU answers for the thread's device.
  const int current = gpu->CurrentDevice();
  DeviceMemoryInfo info;
  Error error = gpu->SetCurrentDevice(own);
  if (error == Error::kSuccess)
    error = gpu->GetDeviceMemoryInfo(&info);
  const Error back = gpu->SetCurrentDevice(current);
  if (error != Error::kSuccess || back != Error::kSuccess)
    return NVML_ERROR_UNKNOWN;
  *usage = {info.total_bytes - info.free_bytes, info.own_bytes};
  return NVML_SUCCESS;
}

}  // namespace vrank::gpu
