// See calling_ranks.h.

#include "graph/membership/calling_ranks.h"

#include <set>

#include "graph/membership/leader.h"

namespace vrank::graph {

CallingRanks::CallingRanks(const Layout& layout, const std::vector<int32_t>& own_calls,
                           CallSource source)
    : layout_(layout), own_calls_(own_calls), source_(source) {
  if (source == CallSource::kReal)
    CompareIdsOf(own_calls);
  for (int32_t rank : own_calls) {
    const auto [leader, is_new] = leaders_.emplace(layout_.ClassOf(rank), rank);
    TakeLead(&leader->second, rank);
  }
}

void CallingRanks::CompareIdsOf(const std::vector<int32_t>& ranks) {
  of_one_run_ = ranks;
  const std::set<int32_t> different(ranks.begin(), ranks.end());
  all_of_one_run_ = different.size() == static_cast<size_t>(layout_.world_size());
}

int32_t CallingRanks::LeaderOf(int32_t rank) const {
  const auto leader = leaders_.find(layout_.ClassOf(rank));
  return leader == leaders_.end() ? -1 : leader->second;
}

bool CallingRanks::AllCallInThisRun(const std::vector<int32_t>& ranks) const {
  return all_of_one_run_ || std::all_of(ranks.begin(), ranks.end(), [&](int32_t rank) {
           return CallsInThisRun(rank);
         });
}

}  // namespace vrank::graph
