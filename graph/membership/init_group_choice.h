// Which group of the layout, smaller than the world, a communicator from a unique id
// is.
//
// Its size and the caller's place may fit several. Then the calls of others tell: those
// of the caller's class, which are at other places, and those that pass the same id.
//
// Thread rule: one thread. Ranks are world ranks. Errors: no group fits; kUnavailable
// where calls that are still to come will tell, and an error that names the ranks to
// add where none will.

#ifndef VRANK_GRAPH_MEMBERSHIP_INIT_GROUP_CHOICE_H_
#define VRANK_GRAPH_MEMBERSHIP_INIT_GROUP_CHOICE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/layout.h"
#include "graph/membership/layout_groups.h"
#include "graph/membership/seen_inits.h"
#include "graph/schema/op.h"

namespace vrank::graph {

class InitGroupChoice {
 public:
  // All outlive it.
  InitGroupChoice(const Layout& layout, const LayoutGroups& groups,
                  const CallingRanks& calling, const SeenInits& seen)
      : layout_(layout), groups_(groups), calling_(calling), seen_(seen) {}

  // `number`: of the caller's inits. The same answer for it from then on.
  absl::StatusOr<DimensionSet> Choose(int32_t caller, const InitProcesses& processes,
                                      const Creation& call, uint32_t number);

 private:
  using Pairs = std::vector<std::pair<DimensionSet, DimensionSet>>;

  void KeepThoseOfClass(int32_t caller, const InitProcesses& processes, uint32_t number,
                        std::vector<DimensionSet>* fitting) const;
  void KeepThoseWith(const std::vector<int32_t>& callers, int32_t caller,
                     std::vector<DimensionSet>* fitting) const;
  bool WillBeTold(int32_t caller, DimensionSet a, DimensionSet b) const;
  Pairs OpenPairs(int32_t caller, const std::vector<DimensionSet>& sets) const;
  // Ranks whose calls have to be seen, too, until one of `sets` is left for `caller`.
  std::vector<int32_t> RanksToDecide(int32_t caller,
                                     const std::vector<DimensionSet>& sets) const;
  int32_t RankThatTellsMost(int32_t caller, const Pairs& open, DimensionSet alike,
                            DimensionSet pipeline) const;
  absl::Status Undecided(const std::string& subject, int32_t caller, uint32_t number,
                         const std::vector<DimensionSet>& sets) const;

  const Layout& layout_;
  const LayoutGroups& groups_;
  const CallingRanks& calling_;
  const SeenInits& seen_;
  // By rank with its own calls and number of its init: what the calls of others told.
  std::map<std::pair<int32_t, uint32_t>, DimensionSet> decided_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_INIT_GROUP_CHOICE_H_
