// The decision log of the program `vrank` (base/guest/log_levels.h).
//
//   LOG_DECISION(schedule, 1, "rank {}'s sleep ends at {} ns", rank, ns);
//
// Nothing is formatted, and no argument evaluated, unless the module is logged.
//
// A line that cannot be written (a full disk) is dropped: the log never ends a run.
//
// Thread rule: one thread; levels are set before the first line.

#ifndef VRANK_BASE_DECISION_LOG_H_
#define VRANK_BASE_DECISION_LOG_H_

#include <cstdio>
#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "base/guest/log_levels.h"

namespace vrank {

// Takes the levels of VRANK_LOG. InvalidArgument, naming modules and levels, where it
// asks for others.
absl::Status StartDecisionLog();

// Sends lines of a module, of level 1 at least, to a file as they are, without the
// module's name, instead of to stderr. Not owned; nullptr ends that.
void SendDecisionsTo(LogModule module, FILE* file);

namespace decision_log_internal {
inline LogLevels levels{};
void Line(LogModule module, std::string_view text);
}  // namespace decision_log_internal

inline bool Logs(LogModule module, int level) {
  return decision_log_internal::levels[static_cast<size_t>(module)] >= level;
}

#define LOG_DECISION(module, level, ...)                                \
  do {                                                                  \
    if (::vrank::Logs(::vrank::LogModule::module, level))               \
      ::vrank::decision_log_internal::Line(::vrank::LogModule::module,  \
                                           ::fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace vrank

#endif  // VRANK_BASE_DECISION_LOG_H_
