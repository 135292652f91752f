#include "base/decision_log.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

namespace vrank {
namespace {

std::array<FILE*, kLogModuleCount> files{};

}  // namespace

absl::Status StartDecisionLog() {
  const char* const text = std::getenv("VRANK_LOG");
  if (text == nullptr)
    return absl::OkStatus();
  std::string_view bad;
  const std::optional<LogLevels> levels = ParseLogLevels(text, &bad);
  if (levels.has_value()) {
    decision_log_internal::levels = *levels;
    return absl::OkStatus();
  }
  std::string message = fmt::format(
      "VRANK_LOG: '{}' is no MODULE or MODULE:LEVEL; levels are 0 to {}, modules:", bad,
      kMostLogLevel);
  for (const LogModuleRow& row : kLogModules)
    message += fmt::format("\n  {:<10} {}", row.name, row.what);
  return absl::InvalidArgumentError(message + "\n  all        each of them");
}

void SendDecisionsTo(LogModule module, FILE* file) {
  const auto i = static_cast<size_t>(module);
  files[i] = file;
  if (file != nullptr)
    decision_log_internal::levels[i] = std::max(decision_log_internal::levels[i], 1);
}

void decision_log_internal::Line(LogModule module, std::string_view text) {
  const auto i = static_cast<size_t>(module);
  // fmt::print would throw where a write fails.
  const std::string line =
      files[i] != nullptr ? fmt::format("{}\n", text)
                          : fmt::format("vrank {}: {}\n", kLogModules[i].name, text);
  (void)fwrite(line.data(), 1, line.size(), files[i] != nullptr ? files[i] : stderr);
}

}  // namespace vrank
