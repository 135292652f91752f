// `vrank emulate`: runs a few ranks of a job for real and plays the others.

#ifndef VRANK_TOOLS_COMMANDS_EMULATE_COMMAND_H_
#define VRANK_TOOLS_COMMANDS_EMULATE_COMMAND_H_

#include <string>
#include <vector>

#include "tools/commands/command_line.h"
#include "tools/job/job_flags.h"

namespace vrank::tools {

struct EmulateFlags {
  JobFlags job;
  std::string graph;  // a .vgraph file; empty: none
  int32_t world_size = 0;
  std::string real;
  bool assume_absent = false;
  std::string log_schedule;  // a file; empty: none
  bool collectives = false;
};

// Runs the job and prints its report. `command`: the subcommand's name, for messages.
int Emulate(const std::string& command, EmulateFlags flags,
            const std::vector<std::string>& program);

int RunEmulateCommand(const CommandLine& line);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMMANDS_EMULATE_COMMAND_H_
