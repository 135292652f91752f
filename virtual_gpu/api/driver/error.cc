// libcuda, chapters "Error handling" and "Error log management". The driver's names
// differ from the runtime's; numbers and texts of what both know are the same.

#include <atomic>
#include <cstddef>

#include "virtual_gpu/api/driver/entry.h"

namespace {

struct Row {
  CUresult error;
  const char* name;
  const char* text;
};

#define VRANK_ROW(error, text) \
  { error, #error, text }
constexpr Row kRows[] = {
    VRANK_ROW(CUDA_SUCCESS, "no error"),
    VRANK_ROW(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    VRANK_ROW(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    VRANK_ROW(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    VRANK_ROW(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    VRANK_ROW(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    VRANK_ROW(CUDA_ERROR_DEVICE_UNAVAILABLE,
              "CUDA-capable device(s) is/are busy or unavailable"),
    VRANK_ROW(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    VRANK_ROW(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    VRANK_ROW(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    VRANK_ROW(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    VRANK_ROW(CUDA_ERROR_NO_BINARY_FOR_GPU,
              "no kernel image is available for execution on the device"),
    VRANK_ROW(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    VRANK_ROW(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    VRANK_ROW(CUDA_ERROR_NOT_READY, "device not ready"),
    VRANK_ROW(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    VRANK_ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
              "too many resources requested for launch"),
    VRANK_ROW(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    VRANK_ROW(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    VRANK_ROW(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
              "part or all of the requested memory range is already mapped"),
    VRANK_ROW(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
              "pointer does not correspond to a registered memory region"),
    VRANK_ROW(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    VRANK_ROW(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    VRANK_ROW(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    VRANK_ROW(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef VRANK_ROW

CUresult Find(CUresult error, const char* Row::*column, const char** text) {
  if (text == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (const Row& row : kRows)
    if (row.error == error) {
      *text = row.*column;
      return CUDA_SUCCESS;
    }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

VRANK_CUDA CUresult cuGetErrorName(CUresult error, const char** name) {
  return Find(error, &Row::name, name);
}

VRANK_CUDA CUresult cuGetErrorString(CUresult error, const char** text) {
  return Find(error, &Row::text, text);
}

// Callbacks for the driver's log, which stays empty here: none is ever called. A handle
// is the address of its place.
namespace {

constexpr size_t kMostCallbacks = 64;
std::atomic<bool> log_callbacks[kMostCallbacks];

}  // namespace

VRANK_CUDA CUresult cuLogsRegisterCallback(CUlogsCallback callback, void*,
                                           CUlogsCallbackHandle* handle) {
  if (callback == nullptr || handle == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::atomic<bool>& taken : log_callbacks)
    if (!taken.exchange(true)) {
      *handle = reinterpret_cast<CUlogsCallbackHandle>(&taken);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

VRANK_CUDA CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  for (std::atomic<bool>& taken : log_callbacks)
    if (reinterpret_cast<CUlogsCallbackHandle>(&taken) == handle &&
        taken.exchange(false))
      return CUDA_SUCCESS;
  return CUDA_ERROR_INVALID_VALUE;
}
