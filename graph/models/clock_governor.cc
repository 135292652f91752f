#include "graph/models/clock_governor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace vrank::graph {

ClockGovernor::ClockGovernor(const GpuDescription& gpu)
    : highest_khz_(gpu.clock_khz()),
      has_limit_(gpu.has_power()),
      clock_khz_(gpu.clock_khz()) {
  if (!has_limit_)
    return;
  const Power& power = gpu.power();
  const double sustained = power.sustained_gemm() / gpu.efficiency().gemm();
  idle_ = power.idle_watts() / power.limit_watts();
  memory_ = (power.memory_watts() - power.idle_watts()) / power.limit_watts();
  products_ = (1 - idle_) / (sustained * sustained * sustained);
}

int64_t ClockGovernor::Run(const WorkCost& cost) {
  int64_t ns = cost.ns;
  if (!has_limit_) {
    run_ns_ += ns;
    return ns;
  }
  const double bound = std::max(cost.compute_ns, cost.memory_ns);
  if (is_held_back()) {
    const double slowed = cost.compute_ns * highest_khz_ / clock_khz_;
    ns += static_cast<int64_t>(std::ceil(std::max(0.0, slowed - bound)));
  }
  const bool clocked = cost.compute_ns > cost.memory_ns;
  window_.clocked_ns += clocked ? cost.compute_ns : 0;
  window_.other_ns += static_cast<double>(cost.ns) - (clocked ? cost.compute_ns : 0);
  window_.tensor_ns += cost.tensor_ns;
  window_.memory_ns += cost.memory_ns;
  run_ns_ += ns;
  if (run_ns_ >= window_end_ns_)
    CloseWindow();
  return ns;
}

void ClockGovernor::HostWas(int64_t host_ns, int64_t run_ns) {
  if (has_limit_)
    moments_.push_back({host_ns, run_ns});
}

// Only moments before the window count. Whether the answer to a later question has come
// when a window closes depends on this machine where several threads of a rank issue
// work; an answer about what ended a window ago has.
void ClockGovernor::CloseWindow() {
  int64_t idle_ns = idle_ns_;
  while (!moments_.empty() && moments_.front().run_ns <= window_begin_ns_) {
    idle_ns = std::max(idle_ns, moments_.front().host_ns - moments_.front().run_ns);
    moments_.pop_front();
  }
  const auto idle = static_cast<double>(idle_ns - std::exchange(idle_ns_, idle_ns));
  const auto busy = static_cast<double>(run_ns_ - window_begin_ns_);
  const bool is_first = window_begin_ns_ == 0;  // nothing is known of its idle time
  window_begin_ns_ = run_ns_;
  window_end_ns_ = run_ns_ + kWindowNs;
  const Load window = std::exchange(window_, {});
  if (is_first || idle > busy)
    return;
  all_.clocked_ns += window.clocked_ns;
  all_.other_ns += window.other_ns + idle;
  all_.tensor_ns += window.tensor_ns;
  all_.memory_ns += window.memory_ns;
  const double wanted = LongestWithin(all_) * highest_khz_;
  if (std::abs(wanted - clock_khz_) < 1.5 * kStepKhz && wanted < highest_khz_)
    return;
  // The highest clock need not be a whole number of steps above 0.
  const double below = highest_khz_ - wanted;
  const auto steps = static_cast<uint32_t>(std::ceil(below / kStepKhz));
  clock_khz_ = highest_khz_ - std::min(steps * kStepKhz, highest_khz_ / 2);
}

double ClockGovernor::LongestWithin(const Load& load) const {
  const auto excess = [&](double clock) {
    const double time = load.clocked_ns / clock + load.other_ns;
    const double energy = idle_ * time + memory_ * load.memory_ns +
                          products_ * load.tensor_ns * clock * clock;
    return energy - time;
  };
  if (excess(1) <= 0)
    return 1;
  // Grows with the clock: a bisection to far less than a step.
  double low = 0.25, high = 1;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (excess(middle) > 0 ? high : low) = middle;
  }
  return low;
}

}  // namespace vrank::graph
