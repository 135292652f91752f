// Ends waits in the order of virtual time, where ranks wait for a time.
//
// Of all waits with a limit, sleeps among them, the one that ends first in virtual time
// is decided first, and not before each other rank is at rest or can only do what comes
// later. Data that ranks exchange outside of NCCL (by a socket, a store, a file) has
// then arrived when the sleeper wakes up, however long the other rank computes in real
// time, and two runs are equal. A wait that something else could end must also have
// been at rest for a while, since that may come from outside of the session.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_WAIT_SCHEDULER_H_
#define VRANK_EMULATOR_SESSION_WAIT_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "emulator/session/causality_watch.h"
#include "emulator/session/computing_ranks.h"
#include "emulator/session/rest_watch.h"
#include "emulator/watch/quiet_watch.h"
#include "emulator/watch/thread_watch.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

class WaitScheduler {
 public:
  // All outlive it. `has_followers`: virtual ranks have clocks of their own.
  WaitScheduler(World* world, RestWatch* rest, ThreadWatch* threads,
                CausalityWatch* causality, bool has_followers);

  // Ends the wait with the earliest limit if it is a sleep, or if some rank still runs.
  // Other waits end once the session is quiet (quiet_scheduler.h). True if one ended.
  bool EndNextWait();
  // Answers the oldest query "not yet" where some rank sleeps: while sleeps end one
  // after the other, the session is never quiet for long enough. True if it did.
  bool AnswerNextQuery();

 private:
  // A decision about `rank` at virtual time `ns` that is pending. kWait (something else
  // could end it) and kSleep: once all ranks with earlier clocks rest. kTurn (a
  // thread's turn passes) and kQuery (answered "not yet"): once all ranks rest.
  struct Decision {
    enum class Kind { kWait, kSleep, kTurn, kQuery };
    const RealRank* rank;
    int64_t ns;
    Kind kind;
    bool AllRest() const { return kind == Kind::kTurn || kind == Kind::kQuery; }
  };
  // The ranks that have to rest before it.
  std::vector<const RealRank*> RanksBefore(const Decision& next) const;
  // Of `ranks`, those left behind are removed.
  bool AreAtRest(const Decision& next, std::vector<const RealRank*> ranks);

  World* const world_;
  RestWatch* const rest_;
  CausalityWatch* const causality_;
  const bool has_followers_;
  ComputingRanks computing_;
  QuietWatch quiet_;  // of the ranks that must rest before the next wait ends
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_WAIT_SCHEDULER_H_
