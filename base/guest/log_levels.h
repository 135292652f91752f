// The decision log: the modules that log their decisions, and at which level.
//
//   VRANK_LOG=schedule:2,pricing:1 vrank emulate ...      level 1 where none is stated
//   VRANK_LOG=all:1
//
// Level 1 logs decisions, level 2 also their inputs, or each occurrence. Lines go to
// stderr:
//   vrank schedule: 1234567 3 sleep-ends         the program `vrank`
//   vrank [rank 3] values: computed, ...         a real rank
// No allocation and no locale, as in raw_log.h. The program `vrank` refuses an unknown
// module or level; a guest logs nothing then.
//
// Thread rule: any thread.

#ifndef VRANK_BASE_GUEST_LOG_LEVELS_H_
#define VRANK_BASE_GUEST_LOG_LEVELS_H_

#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace vrank {

enum class LogModule : unsigned char {
#define LOG_MODULE(name, what) name,
#include "base/guest/log_modules.def"
#undef LOG_MODULE
};

struct LogModuleRow {
  std::string_view name;
  std::string_view what;
};
inline constexpr LogModuleRow kLogModules[] = {
#define LOG_MODULE(name, what) {#name, what},
#include "base/guest/log_modules.def"
#undef LOG_MODULE
};
inline constexpr size_t kLogModuleCount = std::size(kLogModules);
inline constexpr int kMostLogLevel = 2;

using LogLevels = std::array<int, kLogModuleCount>;

// Of a text as above. `bad`: set to the part that is none, where the result is nullopt.
constexpr std::optional<LogLevels> ParseLogLevels(std::string_view text,
                                                  std::string_view* bad) {
  LogLevels levels{};
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(part.size() + (part.size() < text.size() ? 1 : 0));
    const std::string_view name = part.substr(0, part.find(':'));
    int level = 1;
    if (name.size() < part.size()) {
      const std::string_view digit = part.substr(name.size() + 1);
      level = digit.size() == 1 ? digit[0] - '0' : -1;
    }
    bool known = false;
    for (size_t i = 0; i < kLogModuleCount; ++i)
      if (name == "all" || name == kLogModules[i].name) {
        levels[i] = level;
        known = true;
      }
    if (!known || level < 0 || level > kMostLogLevel) {
      *bad = part;
      return std::nullopt;
    }
  }
  return levels;
}

// What the environment asks for, read once.
inline const LogLevels& EnvironmentLogLevels() {
  static const LogLevels levels = [] {
    const char* const text = getenv("VRANK_LOG");
    std::string_view bad;
    return text == nullptr ? LogLevels{}
                           : ParseLogLevels(text, &bad).value_or(LogLevels{});
  }();
  return levels;
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_LOG_LEVELS_H_
