#include "gpu_hold/gpu_streams.h"

#include <cuda.h>

#include <map>
#include <mutex>

#include "gpu_hold/driver_library.h"

namespace vrank::hold {
namespace {

// What is used of the driver, by the names that it exports.
struct CudaApi {
  CUresult (*init)(unsigned) = nullptr;
  CUresult (*count)(int*) = nullptr;
  CUresult (*device)(CUdevice*, int) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*current_device)(CUdevice*) = nullptr;
  CUresult (*push)(CUcontext) = nullptr;
  CUresult (*pop)(CUcontext*) = nullptr;
  CUresult (*context_of)(CUstream, CUcontext*) = nullptr;
  CUresult (*capture_info)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                           const CUgraphNode**, size_t*) = nullptr;
  CUresult (*make_event)(CUevent*, unsigned) = nullptr;
  CUresult (*record)(CUevent, CUstream, unsigned) = nullptr;
  CUresult (*wait)(CUstream, CUevent, unsigned) = nullptr;
  CUresult (*destroy_event)(CUevent) = nullptr;
  CUresult (*capture_mode)(CUstreamCaptureMode*) = nullptr;
  CUresult (*synchronize)() = nullptr;
  CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream) = nullptr;
  CUresult (*alloc)(CUdeviceptr*, size_t) = nullptr;
  CUresult (*free)(CUdeviceptr) = nullptr;
};

bool FindApi(CudaApi* api, std::string* error) {
  const DriverLibrary library(error);
  return library.Find("cuInit", &api->init) &&
         library.Find("cuDeviceGetCount", &api->count) &&
         library.Find("cuDeviceGet", &api->device) &&
         library.Find("cuDevicePrimaryCtxRetain", &api->retain) &&
         library.Find("cuCtxGetDevice", &api->current_device) &&
         library.Find("cuCtxPushCurrent_v2", &api->push) &&
         library.Find("cuCtxPopCurrent_v2", &api->pop) &&
         library.Find("cuStreamGetCtx", &api->context_of) &&
         library.Find("cuStreamGetCaptureInfo_v2", &api->capture_info) &&
         library.Find("cuEventCreate", &api->make_event) &&
         library.Find("cuEventRecordWithFlags", &api->record) &&
         library.Find("cuStreamWaitEvent", &api->wait) &&
         library.Find("cuEventDestroy_v2", &api->destroy_event) &&
         library.Find("cuThreadExchangeStreamCaptureMode", &api->capture_mode) &&
         library.Find("cuCtxSynchronize", &api->synchronize) &&
         library.Find("cuMemcpyDtoDAsync_v2", &api->copy) &&
         library.Find("cuMemAlloc_v2", &api->alloc) &&
         library.Find("cuMemFree_v2", &api->free);
}

class DriverStreams final : public GpuStreams {
 public:
  bool Load(std::string* error) {
    if (!FindApi(&api_, error))
      return false;
    if (api_.init(0) == CUDA_SUCCESS)
      return true;
    *error = "cuInit failed: no GPU can be used";
    return false;
  }

  int CurrentDevice() override {
    CUdevice device = 0;
    return api_.current_device(&device) == CUDA_SUCCESS ? device : 0;
  }
  int DeviceCount() override {
    int count = 0;
    return api_.count(&count) == CUDA_SUCCESS ? count : 0;
  }
  bool Enter(int device) override {
    const CUcontext context = ContextOf(device);
    return context != nullptr && api_.push(context) == CUDA_SUCCESS;
  }
  void Leave() override {
    CUcontext left = nullptr;
    api_.pop(&left);
  }

  int DeviceOf(void* stream) override {
    // The default streams are those of the calling thread's device.
    if (stream == nullptr || stream == CU_STREAM_LEGACY ||
        stream == CU_STREAM_PER_THREAD)
      return CurrentDevice();
    CUcontext context = nullptr;
    if (api_.context_of(static_cast<CUstream>(stream), &context) != CUDA_SUCCESS ||
        api_.push(context) != CUDA_SUCCESS)
      return -1;
    const int device = CurrentDevice();
    Leave();
    return device;
  }
  uint64_t CaptureOf(void* stream) override {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    // The legacy stream cannot be captured, and must not be asked while another is.
    if (stream == nullptr ||
        api_.capture_info(static_cast<CUstream>(stream), &status, &id, nullptr, nullptr,
                          nullptr) != CUDA_SUCCESS)
      return 0;
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : id;
  }
  bool Join(void* waiting, void* before) override {
    void* const event = NewEvent();
    if (event == nullptr)
      return false;
    const bool joined = Record(event, before) && Await(waiting, event);
    FreeEvent(event);
    return joined;
  }
  void* NewEvent() override {
    CUevent event = nullptr;
    return api_.make_event(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event
                                                                            : nullptr;
  }
  // Its resources go once it has happened.
  void FreeEvent(void* event) override {
    api_.destroy_event(static_cast<CUevent>(event));
  }
  bool Record(void* event, void* before) override {
    return RecordAs(event, before, CU_EVENT_RECORD_DEFAULT);
  }
  bool Await(void* waiting, void* event) override {
    return AwaitAs(waiting, event, CU_EVENT_WAIT_DEFAULT);
  }
  bool RecordAtLaunch(void* event, void* before) override {
    return RecordAs(event, before, CU_EVENT_RECORD_EXTERNAL);
  }
  bool AwaitAtLaunch(void* waiting, void* event) override {
    return AwaitAs(waiting, event, CU_EVENT_WAIT_EXTERNAL);
  }
  void AwaitDevice() override {
    // Another thread's capture is not invalidated by this wait.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool exchanged = api_.capture_mode(&mode) == CUDA_SUCCESS;
    api_.synchronize();
    if (exchanged)
      api_.capture_mode(&mode);
  }
  bool Copy(void* to, const void* from, uint64_t bytes, void* stream) override {
    return api_.copy(reinterpret_cast<CUdeviceptr>(to),
                     reinterpret_cast<CUdeviceptr>(from), bytes,
                     static_cast<CUstream>(stream)) == CUDA_SUCCESS;
  }
  uint64_t Allocate(uint64_t bytes) override {
    CUdeviceptr address = 0;
    return api_.alloc(&address, bytes) == CUDA_SUCCESS ? address : 0;
  }
  void Free(uint64_t address) override { api_.free(address); }

 private:
  bool RecordAs(void* event, void* before, unsigned flags) {
    return api_.record(static_cast<CUevent>(event), static_cast<CUstream>(before),
                       flags) == CUDA_SUCCESS;
  }
  bool AwaitAs(void* waiting, void* event, unsigned flags) {
    return api_.wait(static_cast<CUstream>(waiting), static_cast<CUevent>(event),
                     flags) == CUDA_SUCCESS;
  }
  // nullptr: there is none. Kept for the life of the process, as the runtime does.
  CUcontext ContextOf(int device) {
    const std::lock_guard lock(mutex_);
    CUcontext& context = contexts_[device];
    CUdevice handle = 0;
    if (context == nullptr && (api_.device(&handle, device) != CUDA_SUCCESS ||
                               api_.retain(&context, handle) != CUDA_SUCCESS))
      context = nullptr;
    return context;
  }

  CudaApi api_;
  std::mutex mutex_;
  std::map<int, CUcontext> contexts_;
};

}  // namespace

std::unique_ptr<GpuStreams> MakeGpuStreams(std::string* error) {
  auto streams = std::make_unique<DriverStreams>();
  if (!streams->Load(error))
    return nullptr;
  return streams;
}

}  // namespace vrank::hold
