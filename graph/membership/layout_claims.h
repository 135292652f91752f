// Inits of which the layout says the members: held against groups of other layouts.
//
// A unique id states no members. A group of the layout fits a call's size and place,
// and so may groups of a layout that was not stated. As for splits (split_inference.h),
// the layout counts as confirmed once none of those explains all calls that were seen.
// A trace's communicators are checked against their recorded sizes and places instead.
//
// Thread rule: one thread. Ranks are world ranks. Errors: the calls leave it open, with
// the rank whose calls would decide.

#ifndef VRANK_GRAPH_MEMBERSHIP_LAYOUT_CLAIMS_H_
#define VRANK_GRAPH_MEMBERSHIP_LAYOUT_CLAIMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/layout.h"
#include "graph/membership/partial_groups.h"

namespace vrank::graph {

class LayoutClaims {
 public:
  // The init's number among the rank's, and the dimensions of the group.
  using Key = std::pair<uint32_t, DimensionSet>;

  // Both outlive it.
  LayoutClaims(const Layout& layout, const CallingRanks& calling)
      : layout_(layout), calling_(calling) {}

  // The layout makes this init a group smaller than the world.
  void Note(const Key& key, const InitObservation& init);
  // `expected`: ranks whose calls are yet to come.
  absl::Status Check(const Key& key, const std::vector<int32_t>& expected) const;
  // All of them, where no more calls come.
  absl::Status CheckAll() const;

 private:
  // Of one key: the inits that were seen of ranks with calls of their own, and the
  // groups of other layouts that explain all of these as well.
  struct Claim {
    std::vector<InitObservation> seen;
    std::vector<OtherGroups> others;
  };

  // Whether the call of `rank`, if the layout is right, excludes those other groups.
  bool Excludes(int32_t rank, const Key& key, const Claim& claim,
                const OtherGroups& other) const;
  std::optional<int32_t> RankThatTells(const Key& key, const Claim& claim) const;

  const Layout& layout_;
  const CallingRanks& calling_;
  std::map<Key, Claim> claims_;
  std::optional<std::multimap<int64_t, OtherGroups>> other_groups_;  // once asked for
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_LAYOUT_CLAIMS_H_
