// `vrank demo`: a 1,024-rank job on this machine, without any stored input.

#ifndef VRANK_TOOLS_COMMANDS_DEMO_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_DEMO_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunDemoCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_DEMO_COMMAND_H_
