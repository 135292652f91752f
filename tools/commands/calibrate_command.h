// `vrank calibrate`: a cluster description from a site's nccl-tests logs.

#ifndef VRANK_TOOLS_COMMANDS_CALIBRATE_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_CALIBRATE_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunCalibrateCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_CALIBRATE_COMMAND_H_
