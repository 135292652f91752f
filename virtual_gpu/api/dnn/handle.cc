// libcudnn: handles, version and messages.

#include "virtual_gpu/api/dnn/handle.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/guest/export.h"
#include "base/guest/thread_value.h"
#include "virtual_gpu/api/gpu_access.h"

#define CUDNN_ENTRY(type) extern "C" VRANK_EXPORT type

namespace vrank::gpu::dnn {
namespace {

// What the first handle on a device takes (measured on an H100 and an H200;
// docs/models.md, "GPU properties").
constexpr uint64_t kFirstHandleBytes = uint64_t{16} << 20;

// Devices by bits. One bit per handle that has the device's memory.
std::atomic<uint64_t> devices_with_memory{0};

// False: there is no memory left.
bool TakeMemory(cudnnContext* handle) {
  const uint64_t bit = uint64_t{1} << (handle->device & 63);
  if ((devices_with_memory.fetch_or(bit) & bit) != 0)
    return true;
  handle->memory = FindVirtualGpuTable()->gpu->Reserve(
      handle->device, kFirstHandleBytes, protocol::MemoryOwner::kProgram);
  if (handle->memory == 0)
    devices_with_memory.fetch_and(~bit);
  return handle->memory != 0;
}

void GiveBackMemory(cudnnContext* handle) {
  if (handle->memory == 0)
    return;
  FindVirtualGpuTable()->gpu->GiveBack(handle->device, handle->memory);
  devices_with_memory.fetch_and(~(uint64_t{1} << (handle->device & 63)));
}

struct Messages {
  std::string last;
};

std::string& LastMessage() {
  return ThreadValue<Messages>::Mine().last;
}

}  // namespace

int Fail(Status status, std::string message) {
  LastMessage() = std::move(message);
  return status;
}

}  // namespace vrank::gpu::dnn

using vrank::gpu::dnn::Fail;
using vrank::gpu::dnn::IsHandle;

CUDNN_ENTRY(size_t) cudnnGetVersion() {
  return vrank::gpu::dnn::kVersion;
}

CUDNN_ENTRY(size_t) cudnnGetCudartVersion() {
  return vrank::gpu::dnn::kCudartVersion;
}

CUDNN_ENTRY(int) cudnnGetProperty(int type, int* value) {
  constexpr int kNumbers[] = {vrank::gpu::dnn::kMajor, vrank::gpu::dnn::kMinor,
                              vrank::gpu::dnn::kPatch};  // libraryPropertyType
  if (value == nullptr || type < 0 || type > 2)
    return Fail(vrank::gpu::dnn::kBadParam, "cudnnGetProperty: no such property");
  *value = kNumbers[type];
  return vrank::gpu::dnn::kSuccess;
}

CUDNN_ENTRY(int) cudnnCreate(cudnnContext** handle) {
  if (handle == nullptr)
    return Fail(vrank::gpu::dnn::kBadParamNullPointer, "cudnnCreate: no handle");
  vrank::gpu::Gpu* const gpu = vrank::gpu::FindGpu();
  if (gpu == nullptr || gpu->Ready() != vrank::gpu::Error::kSuccess)
    return Fail(vrank::gpu::dnn::kNotInitialized, "cudnnCreate: no GPU");
  const int device = std::max(gpu->CurrentDevice(), 0);
  if (gpu->EnsureContext(device) != vrank::gpu::Error::kSuccess)
    return Fail(vrank::gpu::dnn::kNotInitialized, "cudnnCreate: no context");
  gpu->channel()->Spend(vrank::HostCost::kCreate);
  auto* const made = new (std::nothrow) cudnnContext{.device = device};
  if (made == nullptr)
    return Fail(vrank::gpu::dnn::kHostAllocationFailed, "cudnnCreate: no memory");
  if (!vrank::gpu::dnn::TakeMemory(made)) {
    delete made;
    return Fail(vrank::gpu::dnn::kDeviceAllocationFailed,
                "cudnnCreate: no device memory is left");
  }
  *handle = made;
  return vrank::gpu::dnn::kSuccess;
}

CUDNN_ENTRY(int) cudnnDestroy(cudnnContext* handle) {
  if (!IsHandle(handle))
    return Fail(vrank::gpu::dnn::kBadParam, "cudnnDestroy: no handle");
  vrank::gpu::SpendAttribute();
  vrank::gpu::dnn::GiveBackMemory(handle);
  handle->magic = 0;
  delete handle;
  return vrank::gpu::dnn::kSuccess;
}

CUDNN_ENTRY(int) cudnnSetStream(cudnnContext* handle, void* stream) {
  if (!IsHandle(handle))
    return Fail(vrank::gpu::dnn::kBadParam, "cudnnSetStream: no handle");
  vrank::gpu::SpendAttribute();
  handle->stream = stream;
  return vrank::gpu::dnn::kSuccess;
}

CUDNN_ENTRY(int) cudnnGetStream(cudnnContext* handle, void** stream) {
  if (!IsHandle(handle) || stream == nullptr)
    return Fail(vrank::gpu::dnn::kBadParam, "cudnnGetStream: no handle, or no result");
  vrank::gpu::SpendAttribute();
  *stream = handle->stream;
  return vrank::gpu::dnn::kSuccess;
}

// The names of cudnnStatus_t that this library returns.
CUDNN_ENTRY(const char*) cudnnGetErrorString(int status) {
  switch (status) {
    case vrank::gpu::dnn::kSuccess:
      return "CUDNN_STATUS_SUCCESS";
    case vrank::gpu::dnn::kNotInitialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case vrank::gpu::dnn::kBadParam:
      return "CUDNN_STATUS_BAD_PARAM";
    case vrank::gpu::dnn::kBadParamNullPointer:
      return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case vrank::gpu::dnn::kBadParamNotFinalized:
      return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case vrank::gpu::dnn::kBadParamSizeInsufficient:
      return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case vrank::gpu::dnn::kBadParamAttributeType:
      return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case vrank::gpu::dnn::kBadParamDescriptorType:
      return "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE";
    case vrank::gpu::dnn::kNotSupported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case vrank::gpu::dnn::kNotSupportedGraphPattern:
      return "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN";
    case vrank::gpu::dnn::kHostAllocationFailed:
      return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case vrank::gpu::dnn::kExecutionFailed:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}

// Of the calling thread's last failed call; asked once.
CUDNN_ENTRY(void) cudnnGetLastErrorString(char* message, size_t bytes) {
  if (message == nullptr || bytes == 0)
    return;
  const size_t used = std::min(bytes - 1, vrank::gpu::dnn::LastMessage().size());
  std::memcpy(message, vrank::gpu::dnn::LastMessage().data(), used);
  message[used] = '\0';
  vrank::gpu::dnn::LastMessage().clear();
}
