// What the other ranks may do once the job has failed, and the report of it.
//
// With NCCL a rank that exits, or makes another call than the others, leaves these in a
// communicator whose work never ends. They notice by ncclCommGetAsyncError or by a time
// limit, abort it, write down what they have, and exit with a code of their own. So it
// is here: the ranks are informed (GuestLink::Fail), which ends every wait, and get a
// while of real time to react (docs/decisions/0025-failed-ranks.md). Virtual time is no
// longer kept: a rank's clock moves by its own costs, and limits of waits are reached
// as soon as the rank is quiet. Bytes of earlier results can still be fetched.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_FAILURE_REACTION_H_
#define VRANK_EMULATOR_SESSION_FAILURE_REACTION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <absl/status/status.h>

#include "emulator/session/rank_processes.h"
#include "emulator/watch/quiet_watch.h"
#include "emulator/watch/thread_watch.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

class FailureReaction {
 public:
  // Waits at most that long for events of processes, and handles them. An error: the
  // user has interrupted the run, or nothing starts or ends processes any more.
  using Poll = std::function<absl::Status(std::chrono::milliseconds)>;

  // All pointers outlive it. `grace`: how long ranks may react. `stuck`: the ranks that
  // ended the job by doing nothing, which will not react.
  FailureReaction(World* world, ThreadWatch* threads, const RankProcesses* processes,
                  std::set<int32_t> stuck, std::chrono::milliseconds grace);

  // The failure is the job's, and there are ranks that may react. Other failures are
  // about vrank, its files or its user.
  bool IsDue(const absl::Status& status) const;
  // What the user should know before Run.
  std::string Announcement(const absl::Status& status) const;
  // Informs the ranks and lets them react. Adds to `status` how they ended, unless
  // `poll` failed. REQUIRES: IsDue; called once.
  void Run(const Poll& poll, absl::Status* status);

 private:
  using Clock = QuietWatch::Clock;

  bool MayReact(const RealRank& rank) const;
  // Answers its fetches, and ends its wait once it is quiet.
  void Serve(RealRank* rank);
  // Until none may react, or `end`. An error is that of `poll`.
  absl::Status ServeAll(const Poll& poll, Clock::time_point end);
  // Until it is known how they ended, or `end`.
  absl::Status AwaitExits(const Poll& poll, Clock::time_point end) const;
  std::string HowOthersEnded() const;
  std::string Report() const;

  World* const world_;
  ThreadWatch* const threads_;
  const RankProcesses* const processes_;
  const std::set<int32_t> stuck_;
  const std::chrono::milliseconds grace_;
  std::set<int32_t> others_;                // ranks that may react, at first
  std::map<int32_t, QuietWatch> quiet_;     // by rank
  std::map<int32_t, uint64_t> never_came_;  // by rank: fetched bytes without a result
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_FAILURE_REACTION_H_
