// The texts behind ncclGetLastError and ncclGetErrorString.

#include "virtual_nccl/core/error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "virtual_nccl/core/debug_log.h"

namespace vrank::nccl {
namespace {

constexpr size_t kMessageBytes = 512;

std::mutex newest_mutex;
char newest_of_process[kMessageBytes];

thread_local char newest_of_thread[kMessageBytes];
thread_local char copy_for_thread[kMessageBytes];

}  // namespace

ncclResult_t Fail(Failure failure, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(newest_of_thread, sizeof newest_of_thread, format, arguments);
  va_end(arguments);
  {
    std::lock_guard lock(newest_mutex);
    memcpy(newest_of_process, newest_of_thread, sizeof newest_of_process);
  }
  LogWarning(failure.where, newest_of_thread);
  return failure.result;
}

const char* LastError() {
  if (newest_of_thread[0] != '\0')
    return newest_of_thread;
  std::lock_guard lock(newest_mutex);
  memcpy(copy_for_thread, newest_of_process, sizeof copy_for_thread);
  return copy_for_thread;
}

// The wording of NCCL 2.28.9 (src/init.cc, ncclGetErrorString): programs compare it.
const char* ErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

}  // namespace vrank::nccl
