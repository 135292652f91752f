// What the host clock showed at which count of the processor's time stamp counter.
//
// torch.profiler stamps what the host does with that counter, which no library can
// answer in the clock's stead: the program reads it by an instruction. Virtual time
// stands still but for steps, and between two steps every count means the same time. So
// the steps of the profiled part are kept, and a count is the time of the last step
// before it: what the clock would have shown, had it been asked.
//
// Thread rule: every method may be called from any thread.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_CLOCK_LOG_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_CLOCK_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "virtual_host/turns/futex.h"

namespace vrank::host {

class ClockLog {
 public:
  // Time in nanoseconds at a count.
  using Converter = std::function<int64_t(uint64_t count)>;

  // Steps that are kept: 1 GiB. Later ones are dropped, and counts from there on are
  // the time of the last one.
  static constexpr size_t kMostSteps = size_t{1} << 26;

  // Forgets what was kept and begins with the time now.
  void Start(uint64_t count, int64_t now_ns);
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  // The clock shows `now_ns` from `count` on. Ignored where nothing is recorded.
  void Add(uint64_t count, int64_t now_ns);
  // Ends the recording; what it gives stays valid. `start_ns` is added to all times. A
  // count from start_ns on is none (a counter of 3 GHz shows 1970 plus nanoseconds
  // after 18 years), but such a time already, and is left as it is: CUPTI's records.
  // False: steps were dropped.
  bool Finish(int64_t start_ns, Converter* converter);

 private:
  struct Step {
    uint64_t count;
    int64_t now_ns;
  };
  using Steps = std::vector<Step>;

  std::atomic<bool> recording_{false};
  FutexLock lock_;
  std::shared_ptr<Steps> steps_;
  bool dropped_ = false;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_CLOCK_LOG_H_
