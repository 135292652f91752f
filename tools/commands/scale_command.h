// `vrank scale`: a graph's job with another number of data-parallel replicas.

#ifndef VRANK_TOOLS_COMMANDS_SCALE_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_SCALE_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunScaleCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_SCALE_COMMAND_H_
