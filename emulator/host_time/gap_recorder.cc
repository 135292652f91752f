#include "emulator/host_time/gap_recorder.h"

#include <algorithm>

namespace vrank::emulator {
namespace {

// Nothing computes for ten hours between two calls: the process's memory is corrupt.
constexpr int64_t kLongest = int64_t{1} << 45;

}  // namespace

void GapRecorder::Samples::Add(int64_t ns) {
  if (count++ % stride != 0) {
    sums.back() += ns;
    return;
  }
  values.push_back(ns);
  sums.push_back(ns);
  if (values.size() < kMostSamples)
    return;
  for (size_t i = 0; 2 * i < values.size(); ++i) {
    values[i] = values[2 * i];
    sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  values.resize(values.size() / 2);
  sums.resize(values.size());
  stride *= 2;
}

int64_t GapRecorder::Samples::Mean() const {
  // Each sum but the last is of `stride` values.
  std::vector<int64_t> means = sums;
  for (int64_t& mean : means)
    mean /= static_cast<int64_t>(stride);
  if (count % stride != 0)
    means.back() = sums.back() / static_cast<int64_t>(count % stride);
  return RecurringMean(means);
}

void GapRecorder::Gap::Add(int64_t ns, uint64_t end) {
  const uint64_t kind = end & kAnchorKind;
  if (all.count == 0)
    first_kind = kind;
  else if (by_end.empty() && kind != first_kind)
    by_end[first_kind] = all;
  all.Add(ns);
  if (!by_end.empty())
    by_end[kind].Add(ns);
}

GapEstimate GapRecorder::Gap::Estimated() const {
  GapEstimate estimate = Estimate(all.values, depth);
  estimate.count = all.count;
  estimate.mean_ns = all.Mean();
  for (const auto& [kind, samples] : by_end)
    estimate.ends[kind] = {samples.Mean(), samples.count};
  if (by_end.empty())
    estimate.ends[first_kind] = {estimate.mean_ns, estimate.count};
  return estimate;
}

AnchorHistory& GapRecorder::HistoryOf(int32_t rank, uint32_t thread, uint64_t role) {
  std::unique_ptr<AnchorHistory>& history = threads_[{rank, thread}];
  if (history == nullptr)
    history = std::make_unique<AnchorHistory>(role);
  return *history;
}

void GapRecorder::AddGap(AnchorHistory* history, uint64_t anchor, uint64_t end,
                         int64_t ns) {
  const GapKeys keys = history->Pass(anchor);
  for (size_t i = 0; i < keys.keys.size(); ++i) {
    Gap& known = gaps_[keys.keys[i]];
    known.depth = static_cast<uint32_t>(kAnchorDepths[i]);
    known.Add(ns, end);
  }
}

void GapRecorder::Add(int32_t rank, const protocol::HostGaps& batch,
                      std::span<const protocol::HostGap> gaps) {
  AnchorHistory& history = HistoryOf(rank, batch.thread, batch.role);
  run_.preempted += batch.preempted;
  run_.gaps += gaps.size();
  for (size_t i = 0; i < gaps.size(); ++i) {
    const int64_t ns = std::clamp<int64_t>(gaps[i].ns, 0, kLongest);
    run_.cpu_ns += ns;
    AddGap(&history, gaps[i].anchor,
           i + 1 < gaps.size() ? gaps[i + 1].anchor : batch.end, ns);
  }
}

void GapRecorder::AddOfFollower(int32_t rank, const protocol::HostGaps& batch,
                                const protocol::HostGap& gap) {
  AddGap(&HistoryOf(rank, batch.thread, batch.role), gap.anchor, batch.end,
         std::clamp<int64_t>(gap.ns, 0, kLongest));
}

HostTimes GapRecorder::Collected() const {
  HostTimes result;
  result.runs.push_back(run_);
  for (const auto& [key, gap] : gaps_)
    result.gaps.emplace(key, gap.Estimated());
  return result;
}

}  // namespace vrank::emulator
