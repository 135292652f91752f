// What the threads of ranks wait for that are stuck outside of the emulator, in their
// own words (protocol::ThreadReport). Asked only where the run is about to end, since a
// signal may end a wait of the program's.
//
// Thread rule: one thread (the session's). Waits for the answers,
// schedule::kThreadReport of real time for each process at most.

#ifndef VRANK_EMULATOR_SESSION_THREAD_REPORTS_H_
#define VRANK_EMULATOR_SESSION_THREAD_REPORTS_H_

#include <set>
#include <string>

#include "emulator/world/world.h"

namespace vrank::emulator {

// Real ranks that have not ended, and do not wait in the emulator.
std::set<int32_t> RanksOutside(const World& world);

// Suffix of a message: the threads of the processes of each of those ranks; or "". Of
// many ranks and processes the first.
std::string ThreadReports(const World& world);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_THREAD_REPORTS_H_
