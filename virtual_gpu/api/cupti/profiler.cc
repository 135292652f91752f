#include "virtual_gpu/api/cupti/profiler.h"

#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/guest/raw_log.h"
#include "base/guest/time_stamp.h"
#include "virtual_gpu/api/cupti/records.h"
#include "virtual_gpu/api/gpu_access.h"

namespace vrank::cupti {
namespace {

thread_local CUptiResult last_error = CUPTI_SUCCESS;

}  // namespace

Profiler::Profiler(gpu::Activity* activity, gpu::Gpu* gpu)
    : activity_(activity),
      gpu_(gpu),
      shift_(gpu->channel()->settings().realtime_at_start_ns) {}

void Profiler::ListenIfNeeded() {
  std::lock_guard guard(listening_mutex_);
  const bool wanted = !selection_.Empty() || subscribers_.Active();
  if (wanted == listening_)
    return;
  listening_ = wanted;
  Listen(wanted);
}

void Profiler::DumpDevices() {
  devices_told_.store(true);
  for (int device = 0; device < gpu_->DeviceCount(); ++device) {
    const auto record = DeviceRecord(settings(), device, gpu_->NodeDevice(device));
    buffers_.Add(&record, sizeof record);
  }
}

void Profiler::DumpContexts() {
  for (int device = 0; device < gpu_->DeviceCount(); ++device) {
    const uint32_t id = ContextId(ContextOfDevice(device));
    if (id == 0)
      continue;
    const auto record =
        ContextRecord(id, static_cast<uint32_t>(device), settings().gpu);
    buffers_.Add(&record, sizeof record);
  }
}

void Profiler::DumpStreams() {
  for (const gpu::ActivityStream& stream : registry_.Streams()) {
    const auto record = StreamRecord(stream);
    buffers_.Add(&record, sizeof record);
  }
}

bool Profiler::Flush(bool wait_for_work) {
  if (ActivityBuffers::InCallback())
    return false;
  activity_->Flush(wait_for_work);
  return buffers_.DeliverAll();
}

void Profiler::Finalize() {
  subscribers_.UnsubscribeAll();
  selection_.Forget();
  ListenIfNeeded();
  buffers_.DeliverAll();
  buffers_.SetCallbacks(nullptr, nullptr);
  buffers_.TakeDropped();
  shift_.store(settings().realtime_at_start_ns);
  event_times_.store(false);
}

void Profiler::SetClock(CUpti_TimestampCallbackFunc callback) {
  // Reading a clock takes virtual time and returns the time afterwards.
  const uint64_t before = TimeStampCount();
  const uint64_t theirs = callback();
  // That counter shows no virtual time: records keep the system's.
  if (before != 0 && before <= theirs && theirs <= TimeStampCount()) {
    shift_.store(settings().realtime_at_start_ns);
    return;
  }
  shift_.store(static_cast<int64_t>(theirs) - activity_->Now());
}

bool Profiler::CurrentContext(CUcontext* handle, uint32_t* id) {
  const int device = gpu_->CurrentDevice();
  if (device < 0)
    return false;
  *handle = ContextOfDevice(device);
  *id = ContextId(*handle);
  return *id != 0;
}

uint32_t Profiler::ContextId(CUcontext handle) {
  if (uint32_t id = registry_.FindContext(handle))
    return id;
  // Made while nobody listened: a context's id is its handle's number.
  const uint32_t device = DeviceOfContext(handle);
  if (device >= static_cast<uint32_t>(gpu_->DeviceCount()) ||
      !gpu_->ContextIsActive(static_cast<int>(device)))
    return 0;
  return device + 1;
}

Profiler* FindProfiler() {
  // The tool that this may start calls CUPTI itself: no guard is held yet.
  gpu::Gpu* const gpu = gpu::FindGpu();
  if (gpu == nullptr || gpu->channel() == nullptr ||
      FindVirtualGpuTable()->activity == nullptr)
    return nullptr;
  static Profiler* const profiler = new Profiler(FindVirtualGpuTable()->activity, gpu);
  return profiler;
}

CUptiResult Leave(CUptiResult result) {
  if (result != CUPTI_SUCCESS)
    last_error = result;
  return result;
}

CUptiResult TakeLastError() {
  return std::exchange(last_error, CUPTI_SUCCESS);
}

void Refuse(const char* what) {
  if (Channel* channel = FindChannel())
    channel->Count(LossId::kRefusedCall, 1, what);
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;
  std::lock_guard guard(mutex);
  if (said->emplace(what).second)
    RawLog("libcupti.so.13", "%s is not modelled (docs/cuda_compat.md)", what);
}

}  // namespace vrank::cupti
