// How every subcommand reads its arguments and ends.
//
//   vrank NAME [flags] [-- COMMAND...]
//
// What follows "--" is the program to run and is never looked at; before it, flags that
// are unknown, arguments that are left over, values that are empty and outputs that
// would overwrite an input or another output are errors, since they are nearly always
// mistakes. Exit codes: 0 fine, 1 the job failed, 2 the command line is wrong
// (docs/command_line.md).
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_COMMANDS_COMMAND_LINE_H_
#define VRANK_TOOLS_COMMANDS_COMMAND_LINE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

namespace CLI {
class App;
}  // namespace CLI

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

// Parses `flags` with `app` and checks the files that they name against each other
// (machine/file_options.h). A value is the exit code to end with at once (--help was
// printed, or an error).
std::optional<int> ParseFlags(const std::string& command, CLI::App* app,
                              const std::vector<std::string>& flags);

// Print "vrank NAME: message" on stderr and return the exit code.
int UsageError(const std::string& command, const std::string& message);
// A usage error where the status says that a flag cannot have its value
// (InvalidArgument or OutOfRange, and the message begins with the flag).
int JobError(const std::string& command, const absl::Status& status);

// Prints what a command says about a file that it has written. Where stdout takes no
// more, the file is what matters: that it is complete is said on stderr, and the code
// is kExitFine. `json`: the text was asked for (--json), and without it the command
// has failed.
int PrintSummary(const std::string& command, const std::string& text, bool json,
                 const std::string& file);
// Prints the result of a command that has also written `files`, which are named where
// stdout takes no more; the command has failed then.
int PrintResult(const std::string& command, const std::string& text,
                const std::vector<std::string>& files = {});

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_COMMAND_LINE_H_
