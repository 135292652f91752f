// How every subcommand reads its arguments and ends.
//
//   vrank NAME [flags] [-- COMMAND...]
//
// What follows "--" is the program to run and is never looked at; before it, flags that
// are unknown, arguments that are left over and values that are empty are errors, since
// they are nearly always mistakes. Exit codes: 0 fine, 1 the job failed, 2 the command
// line is wrong.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_COMMAND_LINE_H_
#define VRANK_TOOLS_COMMAND_LINE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <absl/status/status.h>

namespace vrank::tools {

inline constexpr int kExitFine = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

struct CommandLine {
  std::vector<std::string> flags;    // before "--"
  std::vector<std::string> program;  // after it
};
CommandLine SplitAtDashes(const std::vector<std::string>& arguments);

// One row of main's table.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const CommandLine& line);
};

// The page docs/cli/NAME.md.
const char* HelpPage(const std::string& name);

// Parses `flags` with `app`. A value is the exit code to end with at once (--help was
// printed, or an error).
std::optional<int> ParseFlags(const std::string& command, CLI::App* app,
                              const std::vector<std::string>& flags);

// Prints "vrank NAME: message" on stderr.
int UsageError(const std::string& command, const std::string& message);
int JobError(const std::string& command, const absl::Status& status);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMAND_LINE_H_
