// What a job's flags and environment state that its results hang on, as one text that
// slices and graphs keep (TraceSession::cost_options): "name=value" for values,
// "name:file:checksum" for files, by spaces. docs/files.md has the table of all flags.
//
// Thread rule: reads files and the environment, keeps no state.

#ifndef VRANK_TOOLS_JOB_STATED_OPTIONS_H_
#define VRANK_TOOLS_JOB_STATED_OPTIONS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "tools/job/job_flags.h"

namespace vrank::tools {

// Names of options that are read back.
inline constexpr char kRanksPerNodeOption[] = "ranks_per_node";
inline constexpr char kIterationRangeOption[] = "iteration_range";
inline constexpr char kClusterOption[] = "cluster";
inline constexpr char kHostTimeOption[] = "host_time";

// Those that are no cost: --ranks-per-node, --cluster and --gpu where they name files,
// --values, --payload, --recorded-payloads, --iteration-range, and variables of the
// environment. What nothing states is missing.
absl::StatusOr<std::vector<std::string>> StatedOptions(const JobFlags& flags);

// The value of "name=value" in such a text.
std::optional<std::string> ValueOf(std::string_view options, std::string_view name);
// What follows "name:", for a file "FILE:CHECKSUM".
std::optional<std::string> FileOf(std::string_view options, std::string_view name);

// --host-time, as they state it: "modelled", "measured" or "recorded".
std::string HostTimeMode(std::string_view options);

// Whether a program's work, or its order, may hang on the environment variable: what
// NCCL and PyTorch read of their own while a job runs, logging left out.
bool ChangesResults(std::string_view variable);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_STATED_OPTIONS_H_
