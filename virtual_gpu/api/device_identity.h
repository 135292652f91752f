// Which card a device number is: the UUID and the place on the PCI bus that the
// runtime, the driver and NVML report alike.
//
// Both follow from the node and the device number alone, so that ranks of one node
// agree on them, ranks of other nodes differ, and every run says the same.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_API_DEVICE_IDENTITY_H_
#define VRANK_VIRTUAL_GPU_API_DEVICE_IDENTITY_H_

#include <cstdint>
#include <cstring>

#include "base/guest/protocol.h"

namespace vrank::gpu {

struct DeviceIdentity {
  unsigned char uuid[16];
  uint32_t pci_domain;
  uint32_t pci_bus;
  uint32_t pci_device;
};

inline DeviceIdentity IdentityOf(const protocol::Settings& settings, int device) {
  const uint32_t per_node =
      settings.local_world_size > 0 ? settings.local_world_size : 1;
  const uint32_t node = settings.rank / per_node;
  // A version 8 UUID ("custom"): "vrank", then node and device, big-endian.
  DeviceIdentity identity = {{'v', 'r', 'a', 'n', 'k', 0, 0x80, 0, 0x80}, 0, 0, 0};
  for (int i = 0; i < 4; ++i)
    identity.uuid[10 + i] = static_cast<unsigned char>(node >> (24 - 8 * i));
  identity.uuid[15] = static_cast<unsigned char>(device);
  // Every card on a bus of its own, eight numbers apart.
  identity.pci_bus = 8 * (static_cast<uint32_t>(device) + 1);
  return identity;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_DEVICE_IDENTITY_H_
