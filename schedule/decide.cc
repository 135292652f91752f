#include "schedule/decide.h"

#include <algorithm>
#include <utility>

namespace vrank::schedule {
namespace {

bool Sleeps(const RankState& state) {
  return state.limit.has_value() && state.limit->sleeps;
}

}  // namespace

int64_t EarliestClock(const Snapshot& snapshot) {
  if (snapshot.unread)
    return 0;
  int64_t earliest = kNoTime;
  for (const RankState& state : snapshot.ranks)
    if (!state.closed && !state.blocked)
      earliest = std::min(earliest, state.clock_ns);
  return earliest;
}

// A thread that sleeps issues nothing until then, unless another one of its rank does.
// It may sleep beside one that waits in the emulator.
int64_t EarliestIssue(const Snapshot& snapshot, int32_t except) {
  if (snapshot.unread)
    return 0;
  int64_t earliest = kNoTime;
  for (const RankState& state : snapshot.ranks) {
    if (state.rank == except || state.closed)
      continue;
    if (state.blocked)
      earliest = std::min(earliest, Sleeps(state) ? state.limit->ns : kNoTime);
    else if (Sleeps(state) && state.running_issuers <= 1)
      earliest = std::min(earliest, std::max(state.clock_ns, state.limit->ns));
    else
      earliest = std::min(earliest, state.clock_ns);
  }
  return earliest;
}

int64_t EarliestLimit(const Snapshot& snapshot) {
  int64_t earliest = kNoTime;
  for (const RankState& state : snapshot.ranks)
    if (state.limit.has_value())
      earliest = std::min(earliest, state.limit->ns);
  return earliest;
}

int64_t LatestClock(const Snapshot& snapshot) {
  int64_t latest = 0;
  for (const RankState& state : snapshot.ranks)
    latest = std::max(latest, state.clock_ns);
  return latest;
}

bool AnyoneSleeps(const Snapshot& snapshot) {
  return std::any_of(snapshot.ranks.begin(), snapshot.ranks.end(), Sleeps);
}

std::optional<NextWait> FindNextWait(const Snapshot& snapshot) {
  std::optional<NextWait> running, blocked;
  const auto limit = [&snapshot](const NextWait& next) {
    return *snapshot.ranks[next.index].limit;
  };
  for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
    const RankState& state = snapshot.ranks[i];
    if (!state.limit.has_value())
      continue;
    std::optional<NextWait>& first = state.blocked ? blocked : running;
    if (!first.has_value() || state.limit->ns < limit(*first).ns)
      first = NextWait{i, state.limit->sleeps};
  }
  if (!blocked.has_value() || (!running.has_value() && !limit(*blocked).is_turn))
    return running;
  if (!running.has_value())
    return blocked;
  const auto place = [&](const NextWait& next) {
    return std::pair(limit(next).ns, snapshot.ranks[next.index].rank);
  };
  if (place(*running) < place(*blocked))
    return running;
  blocked->at_once |= running->at_once;
  return blocked;
}

std::optional<size_t> FindBlockedBefore(const Snapshot& snapshot, int64_t ns,
                                        bool all_blocked) {
  std::optional<size_t> earliest;
  for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
    const RankState& state = snapshot.ranks[i];
    if (state.closed || !state.blocked || !state.limit.has_value() ||
        state.limit->ns >= ns || (state.limit->is_turn && !all_blocked))
      continue;
    earliest = i;
    ns = state.limit->ns;
  }
  return earliest;
}

std::vector<size_t> ThoseBefore(const Snapshot& snapshot, int32_t of, int64_t ns,
                                bool all) {
  std::vector<size_t> before;
  for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
    const RankState& state = snapshot.ranks[i];
    const bool later = std::pair(state.clock_ns, state.rank) > std::pair(ns, of);
    if (!state.closed && (all || state.rank == of || state.blocked || !later))
      before.push_back(i);
  }
  return before;
}

}  // namespace vrank::schedule
