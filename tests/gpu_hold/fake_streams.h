// Streams for tests: any pointer is one, of device 0 unless said otherwise.
//
// Thread rule: as GpuStreams; what a test prepares is for one thread.

#ifndef VRANK_TESTS_GPU_HOLD_FAKE_STREAMS_H_
#define VRANK_TESTS_GPU_HOLD_FAKE_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu_hold/gpu_streams.h"

namespace vrank::hold {

class FakeStreams final : public GpuStreams {
 public:
  static void* Stream(uintptr_t number) { return reinterpret_cast<void*>(number); }

  int CurrentDevice() override { return 0; }
  int DeviceCount() override { return 1; }
  bool Enter(int device) override { return device == 0; }
  void Leave() override {}
  int DeviceOf(void*) override { return 0; }
  uint64_t CaptureOf(void* stream) override {
    const std::lock_guard lock(mutex_);
    const auto found = captures_.find(stream);
    return found == captures_.end() ? 0 : found->second;
  }
  bool Join(void* waiting, void* before) override {
    const std::lock_guard lock(mutex_);
    if (gone.count(before) != 0)
      return false;
    joins.emplace_back(waiting, before);
    return true;
  }
  void* NewEvent() override {
    ++events;
    return new void*(nullptr);
  }
  void FreeEvent(void* event) override {
    --events;
    delete static_cast<void**>(event);
  }
  bool Record(void* event, void* before) override {
    const std::lock_guard lock(mutex_);
    *static_cast<void**>(event) = before;
    return gone.count(before) == 0;
  }
  bool Await(void* waiting, void* event) override {
    const std::lock_guard lock(mutex_);
    void* const before = *static_cast<void**>(event);
    if (before != nullptr && before != waiting)
      joins.emplace_back(waiting, before);
    return true;
  }
  bool RecordAtLaunch(void*, void* before) override {
    const std::lock_guard lock(mutex_);
    at_launch.emplace_back("record", before);
    return true;
  }
  bool AwaitAtLaunch(void* waiting, void*) override {
    const std::lock_guard lock(mutex_);
    at_launch.emplace_back("await", waiting);
    return true;
  }
  void AwaitDevice() override { await_device(); }
  bool Copy(void* to, const void* from, uint64_t bytes, void*) override {
    const std::lock_guard lock(mutex_);
    copies.push_back({to, from, bytes});
    return true;
  }
  uint64_t Allocate(uint64_t bytes) override {
    allocated += bytes;
    return bytes;
  }
  void Free(uint64_t address) override { allocated -= address; }

  // From here on the stream is captured; 0: no more.
  void SetCapture(void* stream, uint64_t id) {
    const std::lock_guard lock(mutex_);
    captures_[stream] = id;
  }

  struct Copied {
    void* to;
    const void* from;
    uint64_t bytes;
  };
  std::set<void*> gone;                        // the program has destroyed them
  std::vector<std::pair<void*, void*>> joins;  // waiting, before
  // What captures were told to do at each launch, and on which stream.
  std::vector<std::pair<std::string, void*>> at_launch;
  std::vector<Copied> copies;
  std::function<void()> await_device = [] {};
  std::atomic<uint64_t> allocated{0};
  std::atomic<int> events{0};

 private:
  std::mutex mutex_;
  std::map<void*, uint64_t> captures_;
};

}  // namespace vrank::hold

#endif  // VRANK_TESTS_GPU_HOLD_FAKE_STREAMS_H_
