// See layout_claims.h.

#include "graph/membership/layout_claims.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/deciding_rank.h"

namespace vrank::graph {
namespace {

bool Contains(const std::vector<int32_t>& ranks, int32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

void LayoutClaims::Note(const Key& key, const InitObservation& init) {
  if (!other_groups_.has_value())
    other_groups_ = OtherGroupsBySize(layout_);
  const auto [claimed, is_new] = claims_.try_emplace(key);
  Claim& inits = claimed->second;
  if (is_new) {
    const auto [begin, end] = other_groups_->equal_range(int64_t{init.size});
    for (auto other = begin; other != end; ++other)
      inits.others.push_back(other->second);
  }
  std::erase_if(inits.others, [&](const OtherGroups& other) {
    return !other.Fit(init) || std::any_of(inits.seen.begin(), inits.seen.end(),
                                           [&](const InitObservation& before) {
                                             return !other.Explain(init, before);
                                           });
  });
  inits.seen.push_back(init);
}

bool LayoutClaims::Excludes(int32_t rank, const Key& key, const Claim& inits,
                            const OtherGroups& other) const {
  const DimensionSet set = key.second;
  return layout_.PlaceInGroup(rank, set) !=
             other.layout->PlaceInGroup(rank, other.dimensions) ||
         std::any_of(inits.seen.begin(), inits.seen.end(),
                     [&](const InitObservation& init) {
                       return (layout_.Combine(rank, set, init.rank) == init.rank) !=
                              other.Share(rank, init.rank);
                     });
}

// One of the class of the first caller, which makes the same calls, before any other.
std::optional<int32_t> LayoutClaims::RankThatTells(const Key& key,
                                                   const Claim& inits) const {
  constexpr int32_t kTried = 128;
  const int32_t own_class = layout_.ClassOf(inits.seen.front().rank);
  const int32_t step = std::max(1, layout_.world_size() / kTried);
  std::optional<int32_t> best;
  std::pair<bool, std::ptrdiff_t> most = {false, 0};
  for (int32_t rank = 0; rank < layout_.world_size(); ++rank) {
    // The near ones and a sample.
    if ((rank >= kTried && rank % step != 0) || Contains(calling_.own_calls(), rank))
      continue;
    const auto told = std::count_if(
        inits.others.begin(), inits.others.end(),
        [&](const OtherGroups& other) { return Excludes(rank, key, inits, other); });
    const std::pair score(layout_.ClassOf(rank) == own_class, told);
    if (told > 0 && score > most) {
      best = rank;
      most = score;
    }
  }
  return best;
}

absl::Status LayoutClaims::Check(const Key& key,
                                 const std::vector<int32_t>& expected) const {
  const Claim& inits = claims_.at(key);
  const auto open = std::find_if(
      inits.others.begin(), inits.others.end(), [&](const OtherGroups& other) {
        return std::none_of(expected.begin(), expected.end(), [&](int32_t rank) {
          return Excludes(rank, key, inits, other);
        });
      });
  if (open == inits.others.end())
    return absl::OkStatus();
  const InitObservation& first = inits.seen.front();
  const auto [number, set] = key;
  GroupHint flag;
  flag.is_init = true;
  flag.number = number;
  flag.dimensions = set;
  const std::optional<int32_t> deciding = RankThatTells(key, inits);
  const std::string add =
      deciding.has_value()
          ? AdviceToAdd(calling_.source(), fmt::format("rank {} ({})", *deciding,
                                                       layout_.Describe(*deciding))) +
                ", or "
          : "";
  absl::Status status = absl::FailedPreconditionError(fmt::format(
      "communicator init {} of rank {} (size {}, index {}): the calls seen fit the "
      "group by {} of {}, ranks {}, and a group of another layout, as ranks {}; {}say "
      "which with --group {}",
      number, first.rank, first.size, first.place, layout_.SetName(set),
      layout_.Claim(), FormatRanks(layout_.Group(first.rank, set)),
      FormatRanks(open->Of(first.rank)), add, flag.ToString(layout_)));
  if (deciding.has_value())
    AttachDecidingRank(*deciding, &status);
  return status;
}

absl::Status LayoutClaims::CheckAll() const {
  for (const auto& [key, inits] : claims_)
    RETURN_IF_ERROR(Check(key, {}));
  return absl::OkStatus();
}

}  // namespace vrank::graph
