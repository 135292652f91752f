// The table of subcommands: what `vrank --help` lists and main() runs.
//
// Thread rule: constant data.

#ifndef VRANK_TOOLS_COMMANDS_COMMANDS_H_
#define VRANK_TOOLS_COMMANDS_COMMANDS_H_

#include <span>

#include "tools/commands/command_line.h"

namespace vrank::tools {

// By name.
std::span<const Command> Commands();

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_COMMANDS_H_
