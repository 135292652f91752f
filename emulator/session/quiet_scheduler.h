// Decisions at times at which no thread of the session can run.
//
// The rules are in schedule/quiet.h. This class takes the snapshot of the session and
// carries out the decision.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_QUIET_SCHEDULER_H_
#define VRANK_EMULATOR_SESSION_QUIET_SCHEDULER_H_

#include <chrono>

#include <absl/status/statusor.h>

#include "emulator/session/causality_watch.h"
#include "emulator/session/rank_waits.h"
#include "emulator/session/rest_watch.h"
#include "emulator/session/schedule_log.h"
#include "emulator/store/store_server.h"
#include "emulator/watch/quiet_watch.h"
#include "emulator/watch/thread_watch.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

class QuietScheduler {
 public:
  // All outlive it. `has_virtual_ranks`: keys of the store that no real rank sets may
  // be theirs. `ends_stuck_ranks`: schedule::QuietSession.
  QuietScheduler(World* world, StoreServer* store, RestWatch* rest,
                 ThreadWatch* threads, CausalityWatch* causality,
                 bool has_virtual_ranks, bool ends_stuck_ranks);

  enum class Outcome {
    kNothing,
    kDecided,
    // No thread can run, each waits for another one or for the emulator, and nothing is
    // left to decide: not even a limit.
    kDeadlock,
  };
  // Decides what comes first in virtual time. An error is the store's.
  absl::StatusOr<Outcome> Decide();

  // Something moved: the quiet while begins anew.
  void Moved() { quiet_.Moved(); }
  // The next looks should come soon.
  bool watching() const { return quiet_.watching(); }
  // A sleep of another process has ended shortly before: it may sleep again soon.
  bool expects_sleep() const { return QuietWatch::Clock::now() < short_looks_until_; }
  // For how long all ranks that have not ended have been quiet.
  std::chrono::milliseconds QuietFor();

 private:
  // Time alone ends that wait, and no earlier one can be pending: it is a sleep of
  // another process, all ranks rest, and nothing that has no time (a thread that waits
  // for one of its process, a key of the store) comes first.
  bool EndsAtRest(const NextLimit& next);
  void EndLimit(const NextLimit& next, ScheduleRule rule);

  World* const world_;
  StoreServer* const store_;
  RestWatch* const rest_;
  CausalityWatch* const causality_;
  const bool has_virtual_ranks_;
  const bool ends_stuck_ranks_;
  QuietWatch quiet_;  // of all ranks
  QuietWatch::Clock::time_point short_looks_until_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_QUIET_SCHEDULER_H_
