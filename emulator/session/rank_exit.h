// How the end of a rank's process is told to the user, and what can be done about it.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_SESSION_RANK_EXIT_H_
#define VRANK_EMULATOR_SESSION_RANK_EXIT_H_

#include <cstdint>
#include <string>

#include "emulator/launch/rank_environment.h"
#include "emulator/launch/supervisor.h"

namespace vrank::emulator {

// "exited with 3", "was killed by SIGSEGV (Segmentation fault)". Exit codes by which
// shells tell of what they have started are explained.
std::string DescribeExit(const ExitStatus& status);

// Who ended: "rank 3", or the launcher that started all ranks.
std::string WhoEnded(const LaunchOptions& launch, int32_t rank);

// Where to look next: "what it wrote last is above", or the logs where there are some,
// and after a crash how to see it in a debugger.
std::string AfterExit(const LaunchOptions& launch, int32_t rank,
                      const ExitStatus& status);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_RANK_EXIT_H_
