// What a profiler costs the thread that calls CUDA: a launch while nobody listens, and
// one whose call and kernel are noted and reported. The difference is the activity
// stream's price; the reporting itself is another thread's work.
//
// The channel copies the record and publishes its times at once, so that the figures
// are those of the virtual GPU alone.

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <benchmark/benchmark.h>

#include "base/guest/activity_channel.h"
#include "bench/guest/copying_channel.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {
namespace {

// Every record is a launch that takes no time.
class PublishingChannel final : public CopyingChannel, public ActivityChannel {
 public:
  ActivityChannel* activity() override { return this; }

  HostMark Mark() override { return {written_.load(std::memory_order_relaxed), 0}; }
  uint64_t LastRecord() const override {
    return written_.load(std::memory_order_relaxed);
  }
  size_t Read(protocol::ActivityEntry* out, size_t capacity) override {
    const uint64_t written = written_.load(std::memory_order_acquire);
    size_t count = 0;
    for (; published_ < written && count + 2 <= capacity; count += 2) {
      ++published_;
      out[count] = {published_, protocol::ActivityEntryKind::kWork,
                    protocol::TimeSource::kModelled, 0, 0};
      out[count + 1] = {published_, protocol::ActivityEntryKind::kHost,
                        protocol::TimeSource::kModelled, 0, 0};
    }
    return count;
  }
  void Await(bool, Duration patience) override {
    std::this_thread::sleep_for(std::chrono::nanoseconds(patience.nanoseconds() / 10));
  }
  void WakeReaders() override {}
  void HideThread() override {}
  void SettleLoggedClock() override {}
  void SetProfiledGpu(ProfiledGpu*) override {}

 private:
  void EmitRecord(protocol::Record* record, size_t struct_bytes, const void* tail,
                  size_t tail_bytes, uint32_t* slot) override {
    CopyingChannel::EmitRecord(record, struct_bytes, tail, tail_bytes, slot);
    written_.store(written_.load(std::memory_order_relaxed) + 1,
                   std::memory_order_release);
  }

  std::atomic<uint64_t> written_{0};
  uint64_t published_ = 0;  // by the reader
};

class CountingListener final : public ActivityListener {
 public:
  void OnCall(const ActivityCall&) override { ++calls; }
  void OnWork(const ActivityWork&) override { ++work; }
  void OnSync(const ActivitySync&) override {}
  void OnEventRecord(const ActivityEventRecord&) override {}
  void OnStream(const ActivityStream&) override {}
  void OnMemory(const ActivityMemory&) override {}
  void OnQueueFull(const ActivityQueueFull&) override {}
  void OnRange(const ActivityRange&) override {}
  void OnExternalId(const ActivityExternalId&) override {}
  void OnEnter(bool, const char*, uint32_t, const void*, const char*) override {}
  void OnExit(bool, const char*, uint32_t, const void*, const char*, int32_t) override {
  }
  void OnStreamNow(const ActivityStream&, void*) override {}
  void OnContextNow(uint32_t, void*, bool) override {}
  void OnGraphNow(const ActivityGraph&) override {}

  uint64_t calls = 0, work = 0;
};

void LaunchKernels(benchmark::State& state, bool listened) {
  PublishingChannel channel;
  CountingListener listener;
  ProcessGpu gpu(&channel);
  if (listened)
    gpu.activity().SetListener(&listener);
  KernelLaunch launch;
  launch.kernel = gpu.FindKernel("_Z6kernelv");
  for (auto _ : state) {
    CallScope call(&gpu.activity(), false, "cudaLaunchKernel");
    if (call.Leave(gpu.LaunchKernel(launch)) != Error::kSuccess) {
      state.SkipWithError("the launch failed");
      break;
    }
  }
  if (!listened)
    return;
  gpu.activity().Flush(false);
  gpu.activity().SetListener(nullptr);
  const auto launched = static_cast<uint64_t>(state.iterations());
  if (listener.calls < launched || listener.work < launched)
    state.SkipWithError("a call or a kernel was not reported");
}
BENCHMARK_CAPTURE(LaunchKernels, unlistened, false)->Iterations(1'000'000);
BENCHMARK_CAPTURE(LaunchKernels, listened, true)->Iterations(1'000'000);

}  // namespace
}  // namespace vrank::gpu

BENCHMARK_MAIN();
