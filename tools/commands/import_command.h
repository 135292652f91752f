// `vrank import kineto`: profiles of somebody else's run become an execution graph.

#ifndef VRANK_TOOLS_COMMANDS_IMPORT_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_IMPORT_COMMAND_H_

#include "tools/commands/command_line.h"

namespace vrank::tools {

int RunImportCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_IMPORT_COMMAND_H_
