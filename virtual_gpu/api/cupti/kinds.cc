#include "virtual_gpu/api/cupti/kinds.h"

#include <string>

#include "virtual_gpu/api/cupti/profiler.h"
#include "virtual_gpu/api/cupti/records.h"

namespace vrank::cupti {

CUptiResult CheckKind(const char* function, CUpti_ActivityKind kind) {
  if (RecordBytes(kind) != 0)
    return CUPTI_SUCCESS;
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT)
    return CUPTI_ERROR_INVALID_KIND;
  switch (kind) {
    // "Enabling it will return the error code
    // CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED" (cupti_activity.h)
    case CUPTI_ACTIVITY_KIND_SOURCE_LOCATOR:
    case CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS:
    case CUPTI_ACTIVITY_KIND_BRANCH:
    case CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION:
    case CUPTI_ACTIVITY_KIND_SHARED_ACCESS:
    case CUPTI_ACTIVITY_KIND_PC_SAMPLING:
    case CUPTI_ACTIVITY_KIND_PC_SAMPLING_RECORD_INFO:
    case CUPTI_ACTIVITY_KIND_INSTRUCTION_CORRELATION:
      return CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED;
    default:
      Refuse((std::string(function) + " of activity kind " +
              std::to_string(static_cast<int>(kind)))
                 .c_str());
      return CUPTI_ERROR_INVALID_KIND;
  }
}

bool BelongsToContext(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
    case CUPTI_ACTIVITY_KIND_MEMSET:
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
    case CUPTI_ACTIVITY_KIND_STREAM:
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return true;
    default:
      return false;
  }
}

}  // namespace vrank::cupti
