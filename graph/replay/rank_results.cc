// See rank_results.h.

#include "graph/replay/rank_results.h"

#include <algorithm>

namespace vrank::graph {

RankResult RankResults::Of(int32_t world_rank) const {
  RankResult result;
  const RankState* const own = ranks_.Find(world_rank);
  if (own == nullptr)
    return result;
  const RankState& r = ranks_[folding_.PlayedBy(own->index)];
  result.end = r.host;
  result.memory_bytes = r.memory.bytes;
  result.peak_memory_bytes = r.memory.peak_bytes;
  result.peak_communicator_bytes = r.memory.peak_communicator_bytes;
  result.peak_context_bytes = r.memory.peak_context_bytes;
  result.ops = r.cursor - r.helper_questions;
  result.divergences = r.divergences + own->told_otherwise;
  result.host_waited = Duration::Nanoseconds(r.host_waited_ns);
  return result;
}

uint64_t RankResults::Unresolved(int32_t world_rank) const {
  const RankState* const r = ranks_.Find(world_rank);
  return r == nullptr ? 0 : r->program->Unread() + r->queued;
}

uint64_t RankResults::Ops() const {
  uint64_t sum = 0;
  for (const auto& r : ranks_.all())
    sum += folding_.StandsFor(r->index) * (r->cursor - r->helper_questions);
  return sum;
}

size_t RankResults::PlayedRanks() const {
  return static_cast<size_t>(
      std::count_if(ranks_.all().begin(), ranks_.all().end(),
                    [](const auto& r) { return r->blocked != Blocked::kPlayed; }));
}

bool RankResults::Finished() const {
  for (const auto& r : ranks_.all()) {
    if (r->blocked == Blocked::kPlayed || r->lost)
      continue;
    if (r->blocked != Blocked::kFinished || r->queued != 0)
      return false;
  }
  return true;
}

}  // namespace vrank::graph
