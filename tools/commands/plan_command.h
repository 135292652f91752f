// `vrank plan`: which ranks of a job to trace, and why.

#ifndef VRANK_TOOLS_COMMANDS_PLAN_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_PLAN_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunPlanCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_PLAN_COMMAND_H_
