// The ranks of an engine, by index and by world rank.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_REPLAY_RANK_TABLE_H_
#define VRANK_GRAPH_REPLAY_RANK_TABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/replay/rank_state.h"

namespace vrank::graph {

class RankTable {
 public:
  // The index of a world rank that is assumed absent.
  static constexpr uint32_t kAbsent = kNone - 1;

  // A rank with the next index, at a stable address.
  RankState& Add(int32_t world_rank, uint32_t launch_queue_depth);
  void AddAbsent(int32_t world_rank) { SetIndex(world_rank, kAbsent); }
  void AddAlias(int32_t alias, int32_t world_rank) {
    SetIndex(alias, IndexOf(world_rank));
  }

  // kNone where the rank is unknown; kAbsent.
  uint32_t IndexOf(int32_t world_rank) const {
    const auto place = static_cast<size_t>(world_rank);
    return world_rank < 0 || place >= index_of_.size() ? kNone : index_of_[place];
  }
  // nullptr where the rank is unknown or absent.
  RankState* Find(int32_t world_rank) {
    const uint32_t index = IndexOf(world_rank);
    return index < size() ? ranks_[index].get() : nullptr;
  }
  const RankState* Find(int32_t world_rank) const {
    return const_cast<RankTable*>(this)->Find(world_rank);
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  RankState& operator[](uint32_t index) { return *ranks_[index]; }
  const RankState& operator[](uint32_t index) const { return *ranks_[index]; }
  // By index.
  std::span<const std::unique_ptr<RankState>> all() const { return ranks_; }

  // The rank runs the program of another one.
  bool Follows(int32_t world_rank) const;
  // For messages: "rank 5 (as rank 1, which it follows)".
  std::string Describe(int32_t world_rank) const;
  // For messages about two ranks whose calls differ: where one of them is real and the
  // other replays a recording, why that may be, and the way out. Else empty.
  std::string AdviceOnValues(int32_t a, int32_t b) const;

 private:
  void SetIndex(int32_t world_rank, uint32_t index);
  // Neither the rank nor its leader is real.
  bool ReplaysRecording(int32_t world_rank) const;

  std::vector<std::unique_ptr<RankState>> ranks_;
  std::vector<uint32_t> index_of_;  // by world rank
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_RANK_TABLE_H_
