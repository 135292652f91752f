// libcuda, chapters "Device management", "Primary context management", "Context
// management".

#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/guest/thread_value.h"
#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/core/device_attributes.h"

using vrank::gpu::Call;
using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::ProcessGpu;

namespace {

constexpr int kMaxDevices = 64;

// cuDevicePrimaryCtxRetain and Release; the runtime holds no count of its own.
std::atomic<int> retained[kMaxDevices];
std::atomic<unsigned> primary_flags[kMaxDevices];

// Contexts below the current one, per thread.
struct ContextsBelow {
  std::vector<int> devices;
};
std::vector<int>& Below() {
  return vrank::ThreadValue<ContextsBelow>::Mine().devices;
}

CUcontext ContextOf(int device) {
  return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device + 1));
}

// -1 for the null context.
int DeviceOf(CUcontext context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
}

bool IsDevice(ProcessGpu& gpu, int device) {
  return device >= 0 && device < gpu.DeviceCount() && device < kMaxDevices;
}

// Runs `step(gpu)` for a valid device and a place for the answer.
template <typename Step>
CUresult AboutDevice(CUdevice device, const void* answer, Step step,
                     const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](ProcessGpu& gpu) {
        if (answer == nullptr)
          return Error::kInvalidValue;
        return IsDevice(gpu, device) ? step(gpu) : Error::kInvalidDevice;
      },
      api);
}

}  // namespace

// --- Devices
// ---------------------------------------------------------------------------

VRANK_CUDA CUresult cuDeviceGetCount(int* count) {
  return Call([&](ProcessGpu& gpu) {
    if (count == nullptr)
      return Error::kInvalidValue;
    *count = gpu.DeviceCount();
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return AboutDevice(ordinal, device, [&](ProcessGpu&) {
    *device = ordinal;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return AboutDevice(device, name, [&](ProcessGpu& gpu) {
    if (length <= 0)
      return Error::kInvalidValue;
    snprintf(name, static_cast<size_t>(length), "%s",
             gpu.channel()->settings().gpu.name);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return AboutDevice(device, uuid, [&](ProcessGpu& gpu) {
    unsigned char bytes[16];
    vrank::gpu::DeviceUuid(gpu.channel()->settings(), gpu.NodeDevice(device), bytes);
    std::memcpy(uuid->bytes, bytes, sizeof bytes);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return AboutDevice(device, bytes, [&](ProcessGpu& gpu) {
    *bytes = gpu.channel()->settings().gpu.memory_bytes;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                         CUdevice device) {
  return Call([&](ProcessGpu& gpu) {
    return gpu.GetDeviceAttribute(device, static_cast<int>(attribute), value);
  });
}

VRANK_CUDA CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return AboutDevice(device, text, [&](ProcessGpu& gpu) {
    if (length <= 0)
      return Error::kInvalidValue;
    snprintf(text, static_cast<size_t>(length), "%04x:%02x:%02x.0", 0,
             static_cast<unsigned>(vrank::gpu::DeviceBus(gpu.NodeDevice(device))), 0);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return AboutDevice(device, can, [&](ProcessGpu& gpu) {
    if (!IsDevice(gpu, peer))
      return Error::kInvalidDevice;
    *can = device != peer ? 1 : 0;
    return Error::kSuccess;
  });
}

// --- Primary contexts
// --------------------------------------------------------------------

VRANK_CUDA CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return AboutDevice(device, context, [&](ProcessGpu& gpu) {
    VRANK_RETURN_IF_FAILED(gpu.EnsureContext(device));
    ++retained[device];
    *context = ContextOf(device);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return Call([&](ProcessGpu& gpu) {
    if (!IsDevice(gpu, device))
      return Error::kInvalidDevice;
    if (retained[device] == 0)
      return Error::kInvalidContext;
    return --retained[device] == 0 ? gpu.DestroyContext(device) : Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return Call([&](ProcessGpu& gpu) { return gpu.DestroyContext(device); });
}

VRANK_CUDA CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return Call([&](ProcessGpu& gpu) {
    if (!IsDevice(gpu, device))
      return Error::kInvalidDevice;
    primary_flags[device] = flags;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags,
                                               int* active) {
  return AboutDevice(device, active, [&](ProcessGpu& gpu) {
    if (flags != nullptr)
      *flags = primary_flags[device];
    *active = gpu.ContextIsActive(device) ? 1 : 0;
    return Error::kSuccess;
  });
}

// --- Contexts
// ----------------------------------------------------------------------------

VRANK_CUDA CUresult cuCtxGetCurrent(CUcontext* context) {
  return Call([&](ProcessGpu& gpu) {
    if (context == nullptr)
      return Error::kInvalidValue;
    const int device = gpu.CurrentDevice();
    // A device that was chosen and not yet used has no context.
    *context = gpu.ContextIsActive(device) ? ContextOf(device) : nullptr;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuCtxSetCurrent(CUcontext context) {
  return Call([&](ProcessGpu& gpu) {
    const int device = DeviceOf(context);
    if (device >= 0 && !gpu.ContextIsActive(device))
      return Error::kInvalidContext;
    return gpu.SetCurrentDevice(device);
  });
}

VRANK_CUDA CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return Call([&](ProcessGpu& gpu) {
    if (!gpu.ContextIsActive(DeviceOf(context)))
      return Error::kInvalidContext;
    Below().push_back(gpu.CurrentDevice());
    return gpu.SetCurrentDevice(DeviceOf(context));
  });
}

VRANK_CUDA CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (context != nullptr)
      *context = ContextOf(gpu.CurrentDevice());
    std::vector<int>& below = Below();
    const int device = below.empty() ? -1 : below.back();
    if (!below.empty())
      below.pop_back();
    return gpu.SetCurrentDevice(device);
  });
}

VRANK_CUDA CUresult cuCtxGetDevice(CUdevice* device) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (device == nullptr)
      return Error::kInvalidValue;
    *device = gpu.CurrentDevice();
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuCtxGetFlags(unsigned* flags) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (flags == nullptr)
      return Error::kInvalidValue;
    *flags = primary_flags[gpu.CurrentDevice()];
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuCtxSynchronize() {
  return CallInContext([](ProcessGpu& gpu) { return gpu.SynchronizeDevice(); });
}

VRANK_CUDA CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return CallInContext([&](ProcessGpu&) {
    if (least != nullptr)
      *least = 0;
    if (greatest != nullptr)
      *greatest = vrank::gpu::kHighestPriority;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  return Call([&](ProcessGpu&) {
    if (version == nullptr)
      return Error::kInvalidValue;
    *version = CUDA_VERSION;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return CallInContext([&](ProcessGpu& gpu) {
    return flags != 0 ? Error::kInvalidValue : gpu.EnablePeerAccess(DeviceOf(peer));
  });
}

VRANK_CUDA CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.DisablePeerAccess(DeviceOf(peer)); });
}

// The forms of CUDA 13, which name the context; null means the current one.
VRANK_CUDA CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  if (context == nullptr)
    return cuCtxGetDevice(device);
  return AboutDevice(DeviceOf(context), device, [&](ProcessGpu&) {
    *device = DeviceOf(context);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuCtxSynchronize_v2(CUcontext context) {
  if (context == nullptr)
    return cuCtxSynchronize();
  return Call([&](ProcessGpu& gpu) {
    const int before = gpu.CurrentDevice();
    if (!gpu.ContextIsActive(DeviceOf(context)))
      return Error::kInvalidContext;
    VRANK_RETURN_IF_FAILED(gpu.SetCurrentDevice(DeviceOf(context)));
    const Error result = gpu.SynchronizeDevice();
    VRANK_RETURN_IF_FAILED(gpu.SetCurrentDevice(before));
    return result;
  });
}
