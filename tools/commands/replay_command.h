// `vrank replay`: plays an execution graph and says where the time goes.

#ifndef VRANK_TOOLS_COMMANDS_REPLAY_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_REPLAY_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunReplayCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_REPLAY_COMMAND_H_
