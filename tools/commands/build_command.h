// `vrank build`: slices of a job become its execution graph.

#ifndef VRANK_TOOLS_COMMANDS_BUILD_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_BUILD_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunBuildCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_BUILD_COMMAND_H_
