#include "tools/job/stated_options.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/models/description_file.h"
#include "tools/job/host_time_plan.h"
#include "tools/job/program_fingerprint.h"

namespace vrank::tools {
namespace {

// Of NCCL's names, those of logs, and of what finds or tests the library.
constexpr std::string_view kWithoutEffect[] = {
    "NCCL_DEBUG",   "NCCL_HOME",    "NCCL_ROOT",  "NCCL_LIB",
    "NCCL_INCLUDE", "NCCL_VERSION", "NCCL_TESTS_"};

constexpr std::string_view kWithEffect[] = {
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"};

constexpr char kSpace[] = "%20";
constexpr char kPercent[] = "%25";

// Spaces part options.
std::string Escaped(std::string_view value) {
  std::string text;
  for (const char c : value)
    if (c == ' ')
      text += kSpace;
    else if (c == '%')
      text += kPercent;
    else
      text += c;
  return text;
}

std::string Unescaped(std::string_view text) {
  std::string value;
  while (!text.empty()) {
    const bool space = text.starts_with(kSpace);
    if (space || text.starts_with(kPercent)) {
      value += space ? ' ' : '%';
      text.remove_prefix(std::size(kSpace) - 1);
    } else {
      value += text.front();
      text.remove_prefix(1);
    }
  }
  return value;
}

// What follows `begin` in the option that begins so.
std::optional<std::string> After(std::string_view options, std::string_view begin) {
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find(' '));
    if (option.starts_with(begin))
      return Unescaped(option.substr(begin.size()));
    options.remove_prefix(std::min(options.size(), option.size() + 1));
  }
  return std::nullopt;
}

}  // namespace

std::string HostTimeMode(std::string_view options) {
  if (FileOf(options, kHostTimeOption).has_value())
    return "recorded";
  return ValueOf(options, kHostTimeOption).value_or(JobFlags().host_time);
}

bool ChangesResults(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) {
    return variable.starts_with(prefix);
  };
  if (begins("NCCL_"))
    return std::none_of(std::begin(kWithoutEffect), std::end(kWithoutEffect), begins);
  return begins("TORCH_NCCL_") ||
         std::find(std::begin(kWithEffect), std::end(kWithEffect), variable) !=
             std::end(kWithEffect);
}

std::optional<std::string> ValueOf(std::string_view options, std::string_view name) {
  return After(options, fmt::format("{}=", name));
}

std::optional<std::string> FileOf(std::string_view options, std::string_view name) {
  return After(options, fmt::format("{}:", name));
}

absl::StatusOr<std::vector<std::string>> StatedOptions(const JobFlags& flags) {
  std::vector<std::string> options;
  const auto add_file = [&](const char* name, const std::string& path) -> absl::Status {
    if (path.empty())
      return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string file, FileFingerprint(path));
    options.push_back(fmt::format("{}:{}", name, Escaped(file)));
    return absl::OkStatus();
  };
  if (flags.ranks_per_node != 0)
    options.push_back(fmt::format("{}={}", kRanksPerNodeOption, flags.ranks_per_node));
  if (flags.iteration_range.has_value())
    options.push_back(
        fmt::format("{}={}", kIterationRangeOption, Escaped(*flags.iteration_range)));
  if (graph::MeansFile(flags.cluster))
    RETURN_IF_ERROR(add_file(kClusterOption, flags.cluster));
  if (graph::MeansFile(flags.gpu))
    RETURN_IF_ERROR(add_file("gpu", flags.gpu));
  RETURN_IF_ERROR(add_file("values", flags.values));
  RETURN_IF_ERROR(add_file("recorded_payloads", flags.recorded_payloads));
  const std::vector<std::string> host_times = HostTimeFiles(flags);
  for (const std::string& file : host_times)
    RETURN_IF_ERROR(add_file(kHostTimeOption, file));
  if (host_times.empty() && flags.host_time != JobFlags().host_time)
    options.push_back(fmt::format("{}={}", kHostTimeOption, flags.host_time));
  if (!flags.host_speed.empty())
    options.push_back(fmt::format("host_speed={}", flags.host_speed));
  // The last rule that fits holds, so that their order counts.
  for (const std::string& rule : flags.payload_rules)
    options.push_back(fmt::format("payload={}", Escaped(rule)));
  std::set<std::string_view> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (ChangesResults(text.substr(0, text.find('='))))
      variables.insert(text);
  }
  for (const std::string_view variable : variables)
    options.push_back(Escaped(variable));
  return options;
}

}  // namespace vrank::tools
