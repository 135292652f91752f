// See rank_table.h.

#include "graph/replay/rank_table.h"

#include <utility>

#include <fmt/format.h>

namespace vrank::graph {

RankState& RankTable::Add(int32_t world_rank, uint32_t launch_queue_depth) {
  auto r = std::make_unique<RankState>(launch_queue_depth);
  r->index = size();
  r->world_rank = world_rank;
  SetIndex(world_rank, r->index);
  ranks_.push_back(std::move(r));
  return *ranks_.back();
}

void RankTable::SetIndex(int32_t world_rank, uint32_t index) {
  const auto place = static_cast<size_t>(world_rank);
  if (index_of_.size() <= place)
    index_of_.resize(place + 1, kNone);
  index_of_[place] = index;
}

bool RankTable::Follows(int32_t world_rank) const {
  const RankState* const r = Find(world_rank);
  return r != nullptr && r->options.follower;
}

bool RankTable::ReplaysRecording(int32_t world_rank) const {
  const RankState* const r = Find(world_rank);
  if (r == nullptr)
    return false;
  if (!r->options.follower || r->options.leader == world_rank)
    return !r->options.real;
  return ReplaysRecording(r->options.leader);
}

std::string RankTable::Describe(int32_t world_rank) const {
  const RankState* const r = Find(world_rank);
  const int32_t leader = r == nullptr ? -1 : r->options.leader;
  return leader < 0 || leader == world_rank
             ? fmt::format("rank {}", world_rank)
             : fmt::format("rank {} (as rank {}, which it follows)", world_rank,
                           leader);
}

std::string RankTable::AdviceOnValues(int32_t a, int32_t b) const {
  if (ReplaysRecording(a) == ReplaysRecording(b))
    return "";
  return fmt::format(
      "; rank {} plays what a run recorded, where the host may have read other values "
      "(routed experts, a skipped step): keep those of a run of all ranks with "
      "--record-payloads FILE, and read them with --recorded-payloads FILE, here and "
      "where ranks are traced",
      ReplaysRecording(a) ? a : b);
}

}  // namespace vrank::graph
