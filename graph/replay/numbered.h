// Lanes, tokens and communicators of a rank by the program's numbers.
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_REPLAY_NUMBERED_H_
#define VRANK_GRAPH_REPLAY_NUMBERED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/first_error.h"
#include "graph/replay/rank_state.h"

namespace vrank::graph {

// They are numbered densely from 1.
inline constexpr uint32_t kMaxNumber = 1u << 24;

template <class Numbered>
[[gnu::noinline]] auto& MakeAt(const RankState& r, Numbered& numbered, uint32_t number,
                               const char* what, FirstError& error) {
  if (number >= kMaxNumber) {
    error.Report(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} names {} {}; numbers above {} are not possible",
                    r.world_rank, r.cursor, what, number, kMaxNumber - 1)));
    number = 0;
  }
  if (number >= numbered.size())
    numbered.resize(std::max<size_t>(number + 1, numbered.size() * 2));
  return numbered[number];
}

// The element with that number, created where it is new. An error, and element 0, where
// the number is out of range.
template <class Numbered>
auto& At(const RankState& r, Numbered& numbered, uint32_t number, const char* what,
         FirstError& error) {
  if (number < numbered.size()) [[likely]]
    return numbered[number];
  return MakeAt(r, numbered, number, what, error);
}
inline Lane& LaneAt(RankState& r, uint32_t number, FirstError& error) {
  return At(r, r.lanes, number, "lane", error);
}
inline Token& TokenAt(RankState& r, uint32_t number, FirstError& error) {
  return At(r, r.tokens, number, "token", error);
}
inline LocalCommunicator& CommunicatorAt(RankState& r, uint32_t number,
                                         FirstError& error) {
  return At(r, r.communicators, number, "communicator", error);
}

// A program that is replayed uses a communicator that its host did not wait for: there
// the program, or another thread of it, had asked until it existed. The times of the
// questions are the program's, so the clock is not raised. True: the host waits.
inline bool AwaitsForming(RankState& r, const LocalCommunicator& local) {
  if (r.options.real || local.state != LocalCommunicator::State::kForming)
    return false;
  r.blocked = Blocked::kForming;
  return true;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_NUMBERED_H_
