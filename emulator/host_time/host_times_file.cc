// .vhost files: reading, checking, writing.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/format_version.h"
#include "base/guest/anchor_history.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/whole_file.h"
#include "emulator/host_time/host_times.h"
#include "emulator/host_time/host_times_file.pb.h"

namespace vrank::emulator {
namespace {

constexpr uint32_t kFileVersion = 3;
constexpr uint32_t kOldestVersion = 2;  // in older ones, keys of gaps were others
constexpr size_t kMostFileBytes = size_t{1} << 28;
constexpr int kKindShift = std::countr_zero(kAnchorKind);
constexpr int kKindBits = std::popcount(kAnchorKind);
constexpr char kRecordAgain[] = "record it with `vrank emulate --record-host-time`";
// No gap, and no sum of a recording, is longer: 2^50 ns are 13 days.
constexpr int64_t kMost = int64_t{1} << 50;

bool IsSane(const HostTimesFile::Gap& gap) {
  const auto known_depth = [&](int depth) {
    return gap.depth() == static_cast<uint32_t>(depth);
  };
  return gap.key() != 0 && gap.count() != 0 && gap.count() <= uint64_t{kMost} &&
         std::any_of(kAnchorDepths.begin(), kAnchorDepths.end(), known_depth) &&
         0 <= gap.p10_ns() && gap.p10_ns() <= gap.median_ns() &&
         gap.median_ns() <= gap.p90_ns() && gap.p90_ns() <= kMost &&
         0 <= gap.mean_ns() && gap.mean_ns() <= kMost &&
         std::all_of(gap.ends().begin(), gap.ends().end(), [](const auto& end) {
           return end.kind() < (1u << kKindBits) && 0 <= end.mean_ns() &&
                  end.mean_ns() <= kMost && end.count() != 0 &&
                  end.count() <= uint64_t{kMost};
         });
}

GapEstimate FromFile(const HostTimesFile::Gap& gap) {
  GapEstimate estimate{.depth = gap.depth(),
                       .p10_ns = gap.p10_ns(),
                       .median_ns = gap.median_ns(),
                       .p90_ns = gap.p90_ns(),
                       .mean_ns = gap.mean_ns(),
                       .count = gap.count(),
                       .ends = {}};
  for (const auto& end : gap.ends())
    estimate.ends[uint64_t{end.kind()} << kKindShift] = {end.mean_ns(), end.count()};
  return estimate;
}

bool IsSane(const HostTimesFile::Run& run) {
  const auto fits = [](int64_t value) { return 0 <= value && value <= kMost; };
  return fits(run.cpu_ns()) && fits(run.stolen_ms()) && fits(run.cores_ms()) &&
         std::all_of(run.iteration_ns().begin(), run.iteration_ns().end(), fits);
}

}  // namespace

absl::StatusOr<HostTimes> HostTimes::Load(const std::string& path) {
  const std::string subject = fmt::format("host times '{}'", path);
  const absl::StatusOr<std::string> bytes = ReadRegularFile(path, kMostFileBytes);
  if (!bytes.ok())
    return absl::Status(
        bytes.status().code(),
        fmt::format("{}: {}", subject, std::string(bytes.status().message())));
  HostTimesFile file;
  if (!file.ParseFromString(*bytes))
    return absl::DataLossError(fmt::format(
        "{}: this is no .vhost file, or a part of one; {}", subject, kRecordAgain));
  RETURN_IF_ERROR(CheckFormatVersion(subject, file.version(), kFileVersion,
                                     kRecordAgain, kOldestVersion));
  HostTimes result{
      .cpu = file.cpu(), .program = file.program(), .runs = {}, .gaps = {}};
  for (const auto& run : file.runs()) {
    if (!IsSane(run))
      return absl::DataLossError(fmt::format("{}: run {} has times that none takes; {}",
                                             subject, result.runs.size() + 1,
                                             kRecordAgain));
    result.runs.push_back({run.gaps(),
                           run.cpu_ns(),
                           run.preempted(),
                           run.stolen_ms(),
                           run.cores_ms(),
                           {run.iteration_ns().begin(), run.iteration_ns().end()}});
  }
  for (const auto& gap : file.gaps()) {
    if (!IsSane(gap) || !result.gaps.emplace(gap.key(), FromFile(gap)).second)
      return absl::DataLossError(fmt::format(
          "{}: gap {:x} makes no sense, or is there twice; the file is damaged, {}",
          subject, gap.key(), kRecordAgain));
  }
  if (result.gaps.empty())
    return absl::DataLossError(
        fmt::format("{}: it has no gaps; {}", subject, kRecordAgain));
  return result;
}

absl::Status HostTimes::Save(const std::string& path) const {
  HostTimesFile file;
  file.set_version(kFileVersion);
  file.set_cpu(cpu);
  file.set_program(program);
  for (const RecordedRun& run : runs) {
    auto* row = file.add_runs();
    row->set_gaps(run.gaps);
    row->set_cpu_ns(run.cpu_ns);
    row->set_preempted(run.preempted);
    row->set_stolen_ms(run.stolen_ms);
    row->set_cores_ms(run.cores_ms);
    row->mutable_iteration_ns()->Add(run.iteration_ns.begin(), run.iteration_ns.end());
  }
  for (const auto& [key, gap] : gaps) {
    auto* row = file.add_gaps();
    row->set_key(key);
    row->set_depth(gap.depth);
    row->set_p10_ns(gap.p10_ns);
    row->set_median_ns(gap.median_ns);
    row->set_p90_ns(gap.p90_ns);
    row->set_mean_ns(gap.mean_ns);
    row->set_count(gap.count);
    for (const auto& [kind, end] : gap.ends) {
      auto* of_end = row->add_ends();
      of_end->set_kind(static_cast<uint32_t>(kind >> kKindShift));
      of_end->set_mean_ns(end.mean_ns);
      of_end->set_count(end.count);
    }
  }
  errno = 0;
  WholeFile out(path);
  if (out.stream() != nullptr && file.SerializeToFileDescriptor(fileno(out.stream())) &&
      out.Commit())
    return absl::OkStatus();
  const int error = errno;
  return absl::UnavailableError(
      fmt::format("host times '{}': cannot be written: {}; is there room, and may the "
                  "file be changed?",
                  path, std::strerror(error)));
}

}  // namespace vrank::emulator
