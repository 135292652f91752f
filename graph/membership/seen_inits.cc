// See seen_inits.h.

#include "graph/membership/seen_inits.h"

#include <algorithm>

namespace vrank::graph {
namespace {

bool Contains(const std::vector<SeenInits::Init>& inits, int32_t rank) {
  return std::any_of(inits.begin(), inits.end(),
                     [&](const SeenInits::Init& init) { return init.rank == rank; });
}

}  // namespace

void SeenInits::Note(int32_t rank, uint32_t number, const InitProcesses& processes,
                     const UniqueId& id) {
  const int32_t rank_class = layout_.ClassOf(rank);
  KeepLatestInits(rank_class, number, &of_class_);
  std::vector<Init>& seen = of_class_[{rank_class, number}];
  if (!Contains(seen, rank))
    seen.push_back({rank, processes.count, processes.place});
  if (!calling_.CallsInThisRun(rank))
    return;
  const auto [callers, is_new] = callers_.try_emplace(id);
  std::vector<int32_t>& ranks = callers->second;
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
    ranks.push_back(rank);
  if (!is_new)
    return;
  called_.push_back(id);
  if (called_.size() > kInitsWatched) {
    callers_.erase(called_.front());
    called_.pop_front();
  }
}

const std::vector<SeenInits::Init>* SeenInits::OfClass(int32_t caller,
                                                       uint32_t number) const {
  const auto seen = of_class_.find({layout_.ClassOf(caller), number});
  return seen == of_class_.end() ? nullptr : &seen->second;
}

const std::vector<int32_t>* SeenInits::CallersWith(const UniqueId& id) const {
  const auto callers = callers_.find(id);
  return callers == callers_.end() ? nullptr : &callers->second;
}

std::vector<int32_t> SeenInits::RanksYetToCall(uint32_t number) const {
  std::vector<int32_t> ranks = calling_.own_calls();
  std::erase_if(ranks, [&](int32_t rank) {
    const std::vector<Init>* const seen = OfClass(rank, number);
    return seen != nullptr && Contains(*seen, rank);
  });
  return ranks;
}

}  // namespace vrank::graph
