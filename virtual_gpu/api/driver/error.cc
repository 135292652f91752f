// libcuda, chapters "Error handling" and "Error log management". The driver's names
// differ from the runtime's; numbers and texts of what both know are the same.

#include <atomic>
#include <cstddef>

#include "virtual_gpu/api/driver/entry.h"

VRANK_CUDA CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
#define VRANK_CUDA_ERROR(error_name, text) \
  case error_name:                         \
    *name = #error_name;                   \
    return CUDA_SUCCESS;
#include "virtual_gpu/api/driver/errors.def"
#undef VRANK_CUDA_ERROR
    default:
      *name = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

VRANK_CUDA CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
#define VRANK_CUDA_ERROR(error_name, error_text) \
  case error_name:                               \
    *text = error_text;                          \
    return CUDA_SUCCESS;
#include "virtual_gpu/api/driver/errors.def"
#undef VRANK_CUDA_ERROR
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
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
