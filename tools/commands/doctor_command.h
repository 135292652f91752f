// `vrank doctor`: what this machine can do, and what is missing.

#ifndef VRANK_TOOLS_COMMANDS_DOCTOR_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_DOCTOR_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunDoctorCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_DOCTOR_COMMAND_H_
