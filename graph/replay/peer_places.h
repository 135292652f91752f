// Which members of a communicator a follower exchanges data with, given what its leader
// does (RankOptions::leader).
//
// Thread rule: one thread. Errors: a leader that is not part of the run (FirstError).

#ifndef VRANK_GRAPH_REPLAY_PEER_PLACES_H_
#define VRANK_GRAPH_REPLAY_PEER_PLACES_H_

#include <cstdint>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/program/rooted_transfers.h"
#include "graph/replay/communicators.h"
#include "graph/replay/first_error.h"
#include "graph/replay/numbered.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

// Of the program's groups of transfers, the one that the rank takes part with.
inline uint32_t GroupOf(const RankState& r, const Op& op) {
  return r.options.follower
             ? GroupOfFollower(op, r.program->details(), r.communicators[op.a].index)
             : op.b;
}

template <class Step>
class PeerPlaces {
 public:
  PeerPlaces(RankTable& ranks, const Communicators<Step>& communicators,
             FirstError& error)
      : ranks_(ranks), communicators_(communicators), error_(error) {}

  // What to add to a peer of the rank's leader to get this rank's, in its communicator
  // `number`. False: the leader's index is not known yet, and the rank waits for it.
  bool Shift(RankState& r, uint32_t number, uint32_t* shift) const {
    if (!r.options.follower || r.options.leader < 0)
      return true;
    return ShiftOfFollower(r, number, shift);
  }

 private:
  bool ShiftOfFollower(RankState& r, uint32_t number, uint32_t* shift) const;

  RankTable& ranks_;
  const Communicators<Step>& communicators_;
  FirstError& error_;
};

template <class Step>
bool PeerPlaces<Step>::ShiftOfFollower(RankState& r, uint32_t number,
                                       uint32_t* shift) const {
  const uint32_t leader_index = ranks_.IndexOf(r.options.leader);
  if (leader_index == kNone || leader_index == RankTable::kAbsent) {
    error_.Report(absl::InvalidArgumentError(
        fmt::format("rank {}: follows rank {}, which is not part of the run; add it",
                    r.world_rank, r.options.leader)));
    return false;
  }
  RankState& leader = ranks_[leader_index];
  const LocalCommunicator& theirs = CommunicatorAt(leader, number, error_);
  if (theirs.state != LocalCommunicator::State::kBound &&
      theirs.state != LocalCommunicator::State::kReleased) {
    leader.followers_waiting.push_back(r.index);
    r.blocked = Blocked::kLeader;
    return false;
  }
  const LocalCommunicator& own = r.communicators[number];
  const uint32_t size = communicators_[own.communicator].size();
  *shift = (own.index + size - theirs.index % size) % size;
  return true;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_PEER_PLACES_H_
