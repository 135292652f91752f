// `vrank compare`: what a change does to a job, and a gate for it; see
// docs/cli/compare.md.

#ifndef VRANK_TOOLS_COMMANDS_COMPARE_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_COMPARE_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunCompareCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_COMPARE_COMMAND_H_
