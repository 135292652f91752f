// Finds a job whose real ranks wait at the store for what no rank sets.
//
// A rank that is not real would have set it (quiet_scheduler.h). Where all are real, a
// wait at the store is equivalent to one in the emulator: once every rank waits in the
// one or the other and none runs, the job is stuck. That applies to keys of PyTorch
// itself, which a rank that waits here will not set. A wait for a key of the program
// ends by the limit that the program gave it.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_STORE_WATCH_H_
#define VRANK_EMULATOR_SESSION_STORE_WATCH_H_

#include <chrono>
#include <optional>

#include "emulator/session/rest_watch.h"
#include "emulator/store/store_server.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

class StoreWatch {
 public:
  // All outlive it. `all_real`: otherwise such a job is not stuck.
  StoreWatch(const World* world, const StoreServer* store, RestWatch* rest,
             bool all_real)
      : world_(world), store_(store), rest_(rest), all_real_(all_real) {}

  // Polls unless the last poll is recent. True: the job is stuck.
  bool IsStuck();
  // Something moved that may set a key.
  void Moved() { since_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool AllWait();

  const World* const world_;
  const StoreServer* const store_;
  RestWatch* const rest_;
  const bool all_real_;
  Clock::time_point last_check_;
  // Since when some rank waits at the store while nothing but clocks moves.
  std::optional<Clock::time_point> since_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_STORE_WATCH_H_
