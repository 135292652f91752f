// `vrank validate`: does a run with few real ranks equal the run in which all are real?

#ifndef VRANK_TOOLS_COMMANDS_VALIDATE_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_VALIDATE_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunValidateCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_VALIDATE_COMMAND_H_
