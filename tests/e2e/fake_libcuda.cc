// A libcuda.so.1 that is not ours, with a device of host threads behind it: what
// libnccl asks of NVIDIA's where it holds streams of a real GPU. One hardware queue.
//
// Thread rule: as CUDA's driver API.

#include <cuda.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "gpu_hold/hold_shape.h"
#include "tests/gpu_hold/fake_device.h"

namespace {

using vrank::hold::FakeDevice;

// Never destroyed: the process may end with work on it, as with a GPU's.
FakeDevice& Device() {
  static auto* const device = new FakeDevice;
  return *device;
}

CUcontext Context() {
  static int context = 0;
  return reinterpret_cast<CUcontext>(&context);
}

thread_local int depth = 0;

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) CUresult

EXPORT cuInit(unsigned) {
  return CUDA_SUCCESS;
}
EXPORT cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_OF_THE_FAKE";
  return CUDA_SUCCESS;
}
EXPORT cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
EXPORT cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
EXPORT cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = Context();
  return CUDA_SUCCESS;
}
EXPORT cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return depth > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
EXPORT cuCtxPushCurrent_v2(CUcontext) {
  ++depth;
  return CUDA_SUCCESS;
}
EXPORT cuCtxPopCurrent_v2(CUcontext* context) {
  --depth;
  *context = Context();
  return CUDA_SUCCESS;
}
EXPORT cuStreamGetCtx(CUstream, CUcontext* context) {
  *context = Context();
  return CUDA_SUCCESS;
}
EXPORT cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                 cuuint64_t* id, CUgraph*, const CUgraphNode**,
                                 size_t*) {
  const bool captured = Device().IsCaptured(stream);
  *status = captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  *id = captured ? 1 : 0;
  return CUDA_SUCCESS;
}
EXPORT cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  Device().BeginCapture(stream);
  return CUDA_SUCCESS;
}
// A graph and its executable form are the same here, and never freed.
EXPORT cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph =
      reinterpret_cast<CUgraph>(new FakeDevice::Graph(Device().EndCapture(stream)));
  return CUDA_SUCCESS;
}
EXPORT cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                   unsigned long long) {
  *exec = reinterpret_cast<CUgraphExec>(graph);
  return CUDA_SUCCESS;
}
EXPORT cuGraphLaunch(CUgraphExec exec, CUstream) {
  Device().LaunchGraph(*reinterpret_cast<FakeDevice::Graph*>(exec));
  return CUDA_SUCCESS;
}
EXPORT cuStreamCreate(CUstream* stream, unsigned) {
  static char streams[16];
  static int made = 0;
  *stream = reinterpret_cast<CUstream>(&streams[made++ % 16]);
  return CUDA_SUCCESS;
}
EXPORT cuStreamSynchronize(CUstream) {
  Device().Synchronize();
  return CUDA_SUCCESS;
}
EXPORT cuCtxSynchronize() {
  Device().Synchronize();
  return CUDA_SUCCESS;
}
EXPORT cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) {
  return CUDA_SUCCESS;
}
EXPORT cuEventCreate(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}
EXPORT cuEventRecordWithFlags(CUevent, CUstream, unsigned) {
  return CUDA_SUCCESS;  // one queue
}
EXPORT cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  return CUDA_SUCCESS;
}
EXPORT cuEventDestroy_v2(CUevent) {
  return CUDA_SUCCESS;
}
EXPORT cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
EXPORT cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  *address = reinterpret_cast<CUdeviceptr>(malloc(bytes));
  return CUDA_SUCCESS;
}
EXPORT cuMemFree_v2(CUdeviceptr address) {
  free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}
EXPORT cuMemsetD32_v2(CUdeviceptr address, unsigned value, size_t count) {
  std::fill_n(reinterpret_cast<unsigned*>(address), count, value);
  return CUDA_SUCCESS;
}
EXPORT cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = aligned_alloc(128, (bytes + 127) / 128 * 128);
  return CUDA_SUCCESS;
}
EXPORT cuMemFreeHost(void* memory) {
  free(memory);
  return CUDA_SUCCESS;
}
EXPORT cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
EXPORT cuModuleLoadData(CUmodule* module, const void*) {
  *module = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}
// A function is its name: what is launched is NCCL's kernel by name, or nothing.
EXPORT cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = reinterpret_cast<CUfunction>(const_cast<char*>(name));
  return CUDA_SUCCESS;
}
EXPORT cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}
EXPORT cuFuncLoad(CUfunction) {
  return CUDA_SUCCESS;
}
EXPORT cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                        void** parameters, void**) {
  if (strncmp(reinterpret_cast<const char*>(function), "ncclDevKernel_", 14) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  vrank::hold::HoldRing* ring = nullptr;
  memcpy(&ring, parameters[0], sizeof(ring));
  vrank::hold::HoldLaunch launch;
  memcpy(&launch.parameters, parameters[2], sizeof(launch.parameters));
  launch.shape.ctas = config->gridDimX;
  launch.stream = config->hStream;
  std::string error;
  return Device().Launch(ring, launch, &error) ? CUDA_SUCCESS
                                               : CUDA_ERROR_LAUNCH_FAILED;
}
