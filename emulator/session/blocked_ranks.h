// Decisions about ranks that are blocked in the emulator.
//
// The rules are in schedule/blocked.h. This class takes the snapshot of the session,
// looks whether the rank rests whose wait is to expire, and carries the decision out.
//
// Followers have clocks of their own, so with them nothing is known to be past: such
// decisions wait until the session is quiet (quiet_scheduler.h).
//
// Where every rank is blocked, threads and queries continue until shortly after the
// latest clock: a watchdog may abort what its rank waits for. Time that no rank needs
// does not pass for them, so a job that is stuck is found.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_BLOCKED_RANKS_H_
#define VRANK_EMULATOR_SESSION_BLOCKED_RANKS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "emulator/session/causality_watch.h"
#include "emulator/session/rank_waits.h"
#include "emulator/session/rest_watch.h"
#include "emulator/session/schedule_log.h"
#include "emulator/watch/quiet_watch.h"
#include "emulator/watch/thread_watch.h"
#include "emulator/world/world.h"
#include "schedule/decide.h"

namespace vrank::emulator {

class BlockedRanks {
 public:
  // All outlive it. `has_followers`: virtual ranks have clocks of their own.
  BlockedRanks(World* world, RestWatch* rest, ThreadWatch* threads,
               CausalityWatch* causality, bool has_followers)
      : world_(world),
        rest_(rest),
        threads_(threads),
        causality_(causality),
        has_followers_(has_followers) {}

  // While some rank still runs: what is past for it. True if something was decided.
  bool DecidePast();
  // Where every rank is blocked. True if something was decided.
  bool DecideAllBlocked();
  // Where every rank is blocked or has ended. False: the job is stuck.
  bool LetSleepersCatchUp();

  // An op was executed, or a rank was closed: the time for LetSleepersCatchUp begins
  // anew.
  void Progressed() { catching_up_since_.reset(); }
  // Something else moved than clocks and queries.
  void MovedBeyondQueries() { only_queries_since_ns_.reset(); }

 private:
  // Lets that rank's earliest wait expire if the rank rests. False: not yet.
  bool Expire(const RankWaits& waits, size_t index);
  bool Answer(const schedule::OpenQuery& query, int64_t until_ns, ScheduleRule rule);
  bool DecideQuery();

  World* const world_;
  RestWatch* const rest_;
  ThreadWatch* const threads_;
  CausalityWatch* const causality_;
  const bool has_followers_;
  std::map<int32_t, QuietWatch> quiet_;  // by rank; only ranks with a pending limit
  // Since when LetSleepersCatchUp has been called.
  std::optional<QuietWatch::Clock::time_point> catching_up_since_;
  // The latest host clock when only queries were left to decide.
  std::optional<int64_t> only_queries_since_ns_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_BLOCKED_RANKS_H_
