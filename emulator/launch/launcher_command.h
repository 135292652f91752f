// Commands that start the ranks of a job themselves: torchrun, accelerate launch,
// deepspeed, mpirun, srun.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_LAUNCH_LAUNCHER_COMMAND_H_
#define VRANK_EMULATOR_LAUNCH_LAUNCHER_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vrank::emulator {

struct LauncherCommand {
  std::string name;  // "torchrun", "accelerate launch"
  // How many ranks it starts, 0 to N-1. nullopt: its options do not state it (a
  // configuration file, a queue or the GPUs that it finds do), or other machines have
  // a part.
  std::optional<int32_t> ranks;
};

// nullopt where the command is no known launcher. Behind `env`, too; modules behind
// `python -m` count.
std::optional<LauncherCommand> RecognizeLauncher(
    const std::vector<std::string>& command);

// What messages call the launcher: its name, or that of the file that runs.
std::string LauncherName(const std::vector<std::string>& command);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_LAUNCHER_COMMAND_H_
