#include "tools/compare/host_time_comparison.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/guest/anchor_history.h"
#include "base/status_macros.h"
#include "tools/compare/rank_sum.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using emulator::HostTimes;

struct Total {
  double host_ns = 0;
  uint64_t calls = 0;
};

// Each gap is there once for each depth of its keys: the deepest ones count.
Total RepeatedGaps(const HostTimes& times) {
  Total total;
  for (const auto& [key, gap] : times.gaps) {
    if (gap.depth != kAnchorDepths.front() || gap.count < 2)
      continue;
    total.host_ns += static_cast<double>(gap.mean_ns) * static_cast<double>(gap.count);
    total.calls += gap.count;
  }
  return total;
}

template <class Value>
Value Median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Measured {
  HostTimeSide side;
  std::vector<double> log_ns;  // of each recording
};

// Iterations of a recording but the first one of each run.
std::vector<int64_t> LaterIterations(const HostTimes& times) {
  std::vector<int64_t> later;
  for (const emulator::RecordedRun& run : times.runs)
    if (run.iteration_ns.size() > 1)
      later.insert(later.end(), run.iteration_ns.begin() + 1, run.iteration_ns.end());
  return later;
}

bool HaveIterations(const std::vector<HostTimeRecordingFile>& files) {
  return std::all_of(files.begin(), files.end(), [](const HostTimeRecordingFile& file) {
    return LaterIterations(file.times).size() >= HostTimeComparison::kLeastIterations;
  });
}

absl::StatusOr<Measured> Measure(const std::vector<HostTimeRecordingFile>& files,
                                 bool by_iteration) {
  Measured measured;
  std::vector<int64_t> times;
  std::vector<uint64_t> calls, iterations;
  for (const HostTimeRecordingFile& file : files) {
    Total total = RepeatedGaps(file.times);
    if (by_iteration) {
      const std::vector<int64_t> later = LaterIterations(file.times);
      iterations.push_back(later.size());
      total.host_ns = static_cast<double>(Median(later));
    }
    if (total.host_ns < 1)
      return absl::InvalidArgumentError(
          fmt::format("host times '{}': no gap of it repeats; record some ten "
                      "iterations",
                      file.path));
    times.push_back(std::llround(total.host_ns));
    calls.push_back(total.calls);
    measured.log_ns.push_back(std::log(total.host_ns));
  }
  measured.side = {.recordings = files.size(),
                   .host_ns = Median(times),
                   .calls = Median(calls),
                   .iterations = by_iteration ? Median(iterations) : 0};
  return measured;
}

absl::Status CheckCpu(const std::vector<HostTimeRecordingFile>& base,
                      const std::vector<HostTimeRecordingFile>& updated) {
  const HostTimeRecordingFile& first = base.front();
  for (const auto* files : {&base, &updated})
    for (const HostTimeRecordingFile& file : *files)
      if (file.times.cpu != first.times.cpu)
        return absl::InvalidArgumentError(
            fmt::format("'{}' was recorded on '{}', '{}' on '{}': compare recordings "
                        "of one machine",
                        first.path, first.times.cpu, file.path, file.times.cpu));
  return absl::OkStatus();
}

absl::Status CheckCalls(const HostTimeSide& base, const HostTimeSide& updated) {
  const auto [less, more] = std::minmax(base.calls, updated.calls);
  if (static_cast<double>(less) >= kOtherModel * static_cast<double>(more))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} calls in a recording before the change, {} after it: that is "
                  "another model or "
                  "number of iterations, and no change of the same one; --any-job "
                  "compares them all "
                  "the same",
                  FormatCount(base.calls), FormatCount(updated.calls)));
}

// Two recordings that are equal to the nanosecond are one, given twice.
absl::Status CheckOnce(const std::vector<HostTimeRecordingFile>& base,
                       const std::vector<HostTimeRecordingFile>& updated) {
  std::vector<const HostTimeRecordingFile*> seen;
  for (const auto* files : {&base, &updated})
    for (const HostTimeRecordingFile& file : *files) {
      for (const HostTimeRecordingFile* other : seen)
        if (other->times == file.times)
          return absl::InvalidArgumentError(fmt::format(
              "'{}' and '{}' are one recording: it says nothing on how recordings "
              "differ; give each once",
              other->path, file.path));
      seen.push_back(&file);
    }
  return absl::OkStatus();
}

// Of all recordings: by iteration only where all of them are alike.
absl::Status CheckIterations(const std::vector<HostTimeRecordingFile>& base,
                             const std::vector<HostTimeRecordingFile>& updated) {
  const HostTimeRecordingFile& first = base.front();
  const size_t expected = LaterIterations(first.times).size();
  for (const auto* files : {&base, &updated})
    for (const HostTimeRecordingFile& file : *files)
      if (const size_t later = LaterIterations(file.times).size(); later != expected)
        return absl::InvalidArgumentError(fmt::format(
            "'{}' is of {} iterations besides the first, '{}' of {}: record as many "
            "each time; --any-job compares them all the same",
            first.path, expected, file.path, later));
  return absl::OkStatus();
}

// The first recording of a busy machine, and how busy it was.
std::string BusyMachine(const std::vector<HostTimeRecordingFile>& files) {
  std::string first;
  size_t busy = 0;
  for (const HostTimeRecordingFile& file : files) {
    const std::optional<std::string> how = emulator::HowBusy(file.times);
    busy += how.has_value() ? 1 : 0;
    if (how.has_value() && first.empty())
      first = fmt::format("'{}' was recorded on a busy machine: {}", file.path, *how);
  }
  return busy == 0
             ? ""
             : fmt::format(
                   "{}{}; record anew on a quiet machine, or leave out "
                   "those that are of a busy one",
                   first, busy == 1 ? "" : fmt::format(", and {} others", busy - 1));
}

void Decide(HostTimeComparison* result) {
  if (result->low > 0)
    result->verdict = HostTimeVerdict::kSlower;
  else if (result->high < 0)
    result->verdict = HostTimeVerdict::kFaster;
  else if (std::max(-result->low, result->high) <= HostTimeComparison::kEqual)
    result->verdict = HostTimeVerdict::kEqual;
  else
    result->why_not = fmt::format(
        "the recordings differ among themselves: no change below {:.1f} % can be seen; "
        "record more of them, alternately, on a quiet machine",
        100 * result->resolution());
}

}  // namespace

const char* NameOf(HostTimeVerdict verdict) {
  switch (verdict) {
    case HostTimeVerdict::kSlower:
      return "slower";
    case HostTimeVerdict::kFaster:
      return "faster";
    case HostTimeVerdict::kEqual:
      return "equal";
    case HostTimeVerdict::kCannotTell:
      return "cannot tell";
  }
  return "";
}

absl::StatusOr<HostTimeComparison> CompareHostTimes(
    const std::vector<HostTimeRecordingFile>& base,
    const std::vector<HostTimeRecordingFile>& updated, bool any_job) {
  const size_t least = LeastValues(HostTimeComparison::kConfidence);
  if (base.size() < least || updated.size() < least)
    return absl::InvalidArgumentError(fmt::format(
        "{} recordings before the change and {} after it; {} of each are needed for a "
        "confidence of {:.0f} %, 8 are better: make them alternately with `vrank "
        "emulate "
        "--record-host-time`",
        base.size(), updated.size(), least, 100 * HostTimeComparison::kConfidence));
  RETURN_IF_ERROR(CheckCpu(base, updated));
  RETURN_IF_ERROR(CheckOnce(base, updated));
  if (!any_job)
    RETURN_IF_ERROR(CheckIterations(base, updated));
  const bool by_iteration = HaveIterations(base) && HaveIterations(updated);
  ASSIGN_OR_RETURN(const Measured before, Measure(base, by_iteration));
  ASSIGN_OR_RETURN(const Measured after, Measure(updated, by_iteration));
  if (!any_job)
    RETURN_IF_ERROR(CheckCalls(before.side, after.side));
  HostTimeComparison result;
  result.base = before.side;
  result.updated = after.side;
  result.by_iteration = by_iteration;
  // There are enough values. Of logarithms: the shift is a relative change.
  const Shift shift =
      FindShift(before.log_ns, after.log_ns, HostTimeComparison::kConfidence).value();
  result.change = std::expm1(shift.estimate);
  result.low = std::expm1(shift.low);
  result.high = std::expm1(shift.high);
  result.why_not = BusyMachine(base);
  if (result.why_not.empty())
    result.why_not = BusyMachine(updated);
  result.is_busy = !result.why_not.empty();
  if (!result.is_busy)
    Decide(&result);
  return result;
}

absl::StatusOr<LimitOutcome> Judge(const Limit& limit,
                                   const HostTimeComparison& comparison) {
  if (limit.metric != "host_time")
    return absl::InvalidArgumentError(
        fmt::format("--fail-if '{}': there is no metric '{}' in recordings of host "
                    "time; there is host_time",
                    limit.text, limit.metric));
  if (!limit.is_change || !limit.is_percent)
    return absl::InvalidArgumentError(
        fmt::format("--fail-if '{}': of recordings a change in percent can be limited, "
                    "as in 'host_time > +2%'",
                    limit.text));
  if (comparison.is_busy)
    return LimitOutcome::kCannotTell;
  const double most = limit.amount / 100;
  if (comparison.low > most)
    return LimitOutcome::kBroken;
  return comparison.high <= most ? LimitOutcome::kHolds : LimitOutcome::kCannotTell;
}

}  // namespace vrank::tools
