// What a device says about itself: cudaDeviceGetAttribute and cuDeviceGetAttribute.
//
// Both number the attributes alike (cudaDeviceAttr, CUdevice_attribute). Figures of the
// GPU come from its description (protocol::GpuProperties); the rest is what all
// data-centre GPUs since Ampere answer.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_CORE_DEVICE_ATTRIBUTES_H_
#define VRANK_VIRTUAL_GPU_CORE_DEVICE_ATTRIBUTES_H_

#include <cstdint>
#include <optional>

#include "base/guest/protocol.h"

namespace vrank::gpu {

// nullopt for numbers that CUDA 13.0 does not define.
std::optional<int> DeviceAttribute(const protocol::GpuProperties& gpu, int device,
                                   int attribute);

// 16 bytes: the same for one device of one node, whichever rank asks and in every run;
// different for each device of the job. Nodes are told apart by their first rank.
void DeviceUuid(const protocol::Settings& settings, int device, unsigned char* uuid);

// The device's place on the PCI bus: domain 0, bus DeviceBus(device), slot 0. Equal in
// all nodes, as in machines of one make. Different for up to 128 devices of a node.
inline int DeviceBus(int device) {
  return 0x10 + device % 8 * 0x10 + device / 8;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_DEVICE_ATTRIBUTES_H_
