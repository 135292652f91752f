// What messages about a failed or stuck job say of the ranks and of the store.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_SESSION_FAILURE_TEXTS_H_
#define VRANK_EMULATOR_SESSION_FAILURE_TEXTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "emulator/launch/rank_environment.h"
#include "emulator/launch/supervisor.h"
#include "emulator/store/gloo_peers.h"
#include "emulator/store/store_server.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

// Suffix of a message: "; meanwhile", then one line for each rank that waits in the
// emulator, and one for each wait at the store; or "".
std::string Meanwhile(const World& world, const StoreServer& store);

// The same with RefusedCalls(): a thread may have exited after one while others wait.
std::string MeanwhileOrRefused(const World& world, const StoreServer& store);

// Names of calls that were refused, with what to set instead; or "".
std::string RefusedCalls(const World& world);

// Suffix "; it had read N bytes that vrank made up", or "".
std::string MadeUpFor(int32_t rank, const World& world, const GlooPeers& gloo,
                      int32_t world_size);
// If the rank has gathered objects of virtual ranks, which are copies of real ranks'
// (such as the plan of a sharded checkpoint), attaches all virtual ranks to the error,
// so that the job restarts with them real. Does nothing if there are more than
// graph::kMostDecidingRanks.
void AttachCopiedRanks(int32_t rank, const World& world, const GlooPeers& gloo,
                       int32_t world_size, absl::Status* error);

// The error of a job in which every real rank waits or has ended. `exits`: of ranks
// that have ended. `lost`: ranks without which the job went on. `threads`: of ranks
// that do not wait in the emulator (ThreadReports).
absl::Status StuckError(const World& world, const StoreServer& store,
                        const LaunchOptions& launch,
                        const std::map<int32_t, ExitStatus>& exits,
                        const std::vector<int32_t>& lost, const std::string& threads);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_FAILURE_TEXTS_H_
