// cudart, chapters "Device management" and "Peer device memory access".

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/guest/channel.h"
#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/registry.h"
#include "virtual_gpu/core/device_attributes.h"

using vrank::gpu::Call;
using vrank::gpu::DeviceInUse;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::Leave;
using vrank::gpu::Registry;

namespace {

// What programs set and read back; kernels do not run, so nothing depends on it.
std::atomic<unsigned> device_flags{cudaDeviceScheduleAuto};
// Defaults of CUDA 13 on data-centre GPUs, by cudaLimit.
std::atomic<size_t> limits[] = {1024, size_t{1} << 20, size_t{8} << 20};

bool IsDevice(Gpu& gpu, int device) {
  return device >= 0 && device < gpu.DeviceCount();
}

// A launcher (deepspeed) counts the node's GPUs to know how many ranks to start, and
// uses none. 0: this process is none.
int LauncherDeviceCount() {
  const char* const count = getenv("VRANK_LAUNCHER_GPUS");
  return count == nullptr || vrank::FindChannel() != nullptr ? 0 : atoi(count);
}

}  // namespace

// A thread's device stays what it is when that has failed: PyTorch asks for it, and
// sets it back, in destructors, which must not throw.
static bool StaysAfter(Error fault, Gpu& gpu) {
  return (fault == Error::kAssert || fault == Error::kIllegalAddress) &&
         gpu.CurrentDevice() >= 0;
}

VRANK_CUDART cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr)
    return Leave(cudaErrorInvalidValue);
  *count = LauncherDeviceCount();
  if (*count > 0)
    return Leave(cudaSuccess);
  return Call([&](Gpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.Ready());
    *count = gpu.DeviceCount();
    return *count > 0 ? Error::kSuccess : Error::kNoDevice;
  });
}

VRANK_CUDART cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    if (const Error error = gpu.Ready(); !StaysAfter(error, gpu))
      VRANK_RETURN_IF_FAILED(error);
    *device = DeviceInUse(gpu);
    return Error::kSuccess;
  });
}

// Since CUDA 12 this creates the context, too.
VRANK_CUDART cudaError_t cudaSetDevice(int device) {
  return Call([&](Gpu& gpu) {
    const Error error = gpu.Ready();
    if (StaysAfter(error, gpu) && gpu.CurrentDevice() == device)
      return Error::kSuccess;
    VRANK_RETURN_IF_FAILED(error);
    if (!IsDevice(gpu, device))
      return Error::kInvalidDevice;
    VRANK_RETURN_IF_FAILED(gpu.SetCurrentDevice(device));
    return gpu.EnsureContext(device);
  });
}

VRANK_CUDART cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return Call([&](Gpu& gpu) { return gpu.EnsureContext(device); });
}

VRANK_CUDART cudaError_t cudaSetDeviceFlags(unsigned flags) {
  if ((flags & ~static_cast<unsigned>(cudaDeviceMask)) != 0)
    return Leave(cudaErrorInvalidValue);
  device_flags = flags;
  return cudaSuccess;
}

VRANK_CUDART cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr)
    return Leave(cudaErrorInvalidValue);
  *flags = device_flags | cudaDeviceMapHost;
  return cudaSuccess;
}

VRANK_CUDART cudaError_t cudaDeviceSynchronize() {
  return Call([](Gpu& gpu) { return gpu.SynchronizeDevice(); });
}

VRANK_CUDART cudaError_t cudaDeviceReset() {
  return Call([](Gpu& gpu) {
    const int device = DeviceInUse(gpu);
    VRANK_RETURN_IF_FAILED(gpu.DestroyContext(device));
    Registry::Get().ForgetDevice(device);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                                int device) {
  return Call([&](Gpu& gpu) {
    return gpu.GetDeviceAttribute(device, static_cast<int>(attribute), value);
  });
}

VRANK_CUDART cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call([&](Gpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.Ready());
    if (least != nullptr)
      *least = 0;
    if (greatest != nullptr)
      *greatest = vrank::gpu::kHighestPriority;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (value == nullptr)
    return Leave(cudaErrorInvalidValue);
  if (limit < cudaLimitStackSize || limit > cudaLimitMallocHeapSize)
    return Leave(cudaErrorUnsupportedLimit);
  *value = limits[limit];
  return cudaSuccess;
}

VRANK_CUDART cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  if (limit < cudaLimitStackSize || limit > cudaLimitMallocHeapSize)
    return Leave(cudaErrorUnsupportedLimit);
  limits[limit] = value;
  return cudaSuccess;
}

VRANK_CUDART cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return Call([&](Gpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.Ready());
    if (!IsDevice(gpu, device))
      return Error::kInvalidDevice;
    if (text == nullptr || length <= 0)
      return Error::kInvalidValue;
    snprintf(text, static_cast<size_t>(length), "%04x:%02x:%02x.0", 0,
             static_cast<unsigned>(vrank::gpu::DeviceBus(gpu.NodeDevice(device))), 0);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return Call([&](Gpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.Ready());
    if (device == nullptr || text == nullptr)
      return Error::kInvalidValue;
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
        sscanf(text, "%x:%x", &bus, &slot) != 2)
      return Error::kInvalidValue;
    for (int i = 0; i < gpu.DeviceCount(); ++i)
      if (domain == 0 && slot == 0 &&
          bus == static_cast<unsigned>(vrank::gpu::DeviceBus(gpu.NodeDevice(i)))) {
        *device = i;
        return Error::kSuccess;
      }
    return Error::kInvalidDevice;
  });
}

// --- Peers: all devices of a process are joined by NVLink or PCIe
// ----------------------

VRANK_CUDART cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return Call([&](Gpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.Ready());
    if (!IsDevice(gpu, device) || !IsDevice(gpu, peer))
      return Error::kInvalidDevice;
    if (can == nullptr)
      return Error::kInvalidValue;
    *can = device != peer ? 1 : 0;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) { return gpu.EnablePeerAccess(peer); });
}

VRANK_CUDART cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return Call([&](Gpu& gpu) { return gpu.DisablePeerAccess(peer); });
}

VRANK_CUDART cudaError_t cudaDeviceGetP2PAttribute(int* value,
                                                   cudaDeviceP2PAttr attribute,
                                                   int device, int peer) {
  return Call([&](Gpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.Ready());
    if (!IsDevice(gpu, device) || !IsDevice(gpu, peer) || device == peer)
      return Error::kInvalidDevice;
    if (value == nullptr)
      return Error::kInvalidValue;
    *value = attribute == cudaDevP2PAttrPerformanceRank ? 0 : 1;
    return Error::kSuccess;
  });
}
