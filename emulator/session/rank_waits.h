// What the real ranks wait for at the moment: the input of schedule/decide.h, read from
// their segments.
//
// Each function reads the segments anew, since ranks run meanwhile.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_RANK_WAITS_H_
#define VRANK_EMULATOR_SESSION_RANK_WAITS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/connect/guest_link.h"
#include "emulator/world/world.h"
#include "schedule/decide.h"

namespace vrank::emulator {

struct RankWaits {
  schedule::Snapshot snapshot;                          // of all real ranks
  std::vector<std::optional<GuestLink::Limit>> limits;  // by Snapshot::ranks
};
RankWaits ReadWaits(const World& world);

// The wait with the earliest limit of all real ranks.
struct NextLimit {
  RealRank* rank;
  GuestLink::Limit limit;
  bool at_once;  // schedule::NextWait::at_once
};
std::optional<NextLimit> FindNextLimit(const World& world);
// False: an earlier limit has been published meanwhile, or the wait has ended.
bool IsStillNext(const NextLimit& next, const World& world);

bool AnyoneSleeps(const World& world);
int64_t LatestClock(const World& world);  // 0: there is no real rank

// Some rank has written a record that the emulator has not read.
bool AnyUnread(const World& world);

// REQUIRES: the rank is real.
const RealRank& RealRankOf(const World& world, int32_t rank);
std::vector<const RealRank*> AllRealRanks(const World& world);
// The links of real ranks that have not ended.
std::vector<const GuestLink*> OpenLinks(const World& world);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_RANK_WAITS_H_
