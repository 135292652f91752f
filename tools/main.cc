// The program vrank: a table of subcommands.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "tools/build_command.h"
#include "tools/command_line.h"
#include "tools/demo_command.h"
#include "tools/emulate_command.h"
#include "tools/kernels_command.h"
#include "tools/plan_command.h"
#include "tools/replay_command.h"
#include "tools/trace_command.h"
#include "tools/validate_command.h"

namespace {

using vrank::tools::Command;

constexpr Command kCommands[] = {
    {"build", "make the execution graph of a job from slices",
     vrank::tools::RunBuildCommand},
    {"demo", "emulate a 1,024-rank training job on this machine",
     vrank::tools::RunDemoCommand},
    {"emulate", "run a few ranks of a job for real and play the others",
     vrank::tools::RunEmulateCommand},
    {"kernels", "collect, merge and show times of kernels from a real GPU",
     vrank::tools::RunKernelsCommand},
    {"plan", "say which ranks of a job to trace, and why",
     vrank::tools::RunPlanCommand},
    {"replay", "play an execution graph and say where the time goes",
     vrank::tools::RunReplayCommand},
    {"trace", "record what some ranks of a job do, slice by slice",
     vrank::tools::RunTraceCommand},
    {"validate", "compare a fully real run of a small job with emulated ones",
     vrank::tools::RunValidateCommand},
};

void PrintHelp(FILE* out) {
  fmt::print(
      out,
      "vrank runs a few ranks of a large training job for real and plays all the "
      "others.\n\n"
      "usage: vrank COMMAND [flags] [-- PROGRAM ...]\n\nSubcommands:\n");
  for (const Command& command : kCommands)
    fmt::print(out, "  {:<10} {}\n", command.name, command.summary);
  fmt::print(out,
             "\n`vrank COMMAND --help` explains one; `vrank --version` says which "
             "vrank this is.\n");
}

int Dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    PrintHelp(stderr);
    return vrank::tools::kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    PrintHelp(stdout);
    return vrank::tools::kExitFine;
  }
  if (name == "--version") {
    fmt::print("vrank {}\n", VRANK_VERSION);
    return vrank::tools::kExitFine;
  }
  for (const Command& command : kCommands)
    if (name == command.name)
      return command.run(
          vrank::tools::SplitAtDashes({arguments.begin() + 1, arguments.end()}));
  fmt::print(stderr, "vrank: there is no command '{}'; `vrank --help` lists them\n",
             name);
  return vrank::tools::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  // A result that did not reach stdout (a full disk, a closed pipe) is no result.
  try {
    const int code = Dispatch({argv + 1, argv + argc});
    if (fflush(stdout) == 0)
      return code;
    fmt::print(stderr, "vrank: stdout: {}; the result is lost\n", strerror(errno));
  } catch (const std::system_error& error) {  // from fmt, where a write fails
    fmt::print(stderr, "vrank: stdout: {}; the result is lost\n", error.what());
  }
  return vrank::tools::kExitFailed;
}
