#include "emulator/host_time/gap_recorder.h"

#include <algorithm>

namespace vrank::emulator {
namespace {

// Nothing computes for ten hours between two calls: the process's memory is corrupt.
constexpr int64_t kLongest = int64_t{1} << 45;

}  // namespace

void GapRecorder::Samples::Add(int64_t ns) {
  if (count++ % stride != 0)
    return;
  values.push_back(ns);
  if (values.size() < kMostSamples)
    return;
  for (size_t i = 0; 2 * i < values.size(); ++i)
    values[i] = values[2 * i];
  values.resize(values.size() / 2);
  stride *= 2;
}

void GapRecorder::Add(int32_t rank, const protocol::HostGaps& batch,
                      std::span<const protocol::HostGap> gaps) {
  std::unique_ptr<AnchorHistory>& history = threads_[{rank, batch.thread}];
  if (history == nullptr)
    history = std::make_unique<AnchorHistory>(batch.role);
  quality_.preempted += batch.preempted;
  quality_.gaps += gaps.size();
  for (const protocol::HostGap& gap : gaps) {
    const int64_t ns = std::clamp<int64_t>(gap.ns, 0, kLongest);
    quality_.cpu_ns += ns;
    const GapKeys keys = history->Pass(gap.anchor);
    for (size_t i = 0; i < keys.keys.size(); ++i) {
      Samples& samples = samples_[keys.keys[i]];
      samples.depth = static_cast<uint32_t>(kAnchorDepths[i]);
      samples.Add(ns);
    }
  }
}

HostTimes GapRecorder::Collected() const {
  HostTimes result;
  result.runs.push_back(quality_);
  for (const auto& [key, samples] : samples_) {
    GapEstimate estimate = Estimate(samples.values, samples.depth);
    estimate.count = samples.count;
    result.gaps.emplace(key, estimate);
  }
  return result;
}

}  // namespace vrank::emulator
