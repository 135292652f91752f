// How long a wait of one rank is delayed by ranks that compute.
//
// A rank that computes may be about to do what another one waits for, so it is waited
// for, but not for longer than a budget of CPU time (real time where it has no process
// yet). It is left behind then and counted (LossId::kRanksLeftBehind). CPU time, so
// that the load of the machine has no effect.
//
// Thread rule: one thread (the session's). Reads /proc.

#ifndef VRANK_EMULATOR_SESSION_COMPUTING_RANKS_H_
#define VRANK_EMULATOR_SESSION_COMPUTING_RANKS_H_

#include <cstdint>
#include <map>
#include <set>

#include "emulator/world/world.h"

namespace vrank::emulator {

class ComputingRanks {
 public:
  // `world` outlives it.
  explicit ComputingRanks(World* world) : world_(world) {}

  // The rank has used its budget since its clock last moved. It is left behind until
  // its clock moves. `own`: the wait is one of this rank's own threads.
  bool IsLeftBehind(const RealRank& rank, bool own);
  // The rank has used its budget since the first call for the turn that a thread of
  // rank `waiter` waits for at virtual time `ns`. Its clock may move meanwhile: it may
  // poll for what that thread is to do.
  bool HasUsedBudget(const RealRank& rank, int32_t waiter, int64_t ns);

 private:
  void CountLeftBehind(const RealRank& rank, int64_t clock_ns);

  // A rank's state when its clock last moved.
  struct Start {
    int64_t clock_ns = -1;
    uint64_t written = 0;
    int64_t began_ms = 0;  // CPU time if `has_process`, else real time
    bool has_process = false;
    bool left_behind = false;
    int own = 0;  // how often its own wait ended without it; never reset
  };
  struct Turn {
    int32_t waiter = -1;
    int64_t ns = 0;
    std::map<int32_t, int64_t> cpu_ms;  // by rank, at the first call
    std::set<int32_t> left_behind;
  };

  World* const world_;
  std::map<int32_t, Start> starts_;  // by rank
  Turn turn_;                        // the latest one
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_COMPUTING_RANKS_H_
