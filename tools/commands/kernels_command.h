// `vrank kernels`: tables of how long kernels took on a real GPU.

#ifndef VRANK_TOOLS_COMMANDS_KERNELS_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_KERNELS_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunKernelsCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_KERNELS_COMMAND_H_
