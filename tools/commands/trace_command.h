// `vrank trace`: records what some ranks of a job do, slice by slice.

#ifndef VRANK_TOOLS_COMMANDS_TRACE_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_TRACE_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunTraceCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_TRACE_COMMAND_H_
