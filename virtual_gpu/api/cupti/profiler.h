// CUPTI of this process: what the client wants, and the listener that serves it.
//
// Entry points check their arguments and call this; the virtual GPU calls the On...
// methods with what the program did, which become records in the client's buffers. The
// virtual GPU is listened to while something is selected or somebody subscribes; what
// is selected afterwards counts from the next call on.
//
// Times in records are those of CLOCK_REALTIME, as CUPTI documents it for Linux (the
// virtual one: CLOCK_REALTIME at virtual time 0, plus virtual nanoseconds), or of the
// clock that the client registered.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_PROFILER_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_PROFILER_H_

#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/api/cupti/buffers.h"
#include "virtual_gpu/api/cupti/records.h"
#include "virtual_gpu/api/cupti/registry.h"
#include "virtual_gpu/api/cupti/selection.h"
#include "virtual_gpu/api/cupti/subscriber.h"
#include "virtual_gpu/core/activity.h"
#include "virtual_gpu/core/gpu.h"

namespace vrank::cupti {

class Profiler final : private gpu::ActivityListener {
 public:
  // REQUIRES: both live as long as the process.
  Profiler(gpu::Activity* activity, gpu::Gpu* gpu);

  gpu::Activity& activity() { return *activity_; }
  gpu::Gpu& gpu() { return *gpu_; }
  const protocol::Settings& settings() { return gpu_->channel()->settings(); }
  ActivityBuffers& buffers() { return buffers_; }
  Registry& registry() { return registry_; }
  Subscribers& subscribers() { return subscribers_; }

  // What is recorded from the next call on: `change(Selection*)`.
  template <typename ChangeFunction>
  void Select(ChangeFunction change) {
    selection_.Change(last_call_.load(), activity_->Now(), change);
    ListenIfNeeded();
  }
  Selection Selected() { return selection_.Newest(); }
  // Starts or stops listening. To be called after the subscriber changed.
  void ListenIfNeeded();

  // Records of what exists: cuptiActivityEnableAndDump.
  void DumpDevices();
  void DumpContexts();
  void DumpStreams();

  // Gives the client everything that can be known (cuptiActivityFlushAll). Where
  // `wait_for_work`, until the work that the program has issued has ended. False in the
  // client's completion callback.
  bool Flush(bool wait_for_work);
  // Ends all that a client has begun (cuptiFinalize).
  void Finalize();

  // On the clock of records.
  uint64_t Timestamp() { return static_cast<uint64_t>(activity_->Now() + shift()); }
  // From now on that is the clock that `callback` reads.
  void SetClock(CUpti_TimestampCallbackFunc callback);
  void set_event_times(bool on) { event_times_.store(on); }

  // The context of the calling thread; false where there is none.
  bool CurrentContext(CUcontext* handle, uint32_t* id);
  // The id of a context that exists; 0 for other handles.
  uint32_t ContextId(CUcontext handle);

 private:
  void OnCall(const gpu::ActivityCall& call) override;
  void OnWork(const gpu::ActivityWork& work) override;
  void OnSync(const gpu::ActivitySync& sync) override;
  void OnEventRecord(const gpu::ActivityEventRecord& record) override;
  void OnStream(const gpu::ActivityStream& stream) override;
  void OnMemory(const gpu::ActivityMemory& memory) override;
  void OnQueueFull(const gpu::ActivityQueueFull& wait) override;
  void OnRange(const gpu::ActivityRange& range) override;
  void OnExternalId(const gpu::ActivityExternalId& id) override;
  void OnEnter(bool is_driver, const char* function, uint32_t correlation,
               const void* parameters, const char* symbol) override;
  void OnExit(bool is_driver, const char* function, uint32_t correlation,
              const void* parameters, const char* symbol, int32_t result) override;
  void OnStreamNow(const gpu::ActivityStream& stream, void* handle) override;
  void OnContextNow(uint32_t context, void* handle, bool created) override;
  void OnGraphNow(const gpu::ActivityGraph& graph) override;

  int64_t shift() const { return shift_.load(std::memory_order_relaxed); }
  // Where the virtual GPU reports: stores a record and hands out what is full.
  template <typename Record>
  void Report(const Record& record) {
    buffers_.Add(&record, sizeof record);
    buffers_.DeliverFull();
  }
  void ReportKernel(const gpu::ActivityWork& work);
  void TellSynchronized(const char* function);
  void Listen(bool on);

  gpu::Activity* const activity_;
  gpu::Gpu* const gpu_;
  ActivityBuffers buffers_;
  Registry registry_;
  Subscribers subscribers_;
  SelectionHistory selection_;
  std::atomic<uint32_t> last_call_{0};  // the highest number of a call so far
  std::atomic<int64_t> shift_;
  std::atomic<bool> event_times_{false};
  std::atomic<bool> devices_told_{false};
  std::map<uint32_t, PoolSize> pools_;  // by device; for OnMemory alone
  std::mutex listening_mutex_;
  bool listening_ = false;
};

// The process's CUPTI; nullptr where its libcuda is not the virtual GPU's.
Profiler* FindProfiler();

// Every result of CUPTI passes here, for cuptiGetLastError.
CUptiResult Leave(CUptiResult result);
CUptiResult TakeLastError();

// For calls that need CUPTI: `step(profiler)`, or CUPTI_ERROR_NOT_INITIALIZED.
template <typename Step>
CUptiResult Call(Step step) {
  Profiler* const profiler = FindProfiler();
  return Leave(profiler == nullptr ? CUPTI_ERROR_NOT_INITIALIZED : step(*profiler));
}

// Says once, on stderr and in the report, that CUPTI was asked for something that is
// not modelled: "cuptiActivityEnable(CUPTI_ACTIVITY_KIND_JIT)".
void Refuse(const char* what);

}  // namespace vrank::cupti

#define VRANK_CUPTI extern "C" VRANK_EXPORT CUptiResult CUPTIAPI

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_PROFILER_H_
