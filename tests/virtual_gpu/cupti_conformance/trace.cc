#include "tests/virtual_gpu/cupti_conformance/trace.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tests/virtual_gpu/cupti_conformance/kernels.h"

namespace conformance {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                         CUPTI_ACTIVITY_KIND_CUDA_EVENT,
                                         CUPTI_ACTIVITY_KIND_MEMORY2,
                                         CUPTI_ACTIVITY_KIND_MARKER,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

int failures = 0;
std::mutex mutex;  // the completion callback has a thread of CUPTI's
Trace* filling = nullptr;

template <typename Record>
void Keep(std::vector<Record>* records, const CUpti_Activity* record) {
  records->push_back(*reinterpret_cast<const Record*>(record));
}

void Take(Trace* trace, const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return Keep(&trace->kernels, record);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return Keep(&trace->copies, record);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return Keep(&trace->memsets, record);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return Keep(&trace->calls, record);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return Keep(&trace->waits, record);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return Keep(&trace->events, record);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return Keep(&trace->memory, record);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return Keep(&trace->external, record);
    case CUPTI_ACTIVITY_KIND_MARKER: {
      Keep(&trace->markers, record);
      const char* name = trace->markers.back().name;
      trace->marker_names.emplace_back(name == nullptr ? "" : name);
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI Complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard guard(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    Take(filling, record);
  std::free(buffer);
}

void CUPTIAPI OnCallback(void* trace, CUpti_CallbackDomain domain,
                         CUpti_CallbackId cbid, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API)
    return;
  static uint64_t number = 0;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_ENTER)
    *call.correlationData = ++number;
  static_cast<Trace*>(trace)->callbacks.push_back(
      {cbid, call.callbackSite, call.functionName, call.correlationId,
       *call.correlationData});
}

void Work(Trace* trace) {
  constexpr int kCount = 1 << 18;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  float* data = nullptr;
  void* host = nullptr;
  CHECK_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK_OK(cuptiGetStreamIdEx(nullptr, second, 0, &trace->stream_id));
  CHECK_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK_OK(cudaMallocHost(&host, 8192));
  nvtxRangePushA("work");
  CHECK_OK(cuptiActivityPushExternalCorrelationId(
      CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 42));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)));
  trace->address = data;
  CHECK_OK(cudaMemsetAsync(data, 0, 4096, nullptr));
  LaunchFill(data, kCount, nullptr);
  LaunchScale(data, kCount, nullptr);
  CHECK_OK(cudaEventRecord(event, nullptr));
  CHECK_OK(cudaStreamWaitEvent(second, event, 0));
  LaunchFill(data, kCount, second);
  CHECK_OK(cudaMemcpyAsync(host, data, 8192, cudaMemcpyDeviceToHost, second));
  CHECK_OK(cudaStreamSynchronize(second));
  uint64_t last = 0;
  CHECK_OK(cuptiActivityPopExternalCorrelationId(
      CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
  CHECK_THAT(last == 42);
  CHECK_OK(cudaDeviceSynchronize());
  nvtxRangePop();
  CHECK_OK(cudaFree(data));
  CHECK_OK(cudaFreeHost(host));
  CHECK_OK(cudaEventDestroy(event));
  CHECK_OK(cudaStreamDestroy(second));
}

}  // namespace

bool CanTrace() {
  int devices = 0;
  uint64_t now = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 &&
         cuptiGetTimestamp(&now) == CUPTI_SUCCESS;
}

Trace TraceTheWork() {
  Trace trace;
  filling = &trace;
  trace.nvtx = std::getenv("NVTX_INJECTION64_PATH") != nullptr;
  CUpti_SubscriberHandle subscriber = nullptr;
  CUpti_SubscriberHandle other = nullptr;
  CHECK_OK(cuptiSubscribe(&subscriber, OnCallback, &trace));
  CHECK_THAT(cuptiSubscribe(&other, OnCallback, &trace) ==
             CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  CHECK_OK(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
  CHECK_OK(cuptiActivityRegisterCallbacks(Request, Complete));
  for (CUpti_ActivityKind kind : kKinds)
    CHECK_OK(cuptiActivityEnable(kind));
  CHECK_OK(cudaFree(nullptr));  // makes the context
  CHECK_OK(cuptiGetTimestamp(&trace.began));
  Work(&trace);
  CHECK_OK(cuptiGetTimestamp(&trace.ended));
  for (CUpti_ActivityKind kind : kKinds)
    CHECK_OK(cuptiActivityDisable(kind));
  CHECK_OK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  CHECK_OK(cuptiActivityGetNumDroppedRecords(nullptr, 0, &trace.dropped));
  CHECK_OK(cuptiUnsubscribe(subscriber));
  std::lock_guard guard(mutex);
  return trace;
}

void Check(bool holds, const char* what, int line) {
  if (holds)
    return;
  ++failures;
  std::printf("     line %d: %s does not hold\n", line, what);
}

int Failures() {
  return failures;
}

}  // namespace conformance
