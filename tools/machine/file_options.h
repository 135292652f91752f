// Options whose values name files.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_MACHINE_FILE_OPTIONS_H_
#define VRANK_TOOLS_MACHINE_FILE_OPTIONS_H_

#include "tools/machine/output_file.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace vrank::tools {

// Mark an option: its value names a file that the command reads, a file that it writes,
// or a folder that it writes into. Return the option.
CLI::Option* Reads(CLI::Option* option);
CLI::Option* Writes(CLI::Option* option);
CLI::Option* Fills(CLI::Option* option);

// What the marked options of a parsed command line name.
NamedFiles FilesOf(const CLI::App& app);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_FILE_OPTIONS_H_
