#include "emulator/host_time/host_times.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/guest/anchor_history.h"

namespace vrank::emulator {
namespace {

// Thresholds of a busy machine; measured on one of two cores, see
// docs/guides/host_time.md.
constexpr double kMostPreemptedPerSecond = 100;
constexpr double kMostStolen = 0.02;

int64_t Average(int64_t a, uint64_t a_count, int64_t b, uint64_t b_count) {
  __extension__ using Wide = __int128;
  const Wide sum =
      Wide{a} * static_cast<int64_t>(a_count) + Wide{b} * static_cast<int64_t>(b_count);
  return static_cast<int64_t>(sum / static_cast<int64_t>(a_count + b_count));
}

void MergeInto(const GapEstimate& other, GapEstimate* gap) {
  const auto average = [&](int64_t GapEstimate::*ns) {
    gap->*ns = Average(gap->*ns, gap->count, other.*ns, other.count);
  };
  average(&GapEstimate::p10_ns);
  average(&GapEstimate::median_ns);
  average(&GapEstimate::p90_ns);
  average(&GapEstimate::mean_ns);
  gap->count += other.count;
  for (const auto& [kind, end] : other.ends) {
    const auto [known, added] = gap->ends.emplace(kind, end);
    if (added)
      continue;
    GapEnd& mine = known->second;
    mine.mean_ns = Average(mine.mean_ns, mine.count, end.mean_ns, end.count);
    mine.count += end.count;
  }
}

}  // namespace

GapEstimate Estimate(std::vector<int64_t> values, uint32_t depth) {
  std::sort(values.begin(), values.end());
  const auto at = [&](size_t tenths) {
    return values[(values.size() - 1) * tenths / 10];
  };
  return {.depth = depth,
          .p10_ns = at(1),
          .median_ns = at(5),
          .p90_ns = at(9),
          .mean_ns = 0,
          .count = values.size(),
          .ends = {}};
}

int64_t RecurringMean(const std::vector<int64_t>& values) {
  if (values.size() == 1)
    return values.front();
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  const int64_t most = std::min(*std::max_element(values.begin(), half),
                                *std::max_element(half, values.end()));
  int64_t sum = 0;
  for (const int64_t value : values)
    sum += std::min(value, most);
  return sum / static_cast<int64_t>(values.size());
}

double RecordedRun::PreemptedPerSecond() const {
  return cpu_ns == 0
             ? 0
             : static_cast<double>(preempted) * 1e9 / static_cast<double>(cpu_ns);
}

double RecordedRun::StolenShare() const {
  return cores_ms == 0 ? 0
                       : static_cast<double>(stolen_ms) / static_cast<double>(cores_ms);
}

absl::Status HostTimes::Merge(const HostTimes& other) {
  if (cpu != other.cpu)
    return absl::FailedPreconditionError(fmt::format(
        "one was recorded on '{}', another on '{}': times of two CPUs have no mean; "
        "play them one at a time",
        cpu, other.cpu));
  if (program != other.program)
    return absl::FailedPreconditionError(
        fmt::format("one is of '{}', another of '{}'; record one program several times "
                    "to merge",
                    program, other.program));
  runs.insert(runs.end(), other.runs.begin(), other.runs.end());
  for (const auto& [key, gap] : other.gaps)
    if (const auto [known, added] = gaps.emplace(key, gap); !added)
      MergeInto(gap, &known->second);
  return absl::OkStatus();
}

std::vector<protocol::RecordedGap> HostTimes::Played(uint64_t speed_millionths) const {
  const auto at_speed = [&](int64_t ns) {
    __extension__ using Wide = __int128;
    return static_cast<int64_t>(Wide{ns} * 1'000'000 /
                                static_cast<int64_t>(speed_millionths));
  };
  std::vector<protocol::RecordedGap> played;
  played.reserve(gaps.size());
  for (const auto& [key, gap] : gaps) {
    if (gap.ends.size() < 2) {
      played.push_back({.key = key, .ns = at_speed(gap.mean_ns)});
      continue;
    }
    int64_t in_any_case_ns = gap.mean_ns;
    for (const auto& [kind, end] : gap.ends)
      in_any_case_ns = std::min(in_any_case_ns, end.mean_ns);
    const int64_t begin_ns = at_speed(in_any_case_ns);
    played.push_back(
        {.key = key, .ns = begin_ns, .rest_ns = at_speed(gap.mean_ns) - begin_ns});
    for (const auto& [kind, end] : gap.ends)
      played.push_back(
          {.key = KeyOfEnd(key, kind), .ns = at_speed(end.mean_ns) - begin_ns});
  }
  return played;
}

std::optional<std::string> HowBusy(const HostTimes& times) {
  for (const RecordedRun& run : times.runs) {
    if (run.PreemptedPerSecond() > kMostPreemptedPerSecond)
      return fmt::format(
          "its threads lost their cores {:.0f} times in a second of CPU time (at most "
          "{:.0f} where it is quiet)",
          run.PreemptedPerSecond(), kMostPreemptedPerSecond);
    if (run.StolenShare() > kMostStolen)
      return fmt::format(
          "the hypervisor gave {:.1f} % of its cores to others (at most {:.0f} %)",
          100 * run.StolenShare(), 100 * kMostStolen);
  }
  return std::nullopt;
}

absl::Status CheckQuiet(const HostTimes& times) {
  const std::optional<std::string> how = HowBusy(times);
  if (!how.has_value())
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("recorded on a busy machine: {}; record it again on a quiet one, or "
                  "play it all the same with --force-host-time",
                  *how));
}

}  // namespace vrank::emulator
