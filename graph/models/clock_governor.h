// The clock of a GPU that is held back by its power limit.
//
// A chip draws more than its limit while it multiplies matrices at its highest clock;
// its firmware lowers the clock until the mean is within the limit. What depends on the
// clock takes longer then, what streams through memory does not. One product after the
// other loses most; a job that waits, or whose kernels are bound by memory, loses
// nothing.
//
// In shares of the limit, f being the clock as a share of the highest:
//
//   power(f) = idle + (memory - idle) * time at memory + products * f^3 * time of
//   products
//
// (dynamic power goes with frequency and the square of the voltage, which goes with the
// frequency; a product takes 1/f times as long, so its energy goes with f^2).
// `products` follows from the one clock that is known: the one at which products alone
// are at the limit, sustained_gemm / efficiency.gemm. Sources of the numbers:
// data/gpus; what the form was held against: docs/validation.md, "Products at a
// sustained rate".
//
// The mean is that of all work since the program began, in windows of kWindowNs; the
// first, and windows in which the GPU was idle for more than half of the time
// (start-up, checkpoints), do not count. So the clock settles after the first iteration
// and then stays: equal iterations stay equal. It changes in steps, and
// only for a difference of one and a half.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_MODELS_CLOCK_GOVERNOR_H_
#define VRANK_GRAPH_MODELS_CLOCK_GOVERNOR_H_

#include <cstdint>
#include <deque>

#include "graph/models/gpu.pb.h"
#include "graph/models/roofline.h"

namespace vrank::graph {

class ClockGovernor {
 public:
  // Work between two evaluations of the power; assumed. At the highest clock an H100
  // ran products for 30 ms (docs/validation.md).
  static constexpr int64_t kWindowNs = 50'000'000;
  // Steps of the clock; assumed.
  static constexpr uint32_t kStepKhz = 15'000;

  // `gpu` outlives the governor.
  explicit ClockGovernor(const GpuDescription& gpu);

  // Counts the work. Returns how long it takes at the present clock.
  int64_t Run(const WorkCost& cost);
  // All that has run so far took as long.
  int64_t run_ns() const { return run_ns_; }
  // The host's clock was at `host_ns` when it had issued `run_ns` of work and had got
  // an answer: how much of that time nothing ran. In the order of questions.
  void HostWas(int64_t host_ns, int64_t run_ns);

  uint32_t clock_khz() const { return clock_khz_; }
  uint32_t highest_khz() const { return highest_khz_; }
  // The power limit holds the clock below the highest.
  bool is_held_back() const { return clock_khz_ != highest_khz_; }

 private:
  // Sums over work at the highest clock.
  struct Load {
    double clocked_ns = 0;  // bound by what goes with the clock
    double other_ns = 0;    // bound by memory, overheads, and idle
    double tensor_ns = 0;   // WorkCost::tensor_ns
    double memory_ns = 0;   // accesses to memory, also beside arithmetic
  };

  void CloseWindow();
  // Of the clock, as a share of the highest, at which the mean power is the limit; 1
  // where it is below.
  double LongestWithin(const Load& load) const;

  const uint32_t highest_khz_;
  const bool has_limit_;
  // In shares of the limit; `products_` beside `idle_`, at the highest clock.
  double idle_ = 0, memory_ = 0, products_ = 0;

  uint32_t clock_khz_;
  int64_t run_ns_ = 0;
  Load window_, all_;
  int64_t window_end_ns_ = kWindowNs;  // in run_ns_
  int64_t window_begin_ns_ = 0;
  struct Moment {
    int64_t host_ns, run_ns;
  };
  std::deque<Moment> moments_;  // not looked at yet
  int64_t idle_ns_ = 0;         // until the last moment that was
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_CLOCK_GOVERNOR_H_
