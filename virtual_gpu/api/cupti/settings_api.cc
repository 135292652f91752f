// libcupti, chapter "Activity API": switches and attributes.
//
// A switch is accepted where what it asks for is what happens. Asking for something
// that the virtual GPU does not tell (latency timestamps, launch attributes, records of
// queries, ...) is refused with CUPTI_ERROR_NOT_SUPPORTED; asking not to have it
// succeeds.

#include <atomic>
#include <cstring>

#include "base/guest/export.h"
#include "virtual_gpu/api/cupti/profiler.h"

using vrank::cupti::Call;
using vrank::cupti::Profiler;
using vrank::cupti::Selection;

namespace {

// For features that are always off.
CUptiResult OnlyOff(const char* function, uint8_t enable) {
  return Call([=](Profiler&) {
    if (enable == 0)
      return CUPTI_SUCCESS;
    vrank::cupti::Refuse(function);
    return CUPTI_ERROR_NOT_SUPPORTED;
  });
}

CUptiResult SetFunction(bool is_driver, uint32_t cbid, uint8_t enable) {
  return Call([=](Profiler& profiler) {
    if (vrank::cupti::RowOf(is_driver, cbid) == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    profiler.Select([=](Selection* selection) {
      selection->SetFunction(is_driver, cbid, enable != 0);
    });
    return CUPTI_SUCCESS;
  });
}

// An attribute that can be set. Those that shape CUPTI's buffers in device memory are
// kept and have nothing to shape: the virtual GPU needs no such buffers.
struct Attribute {
  CUpti_ActivityAttribute attribute;
  size_t bytes;  // of its type: size_t or uint8_t
  std::atomic<uint64_t> value;
};
Attribute attributes[] = {
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, sizeof(size_t), 8388608},
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, sizeof(size_t), 250},
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, sizeof(size_t), 3},
    {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS, sizeof(size_t), 16777216},
    {CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, sizeof(uint8_t), 0},
    {CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, sizeof(uint8_t), 0},
    // NVIDIA's default is 1. Here records come from one thread, hence share buffers.
    {CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, sizeof(uint8_t), 0},
};

// Finds the attribute and checks the room for its value.
CUptiResult Find(CUpti_ActivityAttribute attribute, const size_t* bytes,
                 const void* value, Attribute** found) {
  if (bytes == nullptr || value == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  switch (attribute) {
    // Dynamic parallelism and semaphore pools: gone since CUDA 12.
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP:
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE:
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT:
    case CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE:
      return CUPTI_ERROR_NOT_SUPPORTED;
    default:
      break;
  }
  for (Attribute& row : attributes) {
    if (row.attribute != attribute)
      continue;
    *found = &row;
    return *bytes < row.bytes ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT
                              : CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

}  // namespace

// --- Switches ------------------------------------------------------------------------

VRANK_CUPTI cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  return SetFunction(true, cbid, enable);
}
VRANK_CUPTI cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  return SetFunction(false, cbid, enable);
}

VRANK_CUPTI cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) {
  return Call([=](Profiler& profiler) {
    profiler.set_event_times(enable != 0);
    return CUPTI_SUCCESS;
  });
}

// The virtual GPU tells of waits, not of queries.
VRANK_CUPTI cuptiActivityEnableAllSyncRecords(uint8_t enable) {
  return OnlyOff("cuptiActivityEnableAllSyncRecords(1)", enable);
}
VRANK_CUPTI cuptiActivityEnableLatencyTimestamps(uint8_t enable) {
  return OnlyOff("cuptiActivityEnableLatencyTimestamps(1)", enable);
}
VRANK_CUPTI cuptiActivityEnableLaunchAttributes(uint8_t enable) {
  return OnlyOff("cuptiActivityEnableLaunchAttributes(1)", enable);
}
VRANK_CUPTI cuptiActivityEnableDeviceGraph(uint8_t enable) {
  return OnlyOff("cuptiActivityEnableDeviceGraph(1)", enable);
}
VRANK_CUPTI cuptiActivityEnableHWTrace(uint8_t enable) {
  return OnlyOff("cuptiActivityEnableHWTrace(1)", enable);
}
VRANK_CUPTI cuptiActivityEnableAllocationSource(uint8_t enable) {
  return OnlyOff("cuptiActivityEnableAllocationSource(1)", enable);
}

VRANK_CUPTI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc callback) {
  return Call([=](Profiler& profiler) {
    if (callback == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    profiler.SetClock(callback);
    return CUPTI_SUCCESS;
  });
}

// There is no managed memory on a virtual GPU.
VRANK_CUPTI cuptiActivityConfigureUnifiedMemoryCounter(
    CUpti_ActivityUnifiedMemoryCounterConfig* config, uint32_t count) {
  return Call([=](Profiler&) {
    if (config == nullptr || count == 0)
      return CUPTI_ERROR_INVALID_PARAMETER;
    return CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE;
  });
}

// --- Attributes ----------------------------------------------------------------------

VRANK_CUPTI cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t* bytes,
                                      void* value) {
  return Call([=](Profiler&) {
    Attribute* row = nullptr;
    if (CUptiResult result = Find(attribute, bytes, value, &row);
        result != CUPTI_SUCCESS)
      return result;
    const uint64_t stored = row->value.load();
    std::memcpy(value, &stored, row->bytes);  // little-endian
    *bytes = row->bytes;
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* bytes,
                                      void* value) {
  return Call([=](Profiler& profiler) {
    Attribute* row = nullptr;
    if (CUptiResult result = Find(attribute, bytes, value, &row);
        result != CUPTI_SUCCESS)
      return result;
    uint64_t wanted = 0;
    std::memcpy(&wanted, value, row->bytes);
    if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER && wanted != 0) {
      vrank::cupti::Refuse("CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER");
      return CUPTI_ERROR_NOT_SUPPORTED;
    }
    if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
      profiler.buffers().set_clears(wanted == 0);
    row->value.store(wanted);
    return CUPTI_SUCCESS;
  });
}
