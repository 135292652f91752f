#include "emulator/session/rank_waits.h"

#include <algorithm>

namespace vrank::emulator {

// The clocks are read before the rings (schedule::Snapshot::unread).
RankWaits ReadWaits(const World& world) {
  RankWaits waits;
  for (const auto& rank : world.real()) {
    const GuestLink& link = rank->link();
    schedule::RankState state{.rank = rank->rank(),
                              .closed = rank->closed(),
                              .blocked = link.Blocked(),
                              .clock_ns = link.host_now_ns(),
                              .running_issuers = link.running_issuers(),
                              .limit = {}};
    const auto limit = rank->closed() ? std::nullopt : link.EarliestLimit();
    if (limit.has_value())
      state.limit = {limit->ns, limit->sleeps, limit->turn != 0};
    waits.snapshot.ranks.push_back(state);
    waits.limits.push_back(limit);
  }
  waits.snapshot.unread = AnyUnread(world);
  return waits;
}

std::optional<NextLimit> FindNextLimit(const World& world) {
  const RankWaits waits = ReadWaits(world);
  const auto next = schedule::FindNextWait(waits.snapshot);
  if (!next.has_value())
    return std::nullopt;
  return NextLimit{world.real()[next->index].get(), *waits.limits[next->index],
                   next->at_once};
}

bool IsStillNext(const NextLimit& next, const World& world) {
  const std::optional<NextLimit> now = FindNextLimit(world);
  return now.has_value() && now->rank == next.rank &&
         now->limit.ticket == next.limit.ticket && now->limit.other == next.limit.other;
}

bool AnyoneSleeps(const World& world) {
  return schedule::AnyoneSleeps(ReadWaits(world).snapshot);
}

int64_t LatestClock(const World& world) {
  return schedule::LatestClock(ReadWaits(world).snapshot);
}

bool AnyUnread(const World& world) {
  const auto& real = world.real();
  return std::any_of(real.begin(), real.end(),
                     [](const auto& rank) { return rank->link().BytesWaiting() != 0; });
}

const RealRank& RealRankOf(const World& world, int32_t rank) {
  const auto& real = world.real();
  return **std::find_if(real.begin(), real.end(),
                        [&](const auto& each) { return each->rank() == rank; });
}

std::vector<const RealRank*> AllRealRanks(const World& world) {
  std::vector<const RealRank*> all;
  for (const auto& rank : world.real())
    all.push_back(rank.get());
  return all;
}

std::vector<const GuestLink*> OpenLinks(const World& world) {
  std::vector<const GuestLink*> links;
  for (const auto& rank : world.real())
    if (!rank->closed())
      links.push_back(&rank->link());
  return links;
}

}  // namespace vrank::emulator
