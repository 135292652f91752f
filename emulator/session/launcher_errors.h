// Errors about real ranks that did not start as they should, with a launcher or
// without.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_SESSION_LAUNCHER_ERRORS_H_
#define VRANK_EMULATOR_SESSION_LAUNCHER_ERRORS_H_

#include <chrono>
#include <string>

#include <absl/status/status.h>

#include "emulator/connect/guest_server.h"
#include "emulator/launch/rank_environment.h"
#include "emulator/session/rank_processes.h"

namespace vrank::emulator {

// The launcher has not started real ranks, and nothing has used the CPU for
// `hang_after`. REQUIRES: some rank is not started.
std::string DescribeNotStarted(const LaunchOptions& launch,
                               const RankProcesses& processes,
                               std::chrono::milliseconds hang_after);

// What was launched for the rank has ended with success, and no process of the rank has
// connected.
absl::Status NeverConnectedError(const LaunchOptions& launch,
                                 const RankProcesses& processes, int32_t rank);

// A process was refused: it is no real rank's, or breaks the protocol.
absl::Status RefusedError(const LaunchOptions& launch, const RankProcesses& processes,
                          const GuestEvent& event);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_LAUNCHER_ERRORS_H_
