// libcupti, chapter "Activity API": the clock, ids of contexts, streams, devices and
// threads, what is supported, detaching.

#include <cuda_runtime_api.h>

#include "base/guest/export.h"
#include "virtual_gpu/api/cupti/profiler.h"
#include "virtual_gpu/api/cupti/records.h"

using vrank::cupti::Call;
using vrank::cupti::Profiler;

namespace {

bool IsDevice(Profiler& profiler, CUdevice device) {
  return device >= 0 && device < profiler.gpu().DeviceCount();
}

CUptiResult StreamId(CUcontext context, CUstream stream, bool per_thread,
                     uint32_t* stream_id) {
  return Call([=](Profiler& profiler) {
    if (stream_id == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    if (context != nullptr && profiler.ContextId(context) == 0)
      return CUPTI_ERROR_INVALID_STREAM;
    const bool legacy =
        stream == cudaStreamLegacy || (stream == nullptr && !per_thread);
    if (legacy) {
      *stream_id = vrank::cupti::kNullStream;
      return CUPTI_SUCCESS;
    }
    const void* handle = stream == nullptr ? cudaStreamPerThread : stream;
    vrank::gpu::ActivityStream found;
    if (!profiler.registry().FindStream(handle, &found) ||
        (context != nullptr && found.context != profiler.ContextId(context)))
      return CUPTI_ERROR_INVALID_STREAM;
    *stream_id = found.stream;
    return CUPTI_SUCCESS;
  });
}

}  // namespace

// --- Clock ---------------------------------------------------------------------------

VRANK_CUPTI cuptiGetTimestamp(uint64_t* timestamp) {
  return Call([=](Profiler& profiler) {
    if (timestamp == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *timestamp = profiler.Timestamp();
    return CUPTI_SUCCESS;
  });
}

// --- Ids -----------------------------------------------------------------------------

VRANK_CUPTI cuptiGetContextId(CUcontext context, uint32_t* context_id) {
  return Call([=](Profiler& profiler) {
    const uint32_t id = profiler.ContextId(context);
    if (id == 0)
      return CUPTI_ERROR_INVALID_CONTEXT;
    if (context_id == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *context_id = id;
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t* stream_id) {
  return StreamId(context, stream, false, stream_id);
}
VRANK_CUPTI cuptiGetStreamIdEx(CUcontext context, CUstream stream,
                               uint8_t per_thread_stream, uint32_t* stream_id) {
  return StreamId(context, stream, per_thread_stream != 0, stream_id);
}

VRANK_CUPTI cuptiGetDeviceId(CUcontext context, uint32_t* device_id) {
  return Call([=](Profiler& profiler) {
    if (device_id == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    CUcontext found = context;
    uint32_t id = 0;
    if (context == nullptr ? !profiler.CurrentContext(&found, &id)
                           : profiler.ContextId(context) == 0)
      return CUPTI_ERROR_INVALID_DEVICE;
    *device_id = vrank::cupti::DeviceOfContext(found);
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiGetGraphNodeId(CUgraphNode node, uint64_t* node_id) {
  return Call([=](Profiler& profiler) {
    return node_id != nullptr && profiler.registry().FindNode(node, node_id)
               ? CUPTI_SUCCESS
               : CUPTI_ERROR_INVALID_PARAMETER;
  });
}

VRANK_CUPTI cuptiGetGraphExecId(CUgraphExec exec, uint32_t* exec_id) {
  return Call([=](Profiler& profiler) {
    return exec_id != nullptr && profiler.registry().FindExec(exec, exec_id)
               ? CUPTI_SUCCESS
               : CUPTI_ERROR_INVALID_PARAMETER;
  });
}

VRANK_CUPTI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  return Call([=](Profiler& profiler) {
    if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT &&
        type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
      return CUPTI_ERROR_NOT_SUPPORTED;
    profiler.registry().set_thread_id_type(type);
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  return Call([=](Profiler& profiler) {
    if (type == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *type = profiler.registry().thread_id_type();
    return CUPTI_SUCCESS;
  });
}

// --- Support -------------------------------------------------------------------------

// CUDA 13.0 begins at compute capability 7.5 (its release notes).
VRANK_CUPTI cuptiComputeCapabilitySupported(int major, int minor, int* support) {
  return Call([=](Profiler&) {
    if (support == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *support = major > 7 || (major == 7 && minor >= 5) ? 1 : 0;
    return CUPTI_SUCCESS;
  });
}

VRANK_CUPTI cuptiDeviceSupported(CUdevice device, int* support) {
  return Call([=](Profiler& profiler) {
    if (support == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    if (!IsDevice(profiler, device))
      return CUPTI_ERROR_INVALID_DEVICE;
    *support = 1;
    return CUPTI_SUCCESS;
  });
}

// The GPU that is played is one without a hypervisor.
VRANK_CUPTI cuptiDeviceVirtualizationMode(CUdevice device,
                                          CUpti_DeviceVirtualizationMode* mode) {
  return Call([=](Profiler& profiler) {
    if (mode == nullptr)
      return CUPTI_ERROR_INVALID_PARAMETER;
    if (!IsDevice(profiler, device))
      return CUPTI_ERROR_INVALID_DEVICE;
    *mode = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
    return CUPTI_SUCCESS;
  });
}

// --- Detaching -----------------------------------------------------------------------

VRANK_CUPTI cuptiFinalize() {
  return Call([](Profiler& profiler) {
    profiler.Finalize();
    return CUPTI_SUCCESS;
  });
}
