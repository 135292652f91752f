// Start, buffers, callbacks, stop.

#include "tracer/cupti/cupti_session.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/guest/context_memory.h"
#include "base/guest/raw_log.h"
#include "tracer/cupti/call_filter.h"

namespace vrank::tracer {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kBufferAlignment = 8;  // CUPTI's ACTIVITY_RECORD_ALIGNMENT
constexpr size_t kFreeBuffers = 8;
// So that a program that is killed leaves a trace up to its last second.
constexpr uint32_t kFlushPeriodMs = 1000;

// The session whose buffers CUPTI fills.
std::atomic<CuptiSession*> current{nullptr};

// The call that this thread is in, as far as it is watched.
thread_local uint32_t watched_call = 0;

struct KindRow {
  CUpti_ActivityKind kind;
  bool needed;
  const char* name;
};
constexpr KindRow kKinds[] = {
    {CUPTI_ACTIVITY_KIND_CONTEXT, false, "contexts"},
    {CUPTI_ACTIVITY_KIND_STREAM, false, "streams"},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, true, "kernels"},
    {CUPTI_ACTIVITY_KIND_MEMCPY, true, "copies"},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, false, "copies between devices"},
    {CUPTI_ACTIVITY_KIND_MEMSET, true, "memsets"},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, true, "synchronization"},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, true, "events"},
    // Also how large a pool is after each operation.
    {CUPTI_ACTIVITY_KIND_MEMORY2, false, "memory"},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, false, "external correlation"},
    {CUPTI_ACTIVITY_KIND_MARKER, false, "NVTX ranges"},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, false, "overhead"},
    // The last ones, so that the calls of enabling are not among them.
    {CUPTI_ACTIVITY_KIND_RUNTIME, true, "runtime calls"},
    {CUPTI_ACTIVITY_KIND_DRIVER, true, "driver calls"},
};

// Calls that callbacks belong to, or that are watched themselves.
enum class Watched : uint8_t { kNo, kEnd, kLaunch, kLaunchPerThread };

constexpr struct {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId cbid;
  Watched watched;
} kWatched[] = {
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamDestroy_v3020,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamDestroy_v5050,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphExecDestroy_v10000,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy,
     Watched::kEnd},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
     Watched::kLaunch},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
     Watched::kLaunchPerThread},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
     Watched::kLaunch},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
     Watched::kLaunchPerThread},
};

Watched WatchedAs(CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  for (const auto& row : kWatched)
    if (row.domain == domain && row.cbid == cbid)
      return row.watched;
  return Watched::kNo;
}

}  // namespace

CuptiSession::~CuptiSession() {
  Stop();
  CuptiSession* self = this;
  current.compare_exchange_strong(self, nullptr);
  for (uint8_t* buffer : free_buffers_)
    free(buffer);
}

bool CuptiSession::Start(const std::string& cupti, std::string* why) {
  if (!cupti_.Load(cupti, why))
    return false;
  if (const CUptiResult result = cupti_.cuptiGetVersion(&version_);
      result != CUPTI_SUCCESS) {
    *why = "libcupti does not say its version: " + cupti_.Words(result);
    return false;
  }
  decoder_.reset(MakeDecoder(version_, &cupti_, writer_));
  if (decoder_ == nullptr) {
    *why = "libcupti has version " + std::to_string(version_) +
           ", and this tracer reads records of CUDA 13 only; use CUDA 13";
    return false;
  }
  if (!Subscribe(why))
    return false;
  current = this;
  if (cupti_.cuptiSetThreadIdType != nullptr)
    cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  on_ = true;
  if (EnableKinds(why) && Watch(why)) {
    trace::Start start{};
    start.record.kind = trace::Kind::kStart;
    start.time_ns = Now();
    start.cupti_version = version_;
    writer_->Append(trace::Source::kProgram, start);
    return true;
  }
  on_ = false;
  DisableKinds();
  return false;
}

bool CuptiSession::Subscribe(std::string* why) {
  char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  CUptiResult result;
  if (cupti_.cuptiSubscribe_v2 != nullptr) {
    CUpti_SubscriberParams parameters{};
    parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    parameters.subscriberName = "vrank";
    parameters.oldSubscriberName = other;
    parameters.oldSubscriberSize = sizeof other;
    result = cupti_.cuptiSubscribe_v2(&subscriber_, OnCallback, this, &parameters);
  } else {
    result = cupti_.cuptiSubscribe(&subscriber_, OnCallback, this);
  }
  if (result == CUPTI_SUCCESS)
    return true;
  other[sizeof other - 1] = '\0';
  if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    *why = "cannot subscribe to CUPTI: " + cupti_.Words(result);
    return false;
  }
  *why = "CUPTI is in use by ";
  *why += other[0] != '\0' ? other : "another tool (a profiler or a debugger)";
  *why += ", and has room for one; run without it, or without the tracer";
  return false;
}

bool CuptiSession::EnableKinds(std::string* why) {
  CUptiResult result =
      cupti_.cuptiActivityRegisterCallbacks(OnBufferRequested, OnBufferCompleted);
  if (result != CUPTI_SUCCESS) {
    *why = "cannot give buffers to CUPTI: " + cupti_.Words(result);
    return false;
  }
  // Polling loops ask "has it ended?" a million times a second.
  if (cupti_.cuptiActivityEnableAllSyncRecords != nullptr)
    cupti_.cuptiActivityEnableAllSyncRecords(0);
  std::string missing;
  for (const KindRow& row : kKinds) {
    result = cupti_.cuptiActivityEnable(row.kind);
    if (result == CUPTI_SUCCESS) {
      enabled_.push_back(row.kind);
      continue;
    }
    if (row.needed) {
      *why = std::string("CUPTI does not record ") + row.name + ": " +
             cupti_.Words(result);
      return false;
    }
    missing += (missing.empty() ? "" : ", ") + std::string(row.name);
  }
  if (!missing.empty())
    RawLog("tracer", "this CUPTI does not record: %s; the trace goes without",
           missing.c_str());
  LeaveOutCalls();
  if (cupti_.cuptiActivityFlushPeriod != nullptr)
    cupti_.cuptiActivityFlushPeriod(kFlushPeriodMs);
  return true;
}

void CuptiSession::DisableKinds() {
  for (const CUpti_ActivityKind kind : enabled_)
    cupti_.cuptiActivityDisable(kind);
  enabled_.clear();
}

// By name, not by the header's numbers: a newer CUPTI has calls that the header lacks.
void CuptiSession::LeaveOutCalls() {
  constexpr uint32_t kMany = 4096;  // CUDA 13.0 has 537 and 807
  const auto leave_out = [&](CUpti_CallbackDomain domain, auto enable) {
    if (enable == nullptr)
      return;
    const char* name = nullptr;
    for (uint32_t cbid = 1; cbid < kMany; ++cbid, name = nullptr)
      if (cupti_.cuptiGetCallbackName(domain, cbid, &name) == CUPTI_SUCCESS &&
          name != nullptr && !IsWorthARecord(name))
        enable(cbid, 0);
  };
  leave_out(CUPTI_CB_DOMAIN_RUNTIME_API, cupti_.cuptiActivityEnableRuntimeApi);
  leave_out(CUPTI_CB_DOMAIN_DRIVER_API, cupti_.cuptiActivityEnableDriverApi);
}

bool CuptiSession::Watch(std::string* why) {
  const auto enable = [&](CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
    const CUptiResult result = cupti_.cuptiEnableCallback(1, subscriber_, domain, cbid);
    if (result != CUPTI_SUCCESS)
      *why = "CUPTI does not tell when streams and contexts come and go: " +
             cupti_.Words(result);
    return result == CUPTI_SUCCESS;
  };
  for (const CUpti_CallbackId cbid : {CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
                                      CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
                                      CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING})
    if (!enable(CUPTI_CB_DOMAIN_RESOURCE, cbid))
      return false;
  for (const auto& row : kWatched)
    if (!enable(row.domain, row.cbid))
      return false;
  // Without these a trace lacks the order of work within graphs, and its graph counts
  // them.
  if (graphs_.possible())
    for (const CUpti_CallbackId cbid : GraphWatch::Callbacks())
      cupti_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, cbid);
  return true;
}

void CuptiSession::Stop() {
  if (!on())
    return;
  AskForAProof();
  // Forced: also what has not ended, so that no call is missing from the trace.
  cupti_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  on_ = false;
  records_taken_ = proof_awaited_;
  DisableKinds();
}

// "For CUPTI_ACTIVITY_KIND_DEVICE, existing device records are dumped"
// (cupti_activity.h): a record that comes with the next flush, whatever the program has
// done, to whoever gets the records now.
void CuptiSession::AskForAProof() {
  if (cupti_.cuptiActivityEnableAndDump == nullptr)
    return;
  proof_awaited_ = true;
  if (cupti_.cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_DEVICE) == CUPTI_SUCCESS)
    enabled_.push_back(CUPTI_ACTIVITY_KIND_DEVICE);
  else
    proof_awaited_ = false;
}

int64_t CuptiSession::Now() const {
  uint64_t ns = 0;
  if (on())
    cupti_.cuptiGetTimestamp(&ns);
  return static_cast<int64_t>(ns);
}

bool CuptiSession::PushExternalId(uint64_t id) const {
  return on() && cupti_.cuptiActivityPushExternalCorrelationId(
                     CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id) == CUPTI_SUCCESS;
}

void CuptiSession::PopExternalId() const {
  uint64_t id;
  if (on())
    cupti_.cuptiActivityPopExternalCorrelationId(
        CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id);
}

void CUPTIAPI CuptiSession::OnBufferRequested(uint8_t** buffer, size_t* size,
                                              size_t* max_records) {
  *buffer = nullptr;
  *size = 0;
  *max_records = 0;  // as many as fit
  CuptiSession* const self = current;
  if (self == nullptr)
    return;
  {
    std::lock_guard lock(self->buffers_mutex_);
    if (!self->free_buffers_.empty()) {
      *buffer = self->free_buffers_.back();
      self->free_buffers_.pop_back();
    }
  }
  if (*buffer == nullptr)
    *buffer = static_cast<uint8_t*>(aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
}

void CUPTIAPI CuptiSession::OnBufferCompleted(CUcontext, uint32_t, uint8_t* buffer,
                                              size_t, size_t valid_bytes) {
  CuptiSession* const self = current;
  if (self == nullptr) {
    free(buffer);
    return;
  }
  if (self->on())
    self->Decode(buffer, valid_bytes);
  std::lock_guard lock(self->buffers_mutex_);
  if (self->free_buffers_.size() < kFreeBuffers)
    self->free_buffers_.push_back(buffer);
  else
    free(buffer);
}

void CuptiSession::Decode(uint8_t* buffer, size_t bytes) {
  {
    std::lock_guard lock(decoding_);
    CUpti_Activity* record = nullptr;
    while (bytes > 0 &&
           cupti_.cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
      if (record->kind == CUPTI_ACTIVITY_KIND_DEVICE)
        proof_awaited_ = false;
      decoder_->Decode(*record);
    }
    size_t lost = 0;
    if (cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &lost) == CUPTI_SUCCESS)
      dropped_ += lost;
  }
  writer_->Flush();
}

void CUPTIAPI CuptiSession::OnCallback(void* self, CUpti_CallbackDomain domain,
                                       CUpti_CallbackId cbid, const void* data) {
  auto* const session = static_cast<CuptiSession*>(self);
  if (data == nullptr || !session->on())
    return;
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    const auto& resource = *static_cast<const CUpti_ResourceData*>(data);
    if (cbid == CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING)
      session->OnStreamEnds(resource);
    else if (cbid == CUPTI_CBID_RESOURCE_CONTEXT_CREATED ||
             cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
      session->OnContext(resource,
                         cbid == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
    else if (resource.resourceDescriptor != nullptr && session->graphs_.possible())
      session->graphs_.OnGraph(
          cbid, *static_cast<const CUpti_GraphData*>(resource.resourceDescriptor),
          watched_call);
    return;
  }
  const Watched watched = WatchedAs(domain, cbid);
  if (watched == Watched::kNo)
    return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  // The outermost call: the driver's is nested in the runtime's.
  if (call.callbackSite == CUPTI_API_EXIT) {
    watched_call = 0;
  } else if (watched_call == 0) {
    watched_call = call.correlationId;
    if (watched != Watched::kEnd && session->graphs_.possible())
      session->graphs_.OnLaunch(call, watched == Watched::kLaunchPerThread);
  }
}

void CuptiSession::OnStreamEnds(const CUpti_ResourceData& resource) {
  trace::Stream stream{};
  stream.record.kind = trace::Kind::kStream;
  stream.record.flags = trace::kDestroyed;
  if (cupti_.cuptiGetStreamIdEx(resource.context, resource.resourceHandle.stream, 0,
                                &stream.stream) != CUPTI_SUCCESS ||
      cupti_.cuptiGetContextId(resource.context, &stream.context) != CUPTI_SUCCESS)
    return;
  stream.correlation = watched_call;
  writer_->Append(trace::Source::kProgram, stream);
}

void CuptiSession::OnContext(const CUpti_ResourceData& resource, bool destroyed) {
  if (!told_.exchange(true) && tell_)
    tell_();
  if (!on())
    return;
  trace::Context context{};
  context.record.kind = trace::Kind::kContext;
  context.record.flags = destroyed ? trace::kDestroyed : 0;
  if (cupti_.cuptiGetContextId(resource.context, &context.context) != CUPTI_SUCCESS)
    return;
  context.thread = static_cast<uint32_t>(gettid());
  context.time_ns = Now();
  context.code_bytes = destroyed ? 0 : LoadedCodeBytes();
  writer_->Append(trace::Source::kProgram, context);
}

}  // namespace vrank::tracer
