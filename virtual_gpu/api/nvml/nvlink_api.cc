// libnvidia-ml: NVLink. Every link of a device ends at a switch (the boards that the
// GPU descriptions stand for connect their GPUs through NVSwitch), so that all devices
// of a node reach each other.

#include <cstdio>

#include "base/guest/export.h"
#include "virtual_gpu/api/nvml/nvml_state.h"

#define NVML_ENTRY extern "C" VRANK_EXPORT nvmlReturn_t

namespace {

using vrank::gpu::FindDevice;
using vrank::gpu::NvmlDevice;

// Success for links that the device has.
nvmlReturn_t FindLink(nvmlDevice_t handle, unsigned link, const void* out) {
  NvmlDevice device;
  if (nvmlReturn_t status = FindDevice(handle, &device); status != NVML_SUCCESS)
    return status;
  if (link >= NVML_NVLINK_MAX_LINKS || out == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  return link < device.properties().nvlinks ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

}  // namespace

NVML_ENTRY nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned link,
                                    nvmlEnableState_t* active) {
  const nvmlReturn_t status = FindLink(handle, link, active);
  if (status == NVML_SUCCESS)
    *active = NVML_FEATURE_ENABLED;
  return status;
}

NVML_ENTRY nvmlDeviceGetNvLinkCapability(nvmlDevice_t handle, unsigned link,
                                         nvmlNvLinkCapability_t capability,
                                         unsigned* result) {
  if (capability >= NVML_NVLINK_CAP_COUNT)
    return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t status = FindLink(handle, link, result);
  if (status == NVML_SUCCESS)
    *result = capability != NVML_NVLINK_CAP_SLI_BRIDGE;
  return status;
}

NVML_ENTRY nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t handle, unsigned link,
                                               nvmlIntNvLinkDeviceType_t* type) {
  const nvmlReturn_t status = FindLink(handle, link, type);
  if (status == NVML_SUCCESS)
    *type = NVML_NVLINK_DEVICE_TYPE_SWITCH;
  return status;
}

// The switches lie on the buses after the devices'.
NVML_ENTRY nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t handle, unsigned link,
                                               nvmlPciInfo_t* info) {
  const nvmlReturn_t status = FindLink(handle, link, info);
  if (status == NVML_SUCCESS) {
    constexpr unsigned kFirstSwitchBus = 0xc0;
    constexpr unsigned kSwitches = 4;  // as on HGX boards
    vrank::gpu::FillPciInfo(kFirstSwitchBus + link % kSwitches, info);
  }
  return status;
}

NVML_ENTRY nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
                                  nvmlGpuP2PCapsIndex_t capability,
                                  nvmlGpuP2PStatus_t* result) {
  NvmlDevice first, second;
  if (nvmlReturn_t status = FindDevice(one, &first); status != NVML_SUCCESS)
    return status;
  if (nvmlReturn_t status = FindDevice(other, &second); status != NVML_SUCCESS)
    return status;
  if (result == nullptr || capability >= NVML_P2P_CAPS_INDEX_UNKNOWN)
    return NVML_ERROR_INVALID_ARGUMENT;
  const bool linked = first.properties().nvlinks > 0;
  const bool by_link = capability == NVML_P2P_CAPS_INDEX_NVLINK ||
                       capability == NVML_P2P_CAPS_INDEX_ATOMICS;
  *result = by_link && !linked ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
  return NVML_SUCCESS;
}
