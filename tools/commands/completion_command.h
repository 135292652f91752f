// `vrank completion`: completion of commands and flags for bash, zsh and fish.

#ifndef VRANK_TOOLS_COMMANDS_COMPLETION_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_COMPLETION_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunCompletionCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_COMPLETION_COMMAND_H_
