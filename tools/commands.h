// The table of subcommands: what `vrank --help` lists and main() runs.
//
// Thread rule: constant data.

#ifndef VRANK_TOOLS_COMMANDS_H_
#define VRANK_TOOLS_COMMANDS_H_

#include <span>

#include "tools/command_line.h"

namespace vrank::tools {

// By name.
std::span<const Command> Commands();

// "0.1.0".
const char* Version();

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_H_
