// Communicators whose members are known by the unique id alone: where all members call
// in one run.
//
// The members are those that pass the id, each at the place that it passes, in whatever
// order they call with several (id_meetings.h). A communicator has the name that its
// first member's calls give it. Where these cannot, since it is no group of the layout
// or an init before it is still open, the name says which of that member's inits it is:
// "ranks 0-2#init1".
//
// Thread rule: one thread. Ranks are world ranks. Errors: members that the layout puts
// into other groups; kUnavailable where others are yet to call.

#ifndef VRANK_GRAPH_MEMBERSHIP_INITS_BY_ID_H_
#define VRANK_GRAPH_MEMBERSHIP_INITS_BY_ID_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/group_repeats.h"
#include "graph/membership/id_meetings.h"
#include "graph/membership/init_group_choice.h"
#include "graph/membership/layout.h"
#include "graph/membership/layout_groups.h"
#include "graph/replay/membership.h"

namespace vrank::graph {

class InitsById {
 public:
  using InitCaller = Membership::InitCaller;
  using InitAnswer = Membership::InitAnswer;

  // All outlive it.
  InitsById(const Layout& layout, const LayoutGroups& groups,
            const CallingRanks& calling, InitGroupChoice& choice, GroupRepeats& repeats)
      : layout_(layout),
        groups_(groups),
        calling_(calling),
        choice_(choice),
        repeats_(repeats) {}

  // nullopt: the layout says the members. REQUIRES: the caller calls in this run.
  absl::StatusOr<std::optional<InitAnswer>> Init(const InitCaller& caller,
                                                 const InitProcesses& processes,
                                                 const Creation& call);
  // As Membership::DescribeInit.
  std::string Describe(const InitCaller& caller, const Creation& call,
                       std::vector<int32_t>* awaited) const;
  // An error where the processes of the job cannot have equally many members each.
  absl::StatusOr<InitProcesses> ProcessesOf(int32_t caller, const Creation& call) const;

 private:
  using Calls = std::vector<IdMeetings::Call>;
  struct Waiting {
    UniqueId id;
    uint32_t ranks = 0;
    std::string group;  // of the layout, where one fits
    bool ambiguous = false;
  };
  // A rank, and the number of its init.
  using Key = std::pair<int32_t, uint32_t>;

  InitAnswer Take(const Key& key);
  IdMeetings::Call CallOf(const InitCaller& caller, const Creation& call,
                          const std::vector<DimensionSet>& fitting);
  absl::Status Tell(const Calls& members);
  std::string NameOf(const Calls& members, const std::vector<int32_t>& ranks);
  // "; rank 0 passes it for 4 ranks (its init 0)", for each rank but `known` that waits
  // with what may be the call's id (`what`), and another size; or nothing.
  std::string DescribeOtherSizes(int32_t caller, const Creation& call,
                                 const std::set<int32_t>& known,
                                 const char* what) const;
  std::vector<DimensionSet> FittingGroups(const InitCaller& caller,
                                          const Creation& call) const;
  // Ranks other than `callers` that wait with as many members.
  std::vector<int32_t> Elsewhere(const Creation& call,
                                 const std::set<int32_t>& callers) const;

  const Layout& layout_;
  const LayoutGroups& groups_;
  const CallingRanks& calling_;
  InitGroupChoice& choice_;
  GroupRepeats& repeats_;
  IdMeetings meetings_;
  std::map<Key, InitAnswer> met_;  // that their ranks have not been told yet
  std::map<Key, Waiting> waiting_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_INITS_BY_ID_H_
