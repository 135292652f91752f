// CUPTI's functions over a FakeCupti.

#include "tests/tracer/fake_cupti.h"

#include <cstring>

namespace {

vrank::tracer::FakeCupti& Fake() {
  static auto* const fake = new vrank::tracer::FakeCupti;
  return *fake;
}

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;

// Sizes of the records in the buffer that is being read.
size_t SizeAt(const uint8_t* at) {
  uint64_t size;
  std::memcpy(&size, at, sizeof size);
  return size;
}

void DeliverOne(uint8_t** buffer, size_t* used, size_t size,
                const std::string& record) {
  if (*buffer == nullptr || *used + record.size() + 8 > size)
    return;
  const uint64_t length = record.size();
  std::memcpy(*buffer + *used, &length, sizeof length);
  std::memcpy(*buffer + *used + 8, record.data(), record.size());
  *used += 8 + record.size();
}

}  // namespace

extern "C" {

vrank::tracer::FakeCupti* vrank_fake_cupti() {
  return &Fake();
}

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = Fake().version;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* handle,
                              CUpti_CallbackFunc callback, void* user,
                              CUpti_SubscriberParams* parameters) {
  if (!Fake().other_subscriber.empty()) {
    std::strncpy(parameters->oldSubscriberName, Fake().other_subscriber.c_str(),
                 parameters->oldSubscriberSize - 1);
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  Fake().callback = callback;
  Fake().user = user;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&Fake());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  return CUPTI_ERROR_NOT_SUPPORTED;
}

CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (Fake().refused.contains(kind))
    return CUPTI_ERROR_INVALID_KIND;
  Fake().enabled.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE && !Fake().detached) {
    CUpti_ActivityDevice5 device{};
    device.kind = kind;
    Fake().Deliver(device);
  }
  return cuptiActivityEnable(kind);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  Fake().enabled.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  if (enable == 0)
    Fake().runtime_off.insert(cbid);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  if (enable == 0)
    Fake().driver_off.insert(cbid);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                 const char** name) {
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (runtime && cbid == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000)
    *name = "cudaLaunchKernel_v7000";
  else if (runtime && cbid == CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020)
    *name = "cudaGetDevice_v3020";
  else if (!runtime && cbid == CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2)
    *name = "cuMemAlloc_v2";
  else
    return CUPTI_ERROR_INVALID_PARAMETER;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc requested,
    CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  if (Fake().detached)
    return CUPTI_ERROR_INVALID_OPERATION;
  uint8_t* buffer = nullptr;
  size_t size = 0, most = 0, used = 0;
  request(&buffer, &size, &most);
  for (const std::string& record : Fake().records)
    DeliverOne(&buffer, &used, size, record);
  Fake().records.clear();
  complete(nullptr, 0, buffer, size, used);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid,
                                       CUpti_Activity** record) {
  uint8_t* at = buffer;
  if (*record != nullptr) {
    auto* const last = reinterpret_cast<uint8_t*>(*record);
    at = last + SizeAt(last - 8);
  }
  if (at >= buffer + valid)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at + 8);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = Fake().dropped;
  Fake().dropped = 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                   uint64_t id) {
  Fake().pushed.push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                  uint64_t* id) {
  *id = Fake().pushed.back();
  Fake().pushed.pop_back();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* time) {
  *time = Fake().now += 10;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t, uint32_t* id) {
  *id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream));
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetContextId(CUcontext, uint32_t* id) {
  *id = 1;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  *id = reinterpret_cast<uintptr_t>(node);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphExecId(CUgraphExec exec, uint32_t* id) {
  *id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(exec));
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** words) {
  *words = result == CUPTI_ERROR_INVALID_KIND ? "CUPTI_ERROR_INVALID_KIND" : "OTHER";
  return CUPTI_SUCCESS;
}

}  // extern "C"
