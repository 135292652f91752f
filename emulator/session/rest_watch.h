// Whether no thread of some ranks can run.
//
// Ranks are at rest if the kernel reports all their threads asleep in two polls between
// which none has run, and none of their requests waits to be read by the emulator. A
// rank without a process, with a wait that has just been ended, or with a thread that
// wakes up by itself is not at rest.
//
// Thread rule: one thread (the session's). Reads /proc.

#ifndef VRANK_EMULATOR_SESSION_REST_WATCH_H_
#define VRANK_EMULATOR_SESSION_REST_WATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/session/event_poll.h"
#include "emulator/watch/thread_watch.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

class RestWatch {
 public:
  // All outlive it. `events`: what the servers of the session have not read.
  RestWatch(const World* world, const EventPoll* events, ThreadWatch* threads)
      : world_(world), events_(events), threads_(threads) {}

  // How often the threads of each process have run so far; nullopt where the ranks are
  // not at rest. Equal values in two calls: none has run in between.
  using Runs = std::vector<uint64_t>;
  std::optional<Runs> Look(const std::vector<const RealRank*>& ranks, ThreadsIn where);
  // Of ranks that were at rest: none of their threads has run since that call.
  bool HaveRested(const std::vector<const RealRank*>& ranks, ThreadsIn where,
                  const Runs& since);
  bool AreAtRest(const std::vector<const RealRank*>& ranks) {
    return Look(ranks, ThreadsIn::kAnyWait).has_value();
  }
  // Every thread of the job waits for another one: nothing outside of it ends a wait.
  bool AllWaitForThreads();

 private:
  std::optional<Runs> RunsOfWaiters(const std::vector<const RealRank*>& ranks,
                                    ThreadsIn where);
  bool AnythingUnread() const;

  const World* const world_;
  const EventPoll* const events_;
  ThreadWatch* const threads_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_REST_WATCH_H_
