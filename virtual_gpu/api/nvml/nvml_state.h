// What libnvidia-ml knows: whether it is initialised, and which devices there are.
//
// NVML creates no CUDA context and works in forked children. All that it says here
// comes from the GPU description of the run, except used memory, which is this
// process's own.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_NVML_NVML_STATE_H_
#define VRANK_VIRTUAL_GPU_API_NVML_NVML_STATE_H_

#include <nvml.h>

#include <string_view>

#include "base/guest/protocol.h"
#include "virtual_gpu/core/device_attributes.h"

namespace vrank::gpu {

// Which card a device is; the runtime and the driver say the same.
struct DeviceIdentity {
  unsigned char uuid[16];
  unsigned pci_bus;  // in domain 0, as card 0
};
inline DeviceIdentity IdentityOf(const protocol::Settings& settings, int device) {
  DeviceIdentity identity;
  DeviceUuid(settings, device, identity.uuid);
  identity.pci_bus = static_cast<unsigned>(DeviceBus(device));
  return identity;
}

// One device of an initialised library.
struct NvmlDevice {
  int index = 0;
  const protocol::Settings* settings = nullptr;

  const protocol::GpuProperties& properties() const { return settings->gpu; }
  DeviceIdentity identity() const { return IdentityOf(*settings, index); }
};

// Calls of Initialize and Shutdown are counted, as in NVML.
nvmlReturn_t Initialize();
nvmlReturn_t Shutdown();

// NVML_ERROR_UNINITIALIZED or success; the settings, where that is a success.
nvmlReturn_t CheckInitialized(const protocol::Settings** settings);

unsigned NvmlDeviceCount(const protocol::Settings& settings);
nvmlDevice_t HandleOf(int index);
nvmlReturn_t FindDevice(nvmlDevice_t handle, NvmlDevice* device);

// Writes `text` with its terminator; NVML_ERROR_INSUFFICIENT_SIZE where it does not
// fit.
nvmlReturn_t CopyText(std::string_view text, char* out, unsigned length);

// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
struct UuidText {
  char text[41];
};
UuidText FormatUuid(const DeviceIdentity& identity);
void FillPciInfo(unsigned bus, nvmlPciInfo_t* info);

// What of the device's memory is in use, by the processes of all ranks that use it, and
// by this one.
struct DeviceUsage {
  uint64_t bytes = 0, own_bytes = 0;
};
nvmlReturn_t FindUsage(const NvmlDevice& device, DeviceUsage* usage);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_NVML_NVML_STATE_H_
