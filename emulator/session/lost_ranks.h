// Ranks that have failed while others run, where the job goes on without them
// (SessionOptions::survive_failures, docs/decisions/0026-lost-ranks.md).
//
// The last records of a lost rank are read first, since the calls that they state were
// made. The world is informed then, and by it the members of the rank's communicators.
// Whether the others can continue is up to them: where all wait for the lost rank, the
// job is stuck.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_LOST_RANKS_H_
#define VRANK_EMULATOR_SESSION_LOST_RANKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "emulator/session/rank_processes.h"
#include "emulator/world/cast.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

class LostRanks {
 public:
  // All outlive it. `survive_failures`: false where each failure ends the job.
  LostRanks(bool survive_failures, std::span<const VirtualRank> virtual_ranks,
            const RankProcesses* processes)
      : survive_failures_(survive_failures),
        virtual_ranks_(virtual_ranks),
        processes_(processes) {}

  // In the order in which they were lost.
  const std::vector<int32_t>& ranks() const { return ranks_; }
  bool Contains(int32_t rank) const;
  // Adds a rank that has failed. False: the job cannot go on without it, because it has
  // never connected, has followers, or no other rank runs.
  bool Add(int32_t rank);
  // Takes those out of the world whose last records have been read. True where there
  // was one.
  absl::StatusOr<bool> TakeOut(World* world);
  // Suffix of the message that `rank` has failed: its followers, and the ranks that
  // were lost before; or "".
  std::string DescribeBefore(int32_t rank) const;

 private:
  std::vector<int32_t> FollowersOf(int32_t rank) const;

  const bool survive_failures_;
  const std::span<const VirtualRank> virtual_ranks_;
  const RankProcesses* const processes_;
  std::vector<int32_t> ranks_;
  size_t taken_out_ = 0;  // the first ones of ranks_
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_LOST_RANKS_H_
