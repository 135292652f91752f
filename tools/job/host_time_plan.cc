#include "tools/job/host_time_plan.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/guest/gap_table.h"
#include "base/status_macros.h"
#include "emulator/host_time/machine.h"
#include "tools/machine/file_options.h"

namespace vrank::tools {
namespace {

using protocol::HostTime;

constexpr char kModelled[] = "modelled";
constexpr char kMeasured[] = "measured";

absl::StatusOr<uint64_t> ParseSpeed(const std::string& text) {
  const auto factor = ParseFactor(text);
  if (!factor.has_value())
    return absl::InvalidArgumentError(
        fmt::format("--host-speed '{}': give a factor like 1.7, above 0, with at most "
                    "six decimals",
                    text));
  return static_cast<uint64_t>(factor->numerator) * 1'000'000 /
         static_cast<uint64_t>(factor->denominator);
}

absl::StatusOr<emulator::HostTimes> LoadAll(const JobFlags& flags) {
  emulator::HostTimes all;
  for (const std::string& path : HostTimeFiles(flags)) {
    ASSIGN_OR_RETURN(emulator::HostTimes times, emulator::HostTimes::Load(path));
    if (const absl::Status quiet = emulator::CheckQuiet(times);
        !quiet.ok() && !flags.force_host_time)
      return absl::Status(quiet.code(), fmt::format("--host-time '{}': {}", path,
                                                    std::string(quiet.message())));
    if (all.runs.empty()) {
      all = std::move(times);
    } else if (const absl::Status merged = all.Merge(times); !merged.ok()) {
      return absl::Status(merged.code(), fmt::format("--host-time '{}': {}", path,
                                                     std::string(merged.message())));
    }
  }
  return all;
}

// What --host-time names, where that is no mode.
absl::Status CheckName(const std::string& path, const JobFlags& flags) {
  std::error_code error;
  const bool is_word = path.find_first_of("./") == std::string::npos;
  if (path == kModelled || path == kMeasured ||
      (is_word && !std::filesystem::exists(path, error)))
    return absl::InvalidArgumentError(
        fmt::format("--host-time '{}': '{}' is no file; give modelled, measured, or "
                    "files of --record-host-time, separated by commas",
                    flags.host_time, path));
  if (!flags.record_host_time.empty() &&
      std::filesystem::equivalent(path, flags.record_host_time, error))
    return absl::InvalidArgumentError(fmt::format(
        "--record-host-time '{}': --host-time plays that file, and it would "
        "be overwritten; give another name",
        flags.record_host_time));
  return absl::OkStatus();
}

}  // namespace

void AddHostTimeFlags(CLI::App* app, JobFlags* flags) {
  app->add_option("--host-time", flags->host_time);
  app->add_option("--host-speed", flags->host_speed);
  app->add_flag("--force-host-time", flags->force_host_time);
}

void AddHostTimeRecordingFlag(CLI::App* app, JobFlags* flags) {
  Writes(app->add_option("--record-host-time", flags->record_host_time));
}

std::vector<std::string> HostTimeFiles(const JobFlags& flags) {
  std::vector<std::string> files;
  if (flags.host_time == kModelled || flags.host_time == kMeasured)
    return files;
  for (size_t begin = 0; begin <= flags.host_time.size();) {
    const size_t end =
        std::min(flags.host_time.find(',', begin), flags.host_time.size());
    files.push_back(flags.host_time.substr(begin, end - begin));
    begin = end + 1;
  }
  return files;
}

absl::Status CheckHostTimeFlags(const JobFlags& flags) {
  const bool modelled = flags.host_time == kModelled;
  if (flags.real_gpu && (!modelled || !flags.record_host_time.empty()))
    return absl::InvalidArgumentError(
        "--real-gpu: the ranks keep their own time there; leave out --host-time and "
        "--record-host-time");
  if (!flags.host_speed.empty() && modelled)
    return absl::InvalidArgumentError(
        "--host-speed: with --host-time modelled the program takes no host time; "
        "choose "
        "measured, or a file");
  if (!flags.host_speed.empty())
    RETURN_IF_ERROR(ParseSpeed(flags.host_speed).status());
  for (const std::string& path : HostTimeFiles(flags))
    RETURN_IF_ERROR(CheckName(path, flags));
  if (flags.force_host_time && HostTimeFiles(flags).empty())
    return absl::InvalidArgumentError(
        "--force-host-time: it is about a file that --host-time names; name one");
  return absl::OkStatus();
}

absl::StatusOr<HostTimePlan> PlanHostTime(const JobFlags& flags) {
  HostTimePlan plan;
  if (!flags.host_speed.empty()) {
    ASSIGN_OR_RETURN(plan.speed_millionths, ParseSpeed(flags.host_speed));
  }
  if (flags.host_time == kModelled)
    return plan;
  plan.mode = flags.host_time == kMeasured ? HostTime::kMeasured : HostTime::kRecorded;
  if (plan.mode == HostTime::kMeasured)
    return plan;
  ASSIGN_OR_RETURN(const emulator::HostTimes times, LoadAll(flags));
  plan.cpu = times.cpu;
  plan.gaps = times.Played(plan.speed_millionths);
  if (plan.gaps.size() > kMostRecordedGaps)
    return absl::InvalidArgumentError(fmt::format(
        "--host-time '{}': {} gaps are more than the {} that can be played; "
        "record fewer iterations, or play fewer files",
        flags.host_time, plan.gaps.size(), kMostRecordedGaps));
  return plan;
}

void Tell(const HostTimePlan& plan, bool records, protocol::Settings* settings) {
  settings->host_time = plan.mode;
  settings->records_gaps = records ? 1 : 0;
  settings->host_speed_millionths = plan.speed_millionths;
  if (records || plan.mode != HostTime::kModelled)
    settings->ns_per_2_32_ticks = emulator::NsPer2To32Ticks();
}

}  // namespace vrank::tools
