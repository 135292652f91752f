// A device of host threads: one hardware queue, a thread per CTA of the hold that runs.
// What is launched on a stream that is captured becomes a graph, which may be launched
// again and again.
//
// Thread rule: as HoldDriver.

#ifndef VRANK_TESTS_GPU_HOLD_FAKE_DEVICE_H_
#define VRANK_TESTS_GPU_HOLD_FAKE_DEVICE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/guest/minifloat.h"
#include "gpu_hold/hold_loop.h"
#include "gpu_hold/hold_result.h"
#include "gpu_hold/hold_service.h"

namespace vrank::hold {

// What HoldLoop needs of a device.
struct HostDevice {
  static uint64_t Now() {
    return static_cast<uint64_t>(
        std::chrono::steady_clock::now().time_since_epoch().count());
  }
  static HostWords Look(const HostWords* words) {
    return {Load(&words->released), Load(&words->looked), Load(&words->aborted),
            Load(&words->heartbeat)};
  }
  static void Tell(uint32_t* word, uint32_t value) { Store(word, value); }
  static uint32_t Load(const uint32_t* word) {
    return std::atomic_ref<uint32_t>(*const_cast<uint32_t*>(word))
        .load(std::memory_order_acquire);
  }
  static void Store(uint32_t* word, uint32_t value) {
    std::atomic_ref<uint32_t>(*word).store(value, std::memory_order_release);
  }
  static uint32_t Add(uint32_t* word, uint32_t value) {
    return std::atomic_ref<uint32_t>(*word).fetch_add(value, std::memory_order_acq_rel);
  }
  static void Rest() { std::this_thread::yield(); }
};

// What FillResult needs of it.
struct HostNarrow {
  static float Decode(protocol::ElementType type, uint32_t bits) {
    switch (type) {
      case protocol::ElementType::kFloat16:
        return Float16::Decode(bits);
      case protocol::ElementType::kBfloat16:
        return Bfloat16::Decode(bits);
      case protocol::ElementType::kFloat8E4M3:
        return Float8E4M3::Decode(bits);
      default:
        return Float8E5M2::Decode(bits);
    }
  }
  static uint32_t Encode(protocol::ElementType type, float value) {
    switch (type) {
      case protocol::ElementType::kFloat16:
        return Float16::Encode(value);
      case protocol::ElementType::kBfloat16:
        return Bfloat16::Encode(value);
      case protocol::ElementType::kFloat8E4M3:
        return Float8E4M3::Encode(value);
      default:
        return Float8E5M2::Encode(value);
    }
  }
};

class FakeDevice final : public HoldDriver {
 public:
  FakeDevice() : thread_([this] { Run(); }) {}
  ~FakeDevice() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  HoldRing* NewRing() override {
    auto made = std::make_unique<Memory>();
    made->ring.counters = &made->counters;
    HoldRing* const ring = &made->ring;
    const std::lock_guard lock(mutex_);
    memory_.emplace(ring, std::move(made));
    return ring;
  }
  void FreeRing(HoldRing* ring) override {
    const std::lock_guard lock(mutex_);
    memory_.erase(ring);
  }
  // Those that nobody has freed.
  size_t rings() const {
    const std::lock_guard lock(mutex_);
    return memory_.size();
  }
  bool Launch(HoldRing* ring, const HoldLaunch& launch, std::string* error) override {
    if (refuses) {
      *error = "CUDA_ERROR_OUT_OF_MEMORY";
      return false;
    }
    std::unique_lock lock(mutex_);
    const Work work{ring, launch.parameters, launch.shape.ctas};
    if (const auto found = captures_.find(launch.stream); found != captures_.end()) {
      found->second.push_back(work);
      return true;
    }
    // A launch waits for room in the queue, as CUDA's.
    changed_.wait(lock, [this] { return queue_.size() < queue_limit; });
    queue_.push_back(work);
    changed_.notify_all();
    return true;
  }

  struct Work {
    HoldRing* ring;
    HoldParameters parameters;
    uint32_t ctas;
  };
  using Graph = std::vector<Work>;
  void BeginCapture(void* stream) {
    const std::lock_guard lock(mutex_);
    captures_[stream] = {};
  }
  bool IsCaptured(void* stream) {
    const std::lock_guard lock(mutex_);
    return captures_.count(stream) != 0;
  }
  Graph EndCapture(void* stream) {
    const std::lock_guard lock(mutex_);
    Graph graph = std::move(captures_[stream]);
    captures_.erase(stream);
    return graph;
  }
  void LaunchGraph(const Graph& graph) {
    const std::lock_guard lock(mutex_);
    queue_.insert(queue_.end(), graph.begin(), graph.end());
    changed_.notify_all();
  }
  // Waits until nothing is queued and nothing runs.
  void Synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !running_; });
  }
  // For at most so long. False: something still runs.
  bool SynchronizeFor(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit,
                             [this] { return queue_.empty() && !running_; });
  }

  std::atomic<bool> refuses{false};
  std::atomic<bool> stalls{false};  // launches stay queued
  std::atomic<size_t> queue_limit{1 << 20};
  std::vector<HoldOutcome> outcomes;  // of every CTA, after Synchronize

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait_for(lock, std::chrono::milliseconds(1),
                        [this] { return stop_ || (!queue_.empty() && !stalls); });
      if (queue_.empty() || stalls) {
        if (stop_)
          return;
        continue;
      }
      const Work work = queue_.front();
      queue_.pop_front();
      running_ = true;
      changed_.notify_all();
      lock.unlock();
      std::vector<HoldOutcome> left(work.ctas);
      std::vector<std::thread> ctas;
      for (uint32_t cta = 1; cta < work.ctas; ++cta)
        ctas.emplace_back([&, cta] { left[cta] = RunCta(work, cta); });
      left[0] = RunCta(work, 0);
      for (std::thread& cta : ctas)
        cta.join();
      lock.lock();
      outcomes.insert(outcomes.end(), left.begin(), left.end());
      running_ = false;
      changed_.notify_all();
    }
  }

  static HoldOutcome RunCta(const Work& work, uint32_t cta) {
    HoldLoop<HostDevice> loop(work.ring, work.ring->counters, work.parameters, cta,
                              work.ctas);
    if (loop.Begin() && work.parameters.result.times != 0)
      FillResult<HostNarrow>(work.parameters.result, {cta, work.ctas});
    return loop.Wait();
  }

  struct Memory {
    HoldRing ring{};
    HoldCounters counters{};
  };

  mutable std::mutex mutex_;
  std::map<HoldRing*, std::unique_ptr<Memory>> memory_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::map<void*, Graph> captures_;  // by stream
  bool running_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// The device of a test outlives the GPU that gets this.
class BorrowedDevice final : public HoldDriver {
 public:
  explicit BorrowedDevice(FakeDevice* device) : device_(device) {}
  HoldRing* NewRing() override { return device_->NewRing(); }
  void FreeRing(HoldRing* ring) override { device_->FreeRing(ring); }
  bool Launch(HoldRing* ring, const HoldLaunch& launch, std::string* error) override {
    return device_->Launch(ring, launch, error);
  }

 private:
  FakeDevice* const device_;
};

}  // namespace vrank::hold

#endif  // VRANK_TESTS_GPU_HOLD_FAKE_DEVICE_H_
